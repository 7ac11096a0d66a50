"""Random values of messages, as Kafka's JSON schemas allow them."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.kafka_schemas.schema_oracle import JsonField, schema

_INTEGERS = {"int8": 1 << 7, "int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}


@cache
def message_values(name: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Random values of a message, by field name, as its JSON schema allows them."""
    return _struct(tuple(schema(name).fields), version)


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
