"""Rows in the columns of a table: newer names, wider types, missing fields."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from wirekafka.tables.typed.conform import RowsMismatch, conformed


def rows_of(type: pa.StructType, values: list[Any]) -> pa.StructArray:
    return pa.array(values, type)


def test_rows_of_the_same_type_are_returned_as_they_are() -> None:
    rows = rows_of(pa.struct([("a", pa.int32())]), [{"a": 1}])
    assert conformed(rows, rows.type, {}) is rows


def test_missing_fields_are_null_and_null_rows_stay_null() -> None:
    rows = rows_of(pa.struct([("a", pa.int32())]), [{"a": 1}, None])
    wider = pa.struct([("b", pa.string()), ("a", pa.int32()), ("c", pa.list_(pa.int32()))])
    found = conformed(rows, wider, {})
    found.validate(full=True)
    assert found.type == wider
    assert found.to_pylist() == [{"b": None, "a": 1, "c": None}, None]


@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [
        (pa.int32(), pa.int64(), -5),
        (pa.int32(), pa.float64(), (1 << 31) - 1),
        (pa.float32(), pa.float64(), 1.5),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), Decimal("-123.45")),
        (pa.decimal128(5, 2), pa.decimal128(9, 4), Decimal("123.45")),
        (pa.string(), pa.large_string(), "x"),
        (pa.binary(), pa.large_binary(), b"x"),
    ],
)
def test_wider_types_have_the_same_values(
    narrow: pa.DataType, wide: pa.DataType, value: object
) -> None:
    rows = rows_of(pa.struct([("a", narrow)]), [{"a": value}, {"a": None}])
    found = conformed(rows, pa.struct([("a", wide)]), {})
    assert found.to_pylist() == [{"a": value}, {"a": None}]


@pytest.mark.parametrize(
    ("found", "table"),
    [
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.string(), pa.binary()),
        (pa.int32(), pa.string()),
        (pa.decimal128(9, 2), pa.decimal128(5, 2)),
        (pa.decimal128(5, 2), pa.decimal128(5, 4)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.list_(pa.int32()), pa.int32()),
    ],
)
def test_other_types_are_refused_with_the_name_of_the_column(
    found: pa.DataType, table: pa.DataType
) -> None:
    rows = pa.nulls(1, pa.struct([("s", pa.struct([("a", found)]))]))
    with pytest.raises(RowsMismatch, match=r"^Column s\.a of the table is .*, and cannot hold "):
        conformed(rows, pa.struct([("s", pa.struct([("a", table)]))]), {})


def test_columns_that_the_table_lacks_are_refused() -> None:
    rows = rows_of(pa.struct([("a", pa.int32()), ("b", pa.int32())]), [{"a": 1, "b": 2}])
    with pytest.raises(RowsMismatch, match=r"^The table has no column b$"):
        conformed(rows, pa.struct([("a", pa.int32())]), {})


def test_nulls_in_a_required_column_are_refused_but_not_inside_of_a_null_row() -> None:
    required = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    optional = pa.struct([("a", pa.int32())])
    rows = rows_of(optional, [{"a": 1}, None])
    assert conformed(rows, required, {}).to_pylist() == [{"a": 1}, None]
    with pytest.raises(RowsMismatch, match=r"^Column a is required"):
        conformed(rows_of(optional, [{"a": None}]), required, {})


def test_renamed_fields_are_found_at_every_depth() -> None:
    item = pa.struct([("old", pa.int32())])
    rows = rows_of(
        pa.struct([("l", pa.list_(item)), ("m", pa.map_(pa.string(), item)), ("s", item)]),
        [{"l": [{"old": 1}, None], "m": [("k", {"old": 2})], "s": {"old": 3}}, None],
    )
    newer = pa.struct([("new", pa.int64())])
    table = pa.struct(
        [
            ("list", pa.list_(pa.field("element", newer))),
            ("m", pa.map_(pa.string(), newer)),
            ("s", newer),
        ]
    )
    renames = {
        ("l",): ("list",),
        ("list", "element", "old"): ("list", "element", "new"),
        ("m", "value", "old"): ("m", "value", "new"),
        ("s", "old"): ("s", "new"),
    }
    found = conformed(rows, table, renames)
    found.validate(full=True)
    assert found.to_pylist() == [
        {"list": [{"new": 1}, None], "m": [("k", {"new": 2})], "s": {"new": 3}},
        None,
    ]


def test_slices_of_rows_have_their_own_lists_and_maps() -> None:
    type = pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32()))])
    values = [{"l": [each] * each, "m": [(str(each), each)]} for each in range(9)]
    rows = rows_of(type, [*values, None]).slice(3, 7)
    wider = pa.struct([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    assert conformed(rows, wider, {}).to_pylist() == [*values[3:], None]
    large = pa.struct([("l", pa.large_list(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    widened = conformed(rows, large, {})
    assert widened.to_pylist() == [*values[3:], None]
    assert widened.type == large


def test_rows_without_columns_keep_their_number() -> None:
    rows = pa.array([{}, None], pa.struct([]))
    table = pa.struct([("a", pa.int32())])
    assert conformed(rows, table, {}).to_pylist() == [{"a": None}, None]
