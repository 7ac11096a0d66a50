"""The Protobuf files of a schema: its own and all that it imports, in a pool of descriptors."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from proto_schema_parser import ast

from wirekafka.schemas.protobuf import imports as built_in
from wirekafka.schemas.protobuf.descriptor import draft
from wirekafka.schemas.protobuf.source import MAX_TEXT_CHARS, syntax_tree
from wirekafka.schemas.protobuf.text import text_of
from wirekafka.schemas.protobuf.tree import default_json_name, tree_of
from wirekafka.schemas.schema import Dependency, SchemaError

FILE_NAME = "default"
"""The name of the file of a schema, as registries call it in what they serialize."""

_MAX_IMPORTS = 1000
_MAX_IMPORT_DEPTH = 80
"""Of files that import files that import files."""
_MAX_REASON_CHARS = 500
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*", re.ASCII)
_OPTIONS_FILE = "google/protobuf/descriptor.proto"
_BUILDING = re.compile(r"^Couldn't build proto file into descriptor pool: ")


@dataclass(frozen=True, slots=True)
class ProtobufFile:
    """The file of a schema, in source and as a descriptor, with all that it needs."""

    tree: ast.File
    proto: descriptor_pb2.FileDescriptorProto
    descriptor: FileDescriptor
    pool: DescriptorPool

    def normal_tree(self) -> ast.File:
        """The tree of the descriptor, with the imports of the source, found or not."""
        tree = tree_of(self.proto, self.pool)
        imports = [each for each in self.tree.file_elements if isinstance(each, ast.Import)]
        others = [each for each in tree.file_elements if not isinstance(each, ast.Import)]
        return ast.File(tree.syntax, tree.edition, [*imports, *others])


def read(text: str, dependencies: Sequence[Dependency]) -> ProtobufFile:
    """The file of a text: source, or a descriptor in base64. Raises SchemaError."""
    try:
        return _read(text, dependencies)
    except SchemaError as error:  # Its reason may have names of any length.
        raise SchemaError(str(error)[:_MAX_REASON_CHARS]) from error


def _read(text: str, dependencies: Sequence[Dependency]) -> ProtobufFile:
    reader = _Reader({each.name: each.text for each in dependencies})
    given = _descriptor(text)
    if given is not None:
        proto = _plain(given, FILE_NAME)
        reader.load_imports(proto)
        # The text is what a registry keeps: from now on, it is the source.
        source = text_of(tree_of(proto, reader.pool(proto)))
        return _read(source, dependencies)
    tree = syntax_tree(text)
    proto = reader.described(tree, FILE_NAME)
    pool = reader.pool(proto)
    return ProtobufFile(tree, proto, pool.FindFileByName(FILE_NAME), pool)


class _Reader:
    """Reads what files import, each once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        """All files that are read, what a file imports before the file."""
        self._open: list[str] = []

    def described(self, tree: ast.File, name: str) -> descriptor_pb2.FileDescriptorProto:
        """The descriptor of a file, whose imports are read."""
        drafted = draft(tree, name)
        missing = self.load_imports(drafted.file)
        try:
            drafted.resolve(self._visible(drafted.file))
        except SchemaError as error:
            if not missing:
                raise
            names = ", ".join(f'"{each}"' for each in missing)
            raise SchemaError(f"{error} (the import {names} is not found)") from error
        drafted.set_options()
        if drafted.has_custom_options():
            self._load(_OPTIONS_FILE)
            drafted.set_custom_options(self.pool(drafted.file))
        return drafted.file

    def load_imports(self, file: descriptor_pb2.FileDescriptorProto) -> list[str]:
        """Read what a file imports; what does not exist is taken out of it, and returned.

        Confluent's registry accepts such imports, which most often define options.
        """
        self._open.append(file.name)
        missing = [name for name in file.dependency if not self._load(name)]
        self._open.pop()
        for name in missing:
            _remove_import(file, name)
        return missing

    def pool(self, file: descriptor_pb2.FileDescriptorProto) -> DescriptorPool:
        """A pool of a file and all files that are read. Raises SchemaError if they do not fit."""
        pool = DescriptorPool()
        for each in (*self._files.values(), file):
            try:
                pool.AddSerializedFile(each.SerializeToString())
            except (TypeError, ValueError) as error:
                reason = _BUILDING.sub("", str(error).strip())[:_MAX_REASON_CHARS]
                where = "" if each is file else f" in {each.name}"
                raise SchemaError(f"Could not build Protobuf{where} - {reason}") from error
        return pool

    def _load(self, name: str) -> bool:
        if name in self._files:
            return True
        if name in self._open:
            raise SchemaError(f"Files import each other: {' -> '.join([*self._open, name])}")
        if len(self._files) > _MAX_IMPORTS or len(self._open) > _MAX_IMPORT_DEPTH:
            raise SchemaError("Too many files are imported")
        text = self._texts.get(name)
        file = None if text is not None else built_in.descriptor(name)
        text = text if text is not None else built_in.source(name)
        if file is None and text is None:
            return False
        if file is None and text is not None:
            file = self._parsed(text, name)
        assert file is not None
        if name not in self._files:
            self.load_imports(file)
            self._files[name] = file
        return True

    def _parsed(self, text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
        given = _descriptor(text)
        if given is not None:
            return _plain(given, name)
        return self.described(syntax_tree(text), name)

    def _visible(
        self, file: descriptor_pb2.FileDescriptorProto
    ) -> Iterator[descriptor_pb2.FileDescriptorProto]:
        """What a file imports, and what these import publicly."""
        pending = list(file.dependency)
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            imported = self._files[name]
            yield imported
            pending += [imported.dependency[index] for index in imported.public_dependency]


def _descriptor(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """The descriptor that a text is in base64; None for source, in which `;` or `{` stands."""
    if len(text) > MAX_TEXT_CHARS or not _BASE64.fullmatch(text):
        return None
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    except (binascii.Error, DecodeError):
        return None


def _plain(
    file: descriptor_pb2.FileDescriptorProto, name: str
) -> descriptor_pb2.FileDescriptorProto:
    """A descriptor as it would be of its own text: no comments, and no names that follow."""
    file.name = name
    file.ClearField("source_code_info")
    if file.syntax == "proto2":
        file.ClearField("syntax")
    for message in file.message_type:
        _forget_json_names(message)
    for extension in file.extension:
        _forget_json_name(extension)
    return file


def _forget_json_names(message: descriptor_pb2.DescriptorProto) -> None:
    for field in (*message.field, *message.extension):
        _forget_json_name(field)
    for nested in message.nested_type:
        _forget_json_names(nested)


def _forget_json_name(field: descriptor_pb2.FieldDescriptorProto) -> None:
    if field.json_name == default_json_name(field.name):
        field.ClearField("json_name")


def _remove_import(file: descriptor_pb2.FileDescriptorProto, name: str) -> None:
    removed = list(file.dependency).index(name)
    del file.dependency[removed]
    for indexes in (file.public_dependency, file.weak_dependency):
        kept = [index - (index > removed) for index in indexes if index != removed]
        del indexes[:]
        indexes.extend(kept)
