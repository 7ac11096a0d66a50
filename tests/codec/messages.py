"""Every message class of the broker, and how instances are built of plain values."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import wirekafka.protocol.records
from wirekafka.codec.message import Message, Part

_PACKAGES = (wirekafka.protocol, wirekafka.protocol.records)


def message_classes() -> list[type[Message]]:
    """All messages, by name."""
    names = [
        f"{package.__name__}.{module.name}"
        for package in _PACKAGES
        for module in pkgutil.iter_modules(package.__path__)
    ]
    found = {}
    for name in ("wirekafka.codec.frame", *names):
        for value in vars(import_module(name)).values():
            if isinstance(value, type) and issubclass(value, Message) and value.versions.last >= 0:
                found[value.__name__] = value
    for base in ("Message", "Request", "Response"):
        found.pop(base, None)
    return [found[name] for name in sorted(found)]


def message_versions() -> Iterator[tuple[type[Message], int]]:
    """All messages in all their versions."""
    for cls in message_classes():
        for version in range(cls.versions.first, cls.versions.last + 1):
            yield cls, version


def build(cls: type[Any], values: dict[str, Any]) -> Any:
    """An instance with these values; nested dicts become nested parts."""
    made = {}
    for field in cls.fields:
        value = values[field.name]
        if field.part is not None and value is not None:
            value = (
                [build(field.part, one) for one in value]
                if field.is_array
                else build(field.part, value)
            )
        made[field.name] = value
    return cls(**made)


def values_of(message: Any) -> dict[str, Any]:
    """The inverse of `build`, with records and arrays as plain bytes and lists."""
    return {f.name: _plain(getattr(message, f.name)) for f in message.fields}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Part):
        return values_of(value)
    return bytes(value) if isinstance(value, memoryview) else value
