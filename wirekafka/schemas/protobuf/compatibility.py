"""Whether a Protobuf schema reads what another wrote, by the published rules of registries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

Pair: TypeAlias = tuple[str, str]
"""The full names of two imported messages of one name: the reader's and the writer's."""


class ProtobufRule(Enum):
    """A change that breaks readers, and its description."""

    PACKAGE_CHANGED = (
        "The package at '{path}' in the {reader} schema does not match the package"
        " in the {writer} schema"
    )
    MESSAGE_REMOVED = (
        "The {reader} schema is missing a MESSAGE type at path '{path}' in the {writer} schema"
    )
    FIELD_KIND_CHANGED = (
        "The type of a field at path '{path}' in the {reader} schema does not match"
        " the {writer} schema"
    )
    FIELD_SCALAR_KIND_CHANGED = (
        "The kind of a SCALAR field at path '{path}' in the {reader} schema does not match"
        " its kind in the {writer} schema"
    )
    FIELD_NAMED_TYPE_CHANGED = (
        "The type of a MESSAGE field at path '{path}' in the {reader} schema does not match"
        " its type in the {writer} schema"
    )
    FIELD_NUMERIC_LABEL_CHANGED = (
        "The label for a NUMERIC field at path '{path}' in the {reader} schema does not match"
        " its label in the {writer} schema"
    )
    REQUIRED_FIELD_ADDED = (
        "A required field  at path '{path}' in the {reader} schema is missing"
        " in the {writer} schema"
    )
    REQUIRED_FIELD_REMOVED = (
        "The {reader} schema is missing a required field at path: '{path}' in the {writer} schema"
    )
    ONEOF_FIELD_REMOVED = (
        "The {reader} schema is missing a oneof field at path '{path}' in the {writer} schema"
    )
    MULTIPLE_FIELDS_MOVED_TO_ONEOF = (
        "Multiple fields in the oneof at path '{path}' in the {reader} schema are outside a oneof"
        " in the {writer} schema"
    )
    FIELD_MOVED_TO_EXISTING_ONEOF = (
        "A field in the oneof at path '{path}' in the {reader} schema is outside an existing oneof"
        " in the {writer} schema"
    )

    def message(self, path: str) -> str:
        """The message, in which the names of the two schemas, new and old, are open."""
        description = self.value.replace("{path}", f"#/{path}")
        return f'{{errorType:"{self.name}", description:"{description}"}}'


class FieldKind(Enum):
    """What fields hold; scalars of one kind read each other's bytes."""

    MESSAGE = auto()
    MAP = auto()
    NUMBER = auto()
    SIGNED_NUMBER = auto()
    FIXED_32 = auto()
    FIXED_64 = auto()
    FLOAT = auto()
    DOUBLE = auto()
    TEXT = auto()

    @property
    def is_scalar(self) -> bool:
        return self not in (FieldKind.MESSAGE, FieldKind.MAP)


_KINDS = {
    FieldDescriptor.TYPE_MESSAGE: FieldKind.MESSAGE,
    FieldDescriptor.TYPE_GROUP: FieldKind.MESSAGE,
    FieldDescriptor.TYPE_INT32: FieldKind.NUMBER,
    FieldDescriptor.TYPE_INT64: FieldKind.NUMBER,
    FieldDescriptor.TYPE_UINT32: FieldKind.NUMBER,
    FieldDescriptor.TYPE_UINT64: FieldKind.NUMBER,
    FieldDescriptor.TYPE_BOOL: FieldKind.NUMBER,
    FieldDescriptor.TYPE_ENUM: FieldKind.NUMBER,
    FieldDescriptor.TYPE_SINT32: FieldKind.SIGNED_NUMBER,
    FieldDescriptor.TYPE_SINT64: FieldKind.SIGNED_NUMBER,
    FieldDescriptor.TYPE_FIXED32: FieldKind.FIXED_32,
    FieldDescriptor.TYPE_SFIXED32: FieldKind.FIXED_32,
    FieldDescriptor.TYPE_FIXED64: FieldKind.FIXED_64,
    FieldDescriptor.TYPE_SFIXED64: FieldKind.FIXED_64,
    FieldDescriptor.TYPE_FLOAT: FieldKind.FLOAT,
    FieldDescriptor.TYPE_DOUBLE: FieldKind.DOUBLE,
    FieldDescriptor.TYPE_STRING: FieldKind.TEXT,
    FieldDescriptor.TYPE_BYTES: FieldKind.TEXT,
}


@dataclass(frozen=True, slots=True)
class _Change:
    """A rule that is broken at a path."""

    rule: ProtobufRule
    path: str


@dataclass(slots=True)
class _Part:
    """What differs between two files, or between two imported messages."""

    changes: list[_Change] = field(default_factory=list)
    uses: list[tuple[str, Pair]] = field(default_factory=list)
    """The paths of fields, and the imported messages that they hold."""


def incompatibilities(reader: FileDescriptor, writer: FileDescriptor) -> list[str]:
    """Messages, one for each rule and path; none if the reader understands the writer."""
    own = _Part()
    _Comparison(own, reader, writer).files()
    imported: dict[Pair, _Part] = {}
    pending = [pair for _, pair in own.uses]
    while pending:
        pair = pending.pop()
        if pair in imported:
            continue
        part = imported[pair] = _Part()
        _Comparison(part, reader, writer).imported_messages(pair)
        pending += [used for _, used in part.uses]
    broken = _broken(imported)
    found: dict[_Change, None] = {}
    for part in (*imported.values(), own):
        found.update(dict.fromkeys(part.changes))
        for path, pair in part.uses:
            if pair in broken:
                found[_Change(ProtobufRule.FIELD_NAMED_TYPE_CHANGED, path)] = None
    return [each.rule.message(each.path) for each in found]


def _broken(imported: Mapping[Pair, _Part]) -> set[Pair]:
    """The imported messages that changed, or hold a message that changed."""
    users: dict[Pair, list[Pair]] = {}
    for pair, part in imported.items():
        for _, used in part.uses:
            users.setdefault(used, []).append(pair)
    broken = {pair for pair, part in imported.items() if part.changes}
    pending = list(broken)
    while pending:
        for user in users.get(pending.pop(), ()):
            if user not in broken:
                broken.add(user)
                pending.append(user)
    return broken


class _Comparison:
    def __init__(self, part: _Part, reader: FileDescriptor, writer: FileDescriptor) -> None:
        self._part = part
        self._reader = reader
        self._writer = writer

    def files(self) -> None:
        if self._reader.package != self._writer.package:
            self._add(ProtobufRule.PACKAGE_CHANGED, "")
        self._types(
            self._reader.message_types_by_name.values(),
            self._writer.message_types_by_name.values(),
            "",
        )

    def imported_messages(self, pair: Pair) -> None:
        reader = self._reader.pool.FindMessageTypeByName(pair[0])
        writer = self._writer.pool.FindMessageTypeByName(pair[1])
        self._messages(reader, writer, _local_name(reader).replace(".", "/"))

    def _add(self, rule: ProtobufRule, path: str) -> None:
        self._part.changes.append(_Change(rule, path))

    def _types(
        self, readers: Iterable[Descriptor], writers: Iterable[Descriptor], path: str
    ) -> None:
        """Types are one if their names are. New ones break nothing; nor do enums."""
        by_name = {each.name: each for each in readers}
        for writer in writers:
            name = f"{path}/{writer.name}" if path else writer.name
            if writer.name in by_name:
                self._messages(by_name[writer.name], writer, name)
            else:
                self._add(ProtobufRule.MESSAGE_REMOVED, name)

    def _messages(self, reader: Descriptor, writer: Descriptor, path: str) -> None:
        new, old = _Fields(reader), _Fields(writer)
        moved = {number for oneof in new.oneofs.values() for number in oneof} & old.plain.keys()
        self._moves(new, old, path)
        for name, oneof in old.oneofs.items():
            # A oneof that is gone as a whole leaves its fields behind, or removes them.
            for number, written in oneof.items() if name in new.oneofs else ():
                if number in new.oneofs[name]:
                    self._fields(new.oneofs[name][number], written, f"{path}/{name}/{number}")
                else:
                    self._add(ProtobufRule.ONEOF_FIELD_REMOVED, f"{path}/{name}/{number}")
        for number in [*old.plain, *(each for each in new.plain if each not in old.plain)]:
            if number not in moved:
                self._plain_fields(new.plain.get(number), old.plain.get(number), f"{path}/{number}")
        self._types(_named(reader), _named(writer), path)

    def _moves(self, new: _Fields, old: _Fields, path: str) -> None:
        """Of two fields in a oneof, reading one clears the other."""
        in_oneofs = {number for oneof in old.oneofs.values() for number in oneof}
        for name, oneof in new.oneofs.items():
            moved = oneof.keys() & old.plain.keys()
            if len(moved) > 1:
                self._add(ProtobufRule.MULTIPLE_FIELDS_MOVED_TO_ONEOF, f"{path}/{name}")
            elif moved and oneof.keys() & in_oneofs:
                self._add(ProtobufRule.FIELD_MOVED_TO_EXISTING_ONEOF, f"{path}/{name}")

    def _plain_fields(
        self, reader: FieldDescriptor | None, writer: FieldDescriptor | None, path: str
    ) -> None:
        if reader is not None and writer is not None:
            self._fields(reader, writer, path)
        elif reader is not None and reader.label == FieldDescriptor.LABEL_REQUIRED:
            self._add(ProtobufRule.REQUIRED_FIELD_ADDED, path)
        elif writer is not None and writer.label == FieldDescriptor.LABEL_REQUIRED:
            self._add(ProtobufRule.REQUIRED_FIELD_REMOVED, path)

    def _fields(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> None:
        new, old = _kind(reader), _kind(writer)
        if new is old is FieldKind.MAP:
            for name in ("key", "value"):
                self._fields(
                    reader.message_type.fields_by_name[name],
                    writer.message_type.fields_by_name[name],
                    path,
                )
        elif new is old is FieldKind.MESSAGE:
            self._named_types(reader.message_type, writer.message_type, path)
        elif not (new.is_scalar and old.is_scalar):
            if new is not old:
                self._add(ProtobufRule.FIELD_KIND_CHANGED, path)
        elif new is not old:
            self._add(ProtobufRule.FIELD_SCALAR_KIND_CHANGED, path)
        elif new is not FieldKind.TEXT and _have_different_labels(reader, writer):
            self._add(ProtobufRule.FIELD_NUMERIC_LABEL_CHANGED, path)

    def _named_types(self, reader: Descriptor, writer: Descriptor, path: str) -> None:
        if _local_name(reader) != _local_name(writer):
            self._add(ProtobufRule.FIELD_NAMED_TYPE_CHANGED, path)
        elif self._is_imported(reader, writer):
            self._part.uses.append((path, (reader.full_name, writer.full_name)))

    def _is_imported(self, reader: Descriptor, writer: Descriptor) -> bool:
        """Types of the files themselves are compared with all others of the files."""
        return not (reader.file.name == self._reader.name and writer.file.name == self._writer.name)


class _Fields:
    """The fields of a message by number, in oneofs and outside of them."""

    def __init__(self, message: Descriptor) -> None:
        proto = DescriptorProto()
        message.CopyToProto(proto)
        optional = {each.number for each in proto.field if each.proto3_optional}
        self.plain: dict[int, FieldDescriptor] = {}
        self.oneofs: dict[str, dict[int, FieldDescriptor]] = {}
        for each in message.fields:
            if each.containing_oneof is None or each.number in optional:
                self.plain[each.number] = each
            else:
                oneof = self.oneofs.setdefault(each.containing_oneof.name, {})
                oneof[each.number] = each


def _named(message: Descriptor) -> Iterator[Descriptor]:
    """The messages in a message that have a name of their own: no entries of maps, no groups."""
    groups = {
        each.message_type.full_name
        for each in (*message.fields, *message.extensions)
        if each.type == FieldDescriptor.TYPE_GROUP
    }
    for each in message.nested_types:
        if each.full_name not in groups and not each.GetOptions().map_entry:
            yield each


def _kind(field: FieldDescriptor) -> FieldKind:
    kind = _KINDS[field.type]
    if kind is FieldKind.MESSAGE and field.message_type.GetOptions().map_entry:
        return FieldKind.MAP
    return kind


def _have_different_labels(reader: FieldDescriptor, writer: FieldDescriptor) -> bool:
    """Whether both have a label in source, and not the same."""
    new, old = _label(reader), _label(writer)
    return new is not None and old is not None and new != old


def _label(field: FieldDescriptor) -> int | None:
    """The label in source; None for a field that has none there."""
    is_implicit = field.label == FieldDescriptor.LABEL_OPTIONAL and not field.has_presence
    return None if is_implicit else int(field.label)


def _local_name(message: Descriptor) -> str:
    """The name within the package."""
    package = message.file.package
    return str(message.full_name[len(package) + 1 :] if package else message.full_name)
