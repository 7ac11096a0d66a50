"""Payloads of Protobuf messages: the indexes that name a message of a file, and the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError

from wirekafka.schemas.message_indexes import message_indexes
from wirekafka.schemas.schema import ValueMismatch

_MAX_REASON_CHARS = 300
_FIRST_MESSAGE = b"\x00"
"""No index stands for one index, which is 0."""


def decoded(file: FileDescriptor, pool: DescriptorPool, payload: bytes) -> Any:
    """The message, in Protobuf's mapping to JSON. Raises ValueMismatch."""
    indexes, end = message_indexes(payload)
    message = message_factory.GetMessageClass(message_at(file, indexes))()
    try:
        message.ParseFromString(payload[end:])
        return json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=pool,
        )
    except (
        DecodeError,
        json_format.Error,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueMismatch(
            f"No message {message.DESCRIPTOR.full_name}: {str(error)[:_MAX_REASON_CHARS]}"
        ) from error


def encoded(file: FileDescriptor, pool: DescriptorPool, value: Any) -> bytes:
    """The payload of the first message. Raises ValueMismatch."""
    first = next(iter(file.message_types_by_name.values()), None)
    if first is None:
        raise ValueMismatch("The schema has no message")
    if not isinstance(value, dict):
        raise ValueMismatch(f"No message {first.full_name}: the value is no JSON object")
    message = message_factory.GetMessageClass(first)()
    try:
        json_format.ParseDict(value, message, descriptor_pool=pool)
        return bytes(_FIRST_MESSAGE + message.SerializeToString())
    except (
        json_format.Error,
        EncodeError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ValueMismatch(
            f"No message {first.full_name}: {str(error)[:_MAX_REASON_CHARS]}"
        ) from error


def message_at(file: FileDescriptor, indexes: Sequence[int]) -> Descriptor:
    """The message that indexes lead to. Raises ValueMismatch."""
    messages = list(file.message_types_by_name.values())
    found = None
    for index in indexes:
        found = _at(messages, index)
        if found is None:
            raise ValueMismatch(f"The schema has no message with the indexes {list(indexes)}")
        messages = list(found.nested_types)
    if found is None:
        raise ValueMismatch("No index of a message is given")
    return found


def _at(messages: Sequence[Descriptor], index: int) -> Descriptor | None:
    """The message at an index, which is never the entry of a map.

    Some writers number messages by a text in which maps have no entries.
    """
    if not 0 <= index < len(messages):
        return None
    if not _is_entry(messages[index]):
        return messages[index]
    others = [each for each in messages if not _is_entry(each)]
    return others[index] if index < len(others) else None


def _is_entry(message: Descriptor) -> bool:
    return bool(message.GetOptions().map_entry)
