"""Protobuf schemas: their text as registries keep it, their compatibility, and their payloads."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from wirekafka.schemas.protobuf import compatibility, files
from wirekafka.schemas.protobuf import payload as payloads
from wirekafka.schemas.protobuf.normal_form import normal_form
from wirekafka.schemas.protobuf.text import text_of
from wirekafka.schemas.schema import Dependency, Format, ParsedSchema


class ProtobufSchema:
    """A Protobuf file and the files that it imports."""

    format = Format.PROTOBUF

    def __init__(
        self, file: files.ProtobufFile, canonical: str, dependencies: Sequence[Dependency]
    ) -> None:
        self._file = file
        self._canonical = canonical
        self._dependencies = dependencies

    @property
    def canonical(self) -> str:
        """The text without comments, laid out as Confluent's registry does."""
        return self._canonical

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProtobufSchema) and self._canonical == other._canonical

    def __hash__(self) -> int:
        return hash(self._canonical)

    @cached_property
    def _normalized(self) -> ProtobufSchema:
        tree = normal_form(self._file.normal_tree())
        text = text_of(tree)
        return ProtobufSchema(files.read(text, self._dependencies), text, self._dependencies)

    def normalized(self) -> ProtobufSchema:
        """The schema with sorted elements and the full names of types."""
        return self._normalized

    def incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        """Why this schema cannot read data of the older; {reader} and {writer} are open in it."""
        assert isinstance(older, ProtobufSchema)
        return compatibility.incompatibilities(self._file.descriptor, older._file.descriptor)

    def lenient_incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        """The same as `incompatibilities`: the policy is about JSON's content models."""
        return self.incompatibilities(older)

    def name(self) -> str | None:
        """The full name of the first message."""
        first = next(iter(self._file.descriptor.message_types_by_name.values()), None)
        return None if first is None else first.full_name

    def message_name(self, indexes: Sequence[int]) -> str:
        """The full name of the message that indexes lead to. Raises ValueMismatch."""
        return str(payloads.message_at(self._file.descriptor, indexes).full_name)

    def serialized(self) -> str:
        """The descriptor in base64, as of `format=serialized`."""
        return base64.b64encode(self._file.proto.SerializeToString()).decode()

    @property
    def file(self) -> files.ProtobufFile:
        """The descriptors of the messages, in a pool with all files that are imported."""
        return self._file

    def decoded(self, payload: bytes) -> Any:
        """The value of a payload, which begins with the indexes of its message."""
        return payloads.decoded(self._file.descriptor, self._file.pool, payload)

    def encoded(self, value: Any) -> bytes:
        """The payload of a value of the first message."""
        return payloads.encoded(self._file.descriptor, self._file.pool, value)


def parse(text: str, dependencies: Sequence[Dependency] = ()) -> ProtobufSchema:
    """The schema of .proto source, or of a descriptor in base64. Raises SchemaError.

    The names of the dependencies are the paths that files import.
    """
    file = files.read(text, dependencies)
    return ProtobufSchema(file, text_of(file.tree), tuple(dependencies))
