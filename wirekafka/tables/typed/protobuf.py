"""Payloads of Protobuf messages as typed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from wirekafka.schemas.protobuf import payload as payloads_of_messages
from wirekafka.schemas.protobuf.schema import ProtobufSchema
from wirekafka.schemas.schema import ParsedSchema, ValueMismatch
from wirekafka.tables.typed.assembly import Failures, PayloadChunk, chunks, joined
from wirekafka.tables.typed.protobuf_columns import MessageColumn, message_column
from wirekafka.tables.typed.protobuf_memory import MessageMemory, most_bytes
from wirekafka.tables.typed.values import DecodedValues, Path, UnsupportedSchema


def indexes_of(schema: ParsedSchema, full_name: str) -> tuple[int, ...]:
    """The indexes of a message, by its package and its name. Raises UnsupportedSchema."""
    assert isinstance(schema, ProtobufSchema)
    file = schema.file.descriptor
    messages = enumerate(file.message_types_by_name.values())
    pending: list[tuple[tuple[int, ...], Descriptor]] = [((i,), each) for i, each in messages]
    while pending:
        indexes, message = pending.pop()
        if message.full_name == full_name:
            return indexes
        if full_name.startswith(f"{message.full_name}."):
            pending = [((*indexes, i), each) for i, each in enumerate(message.nested_types)]
    raise UnsupportedSchema(f"The schema has no message {full_name}")


class Protobuf:
    """The values of one message of a schema."""

    def __init__(self, schema: ParsedSchema, indexes: Sequence[int] = (0,)) -> None:
        assert isinstance(schema, ProtobufSchema)
        file = schema.file
        descriptor = _message(schema, indexes)
        self._column: MessageColumn = message_column(descriptor, file.pool)
        self._message_class = message_factory.GetMessageClass(descriptor)
        self._name = descriptor.full_name
        self._memory = MessageMemory(descriptor)

    @property
    def type(self) -> pa.StructType:
        """The columns, all of them nullable."""
        return self._column.type

    @property
    def renames(self) -> Mapping[Path, Path]:
        """None: the format knows no older names."""
        return {}

    def decode(self, payloads: Sequence[bytes]) -> DecodedValues:
        """The rows of payloads, which begin after the indexes of their message."""
        parts = chunks(payloads, self._memory.bytes_of)
        return joined((part.first, *self._chunk(part)) for part in parts)

    def _chunk(self, chunk: PayloadChunk) -> tuple[pa.StructArray, Failures]:
        failures = Failures(chunk.payloads)
        messages = self._messages(chunk, failures)
        rows = self._column.array(messages, np.arange(len(messages)), failures)
        return rows, failures

    def _messages(self, chunk: PayloadChunk, failures: Failures) -> list[Message | None]:
        payloads = chunk.payloads
        if len(payloads) == 1 and chunk.size_bytes > most_bytes(payloads[0]):
            failures.add(0, f"A message {self._name} with too many messages for its size")
            return [None]
        try:
            return list(map(self._message_class.FromString, payloads))
        except DecodeError:
            return [self._parsed(i, each, failures) for i, each in enumerate(payloads)]

    def _parsed(self, index: int, payload: bytes, failures: Failures) -> Message | None:
        try:
            return self._message_class.FromString(payload)
        except DecodeError as error:
            failures.add(index, f"No message {self._name}: {error}")
            return None


def _message(schema: ProtobufSchema, indexes: Sequence[int]) -> Descriptor:
    try:
        return payloads_of_messages.message_at(schema.file.descriptor, indexes)
    except ValueMismatch as error:
        raise UnsupportedSchema(str(error)) from error
