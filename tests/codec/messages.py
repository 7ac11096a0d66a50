"""Every message class of the broker, and strategies for their values."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import strategies as st

import wirekafka.protocol.records
from tests.codec.schema_oracle import JsonField, schema
from wirekafka.codec.message import Message, Part

_PACKAGES = (wirekafka.protocol, wirekafka.protocol.records)

_INTEGERS = {"int8": 1 << 7, "int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}


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


@cache
def message_values(name: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Random values of a message, by field name, as its JSON schema allows them."""
    return _struct(tuple(schema(name).fields), version)


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


def _struct(fields: tuple[JsonField, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({f.name: _field(f, version) for f in fields})


def _field(f: JsonField, version: int) -> st.SearchStrategy[Any]:
    if version not in f.versions:
        return st.just(f.default)
    one = _struct(tuple(f.fields), version) if f.is_struct else _primitive(f.type)
    value = st.lists(one, max_size=3) if f.is_array else one
    return st.none() | value if version in f.nullable else value


def _primitive(kind: str) -> st.SearchStrategy[Any]:
    if kind in _INTEGERS:
        return st.integers(-_INTEGERS[kind], _INTEGERS[kind] - 1)
    # Sizes 126 to 128 are where a compact length outgrows one byte.
    long = st.sampled_from((126, 127, 128, 300))
    text = st.text(st.characters(codec="utf-8"), max_size=8) | long.map("é ".__mul__)
    return {
        "bool": st.booleans(),
        "uint16": st.integers(0, 65535),
        "uint32": st.integers(0, (1 << 32) - 1),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": text,
        "bytes": st.binary(max_size=8) | long.map(bytes),
        "records": st.binary(max_size=8) | long.map(bytes),
    }[kind]
