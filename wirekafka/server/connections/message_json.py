"""Messages as JSON, as in Kafka's request log: fields by their names, secrets redacted."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from typing import Any, NamedTuple

from wirekafka.codec.message import Message
from wirekafka.codec.schema import Field
from wirekafka.config.options import BROKER, THROTTLES, TOPIC
from wirekafka.log.checkpoints import uuid_text

_SECRET = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
_CONFIGS = frozenset(
    {"AlterConfigsRequest", "IncrementalAlterConfigsRequest", "CreateTopicsRequest"}
)
_REDACTED = "(redacted)"
_UUID, _RECORDS = "16s", "records"
_KNOWN = {**BROKER, **THROTTLES, **TOPIC}


class Room:
    """How many array elements and bytes are still converted; the rest is counted only."""

    __slots__ = ("bytes", "elements")

    def __init__(self, elements: int, size_bytes: int):
        self.elements = elements
        self.bytes = size_bytes


def to_json(message: Message, version: int, room: Room | None = None) -> dict[str, Any]:
    """The fields that a version of the message has, as Kafka's converters write them.

    Records are given by their size only, tagged fields if they are not the default. Option values
    are shown only for options that are known not to be secret. Without `room`, everything is
    converted.
    """
    return _converted(message, _Conversion(version, type(message).__name__ in _CONFIGS, room))


class _Conversion(NamedTuple):
    """What all fields of a message are converted with."""

    version: int
    redacts: bool
    """Whether values of options are shown only if they are known not to be secret."""
    room: Room | None


def _converted(message: Message, conversion: _Conversion) -> dict[str, Any]:
    version = conversion.version
    found: dict[str, Any] = {}
    for field in message.fields:
        value = getattr(message, field.name)
        if version not in field.versions or (
            field.tag is not None and version in field.tagged and value == field.default
        ):
            continue
        name = _camel(field.name)
        if field.kind == _RECORDS:
            found[f"{name}SizeInBytes"] = None if value is None else _size_of(value)
        elif field.name in _SECRET:
            found[name] = _REDACTED
        elif conversion.redacts and field.name == "value" and not _is_open(message):
            found[name] = None if value is None else _REDACTED
        else:
            found[name] = _value(field, value, conversion)
    return found


def _value(field: Field, value: Any, conversion: _Conversion) -> Any:
    if not field.is_array or value is None:
        return _one(field, value, conversion)
    room = conversion.room
    if room is None:
        return [_one(field, each, conversion) for each in value]
    found: list[Any] = []
    for each in value:
        if room.elements <= 0:
            found.append(f"... and {len(value) - len(found)} more")
            break
        room.elements -= 1
        found.append(_one(field, each, conversion))
    return found


def _one(field: Field, value: Any, conversion: _Conversion) -> Any:
    room = conversion.room
    if field.part is not None and value is not None:
        return _converted(value, conversion)
    if field.kind == _UUID:
        return uuid_text(bytes(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode() if _fits(value, room) else f"({len(value)} bytes)"
    if isinstance(value, str) and not _fits(value, room):
        return f"({len(value)} characters)"
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _fits(value: Any, room: Room | None) -> bool:
    if room is None:
        return True
    if len(value) > room.bytes:
        return False
    room.bytes -= len(value)
    return True


def _is_open(config: Message) -> bool:
    option = _KNOWN.get(getattr(config, "name", ""))
    return option is not None and not option.sensitive


def _size_of(records: Any) -> int:
    if isinstance(records, list | tuple):
        return sum(len(each) for each in records)
    return len(records)


@cache
def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)
