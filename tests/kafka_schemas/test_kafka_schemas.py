"""Every message in every version against Kafka's own JSON schemas: the schema and the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codec.messages import build, message_classes, message_versions, values_of
from tests.kafka_schemas.message_values import message_values
from tests.kafka_schemas.schema_oracle import NUMBERS, JsonField, Range, schema
from tests.repetitions import repetitions
from wirekafka.codec.message import Message
from wirekafka.codec.schema import Field, Versions

EXAMPLES = repetitions("WIREKAFKA_MESSAGES", usual=5, thorough=50)
_CASES = list(message_versions())


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_schema_equals_kafkas_json_schema(cls: type[Message]) -> None:
    expected = schema(cls.__name__)
    assert tuple(cls.versions) == (expected.versions.first, expected.versions.last)
    valid = range(expected.versions.first, expected.versions.last + 1)
    assert _within(cls.flexible, valid) == _within(expected.flexible, valid)
    if expected.key is not None:
        assert cls.key == expected.key
    _compare_fields(cls.fields, expected.fields, valid)


def _compare_fields(ours: tuple[Field, ...], theirs: list[JsonField], valid: range) -> None:
    # A field of no valid version is one that only Kafka's schemas keep.
    theirs = [f for f in theirs if _within(f.versions, valid)]
    assert [f.name for f in ours] == [f.name for f in theirs]
    for our, their in zip(ours, theirs, strict=True):
        _compare_field(our, their, valid)


def _compare_field(our: Field, their: JsonField, valid: range) -> None:
    present = _within(their.versions, valid)
    assert _within(our.versions, valid) == present, our
    assert our.is_array == their.is_array, our
    assert our.tag == their.tag, our
    assert _within(our.nullable, present) == _within(their.nullable, present), our
    assert _within(our.flexible, present) == _within(their.flexible, present), our
    if our.tag is not None:
        assert _within(our.tagged, present) == _within(their.tagged, present), our
    if our.part is not None:
        assert their.is_struct, our
        _compare_fields(our.part.fields, their.fields, range(present[0], present[-1] + 1))
    else:
        assert our.kind == NUMBERS.get(their.type, their.type), our
    default = (
        our.default
        if our.part is None or our.is_array or our.default is None
        else (values_of(our.default))
    )
    assert (default, type(default)) == (their.default, type(their.default)), our


def _within(versions: Versions | Range, valid: range | list[int]) -> list[int]:
    return [version for version in valid if version in versions]


@pytest.mark.parametrize(
    ("cls", "version"), _CASES, ids=[f"{cls.__name__}-{version}" for cls, version in _CASES]
)
@settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_encoded_and_decoded_bytes_are_kafkas(
    cls: type[Message], version: int, data: st.DataObject
) -> None:
    values = data.draw(message_values(cls.__name__, version))
    expected = schema(cls.__name__).encode(version, values)
    message = build(cls, values)
    assert message.encode(version) == expected
    decoded = cls.decode(expected, version)
    assert decoded == message
    assert values_of(decoded) == _known(cls, schema(cls.__name__).decode(version, expected))
    assert decoded.encode(version) == expected


def _known(cls: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values without those of fields that exist in no valid version."""
    known = {}
    for field in cls.fields:
        value = values[field.name]
        if field.part is not None and value is not None:
            value = (
                [_known(field.part, one) for one in value]
                if field.is_array
                else _known(field.part, value)
            )
        known[field.name] = value
    return known
