"""Values by the schema that they name: by a prefix, a header, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirekafka.schemas.framing import VALUE_SCHEMA_ID, framed, with_id
from wirekafka.tables.rows import HEADERS
from wirekafka.tables.typed.values import DecodedValues
from wirekafka.translation.groups import Part, Reference, Undecodable, grouped_by_reference

Headers = Sequence[tuple[str, bytes | None]]
GUID = UUID(int=7)


class KnownValues:
    """Stands for the values of one schema."""

    type = pa.struct([])
    renames: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __init__(self, reference: Reference):
        self.reference = reference

    def decode(self, payloads: Sequence[bytes]) -> DecodedValues:
        raise NotImplementedError


class KnownSchemas:
    """Has the schema of every reference but 99."""

    def divided(self, reference: Reference, payloads: Sequence[bytes]) -> Sequence[Part]:
        values = Undecodable("unknown") if reference == 99 else KnownValues(reference)
        return [(values, range(len(payloads)), payloads)]


def batch(records: Sequence[tuple[bytes | None, Headers]]) -> pa.RecordBatch:
    values = pa.array([value for value, _ in records], pa.binary())
    headers = pa.array(
        [[{"key": key, "value": value} for key, value in pairs] or None for _, pairs in records],
        HEADERS.type,
    )
    return pa.record_batch([values, headers], names=["value", "headers"])


def grouped(
    records: Sequence[tuple[bytes | None, Headers]], first: int = 0
) -> tuple[dict[int, tuple[Any, bytes]], dict[int, str]]:
    """By index, the reference and the payload; and the failures."""
    rows = batch([*[(b"skipped", ())] * first, *records]).slice(first)
    found = grouped_by_reference(rows, KnownSchemas())
    pairs = {}
    for group in found.groups:
        assert isinstance(group.values, KnownValues)
        for index, payload in zip(group.indexes, group.payloads, strict=True):
            pairs[index] = group.values.reference, payload
    return pairs, found.failures


@pytest.mark.parametrize("first", [0, 3])
def test_values_are_grouped_by_the_id_in_their_prefix(first: int) -> None:
    records = [with_id(5, b"a"), None, with_id(6, b""), with_id(5, b"bc")]
    pairs, failures = grouped([(value, ()) for value in records], first)
    assert pairs == {0: (5, b"a"), 2: (6, b""), 3: (5, b"bc")}
    assert failures == {}


def test_a_header_names_the_schema_of_a_value_without_a_prefix() -> None:
    headers = [(VALUE_SCHEMA_ID, b"\x01" + GUID.bytes)]
    pairs, _ = grouped([(b"payload", headers), (with_id(5, b"a"), ())])
    assert pairs == {0: (GUID, b"payload"), 1: (5, b"a")}


def test_values_without_a_schema_are_failures_with_their_reason() -> None:
    pairs, failures = grouped([(b"", ()), (b"no prefix", ()), (with_id(99, b"x"), ())])
    assert pairs == {}
    assert failures.pop(2) == "unknown"
    assert failures == dict.fromkeys(
        (0, 1), "the value has no schema id: neither a prefix nor a header"
    )


_VALUES = st.none() | st.binary(max_size=24) | st.builds(with_id, st.integers(0, 3), st.binary())
_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["other", VALUE_SCHEMA_ID]),
        st.none() | st.binary(max_size=20) | st.just(b"\x00\x00\x00\x00\x09"),
    ),
    max_size=2,
)


@given(st.lists(st.tuples(_VALUES, st.just([]) | _HEADERS), max_size=12), st.integers(0, 2))
def test_all_at_once_is_as_one_by_one(
    records: list[tuple[bytes | None, Headers]], first: int
) -> None:
    pairs, failures = grouped(records, first)
    for index, (value, headers) in enumerate(records):
        framing = None if value is None else framed(value, VALUE_SCHEMA_ID, headers)
        if framing is None:
            assert (index in failures) == (value is not None)
        elif framing.reference != 99:
            assert pairs.pop(index) == (framing.reference, framing.payload)
    assert pairs == {}
