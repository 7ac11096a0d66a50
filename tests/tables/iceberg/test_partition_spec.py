"""Partition specs in Redpanda's syntax: parsed, applied with each transform, changed later."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.tables.iceberg.lake import (
    a_table,
    append,
    assert_holds_its_marks,
    files_of,
    records,
    rows,
)
from wirekafka.tables.iceberg.layout import KEY_VALUE_COLUMNS, typed_columns
from wirekafka.tables.iceberg.partition_spec import parse_spec
from wirekafka.tables.iceberg.problems import BadSpec


def terms_of(text: str) -> list[str]:
    return [f"{each}{f' as {each.name}' if each.name else ''}" for each in parse_spec(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("()", []),
        (" ( ) ", []),
        ("(hour(redpanda.timestamp))", ["hour of redpanda.timestamp"]),
        ("(a)", ["identity of a"]),
        ("(a, b.c)", ["identity of a", "identity of b.c"]),
        (" ( HOUR( redpanda.timestamp ) ,bucket( 16 ,user.id ))", None),
        ("(truncate(4, name), void(a))", ["truncate[4] of name", "void of a"]),
        ("(day(t) as d, a AS b)", ["day of t as d", "identity of a as b"]),
        ("(year(a), month(b), day(c), identity(d))", None),
    ],
)
def test_redpandas_syntax_is_read(text, terms):
    found = terms_of(text)
    assert found == terms if terms is not None else len(found) >= 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hour(a)", "not in parentheses"),
        ("(hour(a)", "cannot read"),
        ("(a,)", "ends with a comma"),
        ("(a,,b)", "cannot read"),
        ("(minute(a))", "no transform is named minute"),
        ("(bucket(a))", "bucket takes a number"),
        ("(bucket(0, a))", "bucket takes a number above 0"),
        ("(bucket(-1, a))", "cannot read"),
        ("(hour(3, a))", "hour takes a column and no number"),
        ("(a b)", "cannot read"),
        ("(a, a)", "has a term twice"),
        ("(day(a)) as b", "not in parentheses"),
    ],
)
def test_what_is_wrong_with_a_spec_is_said(text, problem):
    with pytest.raises(BadSpec, match=problem):
        parse_spec(text)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("(hour(value))", "hour does not take value, which is binary"),
        ("(redpanda)", "identity does not take redpanda"),
        ("(redpanda.headers.element.key)", "identity does not take redpanda.headers.element.key"),
    ],
)
def test_a_spec_that_the_columns_do_not_allow_is_refused(tmp_path, spec, problem):
    with pytest.raises(BadSpec, match=problem):
        a_table(tmp_path, partition_spec=spec)
    table = a_table(tmp_path)
    with pytest.raises(BadSpec, match=problem):
        a_table(tmp_path, partition_spec=spec)
    assert append(table, 0, 3) == {0: 3}


def test_rows_that_come_before_a_column_of_the_spec_are_refused(tmp_path):
    table = a_table(tmp_path, partition_spec="(missing)")
    with pytest.raises(BadSpec, match="the table has no column missing"):
        append(table, 0, 3)
    assert table.append(rows(0, ()), {0: (0, 3)}, {0: 0}).ends == {0: 3}
    assert append(a_table(tmp_path), 3, 6) == {0: 6}


VALUES = {
    "i": (pa.int32(), 7),
    "l": (pa.int64(), -13),
    "s": (pa.string(), "wirekafka/é"),
    "b": (pa.binary(), b"\x00\xff binary"),
    "dec": (pa.decimal128(12, 3), Decimal("1234.567")),
    "d": (pa.date32(), date(1969, 12, 31)),
    "ts": (pa.timestamp("us"), datetime(1969, 12, 31, 23, 59, 59)),
    "tz": (pa.timestamp("us", tz="UTC"), datetime(2026, 2, 28, 13, 1, tzinfo=UTC)),
    "flag": (pa.bool_(), True),
}


@pytest.mark.parametrize(
    ("spec", "folder"),
    [
        ("(i, l, flag)", "i=7/l=-13/flag=true"),
        ("(s, d)", "s=wirekafka%2F%C3%A9/d=1969-12-31"),
        ("(dec)", "dec=1234.567"),
        ("(year(d), month(ts), day(tz))", "d_year=1969/ts_month=1969-12/tz_day=2026-02-28"),
        ("(hour(ts), hour(tz))", "ts_hour=1969-12-31-23/tz_hour=2026-02-28-13"),
        ("(truncate(10, i), truncate(10, l))", "i_trunc_10=0/l_trunc_10=-20"),
        ("(truncate(4, s), truncate(50, dec))", "s_trunc_4=wire/dec_trunc_50=1234.550"),
        ("(void(s))", "s_null=null"),
        ("(bucket(4, i) as part)", None),
        ("(bucket(16, l), bucket(16, s), bucket(16, b))", None),
        ("(bucket(16, dec), bucket(16, d), bucket(16, ts), bucket(16, tz))", None),
    ],
)
def test_each_transform_is_applied_to_values_and_nulls(tmp_path, spec, folder):
    columns = typed_columns(pa.struct([(name, type_) for name, (type_, _) in VALUES.items()]))
    table = a_table(tmp_path, columns, spec)
    values = [{name: value for name, (_, value) in VALUES.items()}, {}]
    found = [record | value for record, value in zip(records(0, range(2)), values, strict=True)]
    table.append(pa.Table.from_pylist(found, schema=columns), {0: (0, 2)}, {0: 0})
    assert assert_holds_its_marks(table) == {0: 2}
    names = {
        path.parent.relative_to(tmp_path / "redpanda/flights/data") for path in files_of(table)
    }
    nothing = "/".join(f"{field.name}=null" for field in table.table.spec().fields)
    assert nothing in {str(name) for name in names}
    if folder is not None:
        assert folder in {str(name) for name in names}
    fields = {field.source_id: field.transform for field in table.table.spec().fields}
    for task in table.table.scan().plan_files():
        for position, (source_id, transform) in enumerate(fields.items()):
            column = table.table.schema().find_field(source_id)
            value = VALUES[column.name][1] if task.file.partition[position] is not None else None
            assert task.file.partition[position] == _transformed(transform, column, value)


def _transformed(transform, column, value):
    """By pyiceberg's transforms of single values, which know times as numbers."""
    from pyiceberg.expressions.literals import literal

    if value is None:
        return None
    if isinstance(value, date):
        text = value.isoformat()
        value = literal(text).to(column.field_type).value
    return transform.transform(column.field_type)(value)


def test_rows_of_many_partitions_are_each_in_one(tmp_path):
    table = a_table(tmp_path, partition_spec="(hour(redpanda.timestamp), bucket(3, redpanda.key))")
    append(table, 0, 200)
    assert assert_holds_its_marks(table) == {0: 200}
    assert len(files_of(table)) == 4 * 3


def test_a_spec_is_changed_for_later_files_and_back(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    first = table.table.metadata.default_spec_id
    table = a_table(tmp_path, partition_spec="(bucket(2, redpanda.key), day(redpanda.timestamp))")
    append(table, 10, 20)
    table = a_table(tmp_path, partition_spec="()")
    append(table, 20, 30)
    table = a_table(tmp_path)
    append(table, 30, 40)
    assert table.table.metadata.default_spec_id == first
    assert assert_holds_its_marks(table) == {0: 40}
    assert len({task.file.spec_id for task in table.table.scan().plan_files()}) == 3


def test_the_order_of_terms_does_not_matter(tmp_path):
    table = a_table(tmp_path, partition_spec="(redpanda.partition, day(redpanda.timestamp))")
    location = table.table.metadata_location
    table = a_table(tmp_path, partition_spec="(day(redpanda.timestamp), redpanda.partition)")
    assert table.table.metadata_location == location


def test_a_spec_may_name_a_column_that_evolution_adds(tmp_path):
    append(a_table(tmp_path), 0, 3)
    columns = pa.schema([*KEY_VALUE_COLUMNS, ("region", pa.string())])
    table = a_table(tmp_path, columns, "(region)")
    assert [field.name for field in table.table.spec().fields] == ["redpanda.timestamp_hour"]
    table.evolve(columns)
    assert [field.name for field in table.table.spec().fields] == ["region"]
    append(table, 3, 6)
    assert assert_holds_its_marks(table) == {0: 6}


def test_a_spec_is_of_the_same_column_after_its_rename(tmp_path):
    older = pa.struct([("id", pa.int32())])
    spec = "(bucket(4, user.id))"
    table = a_table(tmp_path, typed_columns(pa.struct([("user", older)])), spec)
    newer = typed_columns(pa.struct([("person", pa.struct([("number", pa.int32())]))]))
    renames = {("user",): ("person",), ("person", "id"): ("person", "number")}
    table.evolve(newer, renames)
    table = a_table(tmp_path, newer, spec)
    found: list[dict] = [{**records(0, [0])[0], "person": {"number": 1}}]
    table.append(pa.Table.from_pylist(found, schema=newer), {0: (0, 1)}, {0: 0})
    assert len(table.table.metadata.partition_specs) == 2
    assert table.table.scan("person.number = 1").to_arrow().num_rows == 1


def test_a_required_column_of_a_struct_that_may_be_null_partitions(tmp_path):
    inner = pa.struct([pa.field("id", pa.int32(), nullable=False)])
    columns = typed_columns(pa.struct([pa.field("user", inner)]))
    table = a_table(tmp_path, columns, "(bucket(4, user.id))")
    users: list[dict] = [{"user": {"id": 1}}, {"user": None}]
    found: list[dict] = [
        record | user for record, user in zip(records(0, range(2)), users, strict=True)
    ]
    table.append(pa.Table.from_pylist(found, schema=columns), {0: (0, 2)}, {0: 0})
    assert assert_holds_its_marks(table) == {0: 2}
