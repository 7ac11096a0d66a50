"""Columns evolve while rows stay: more, wider, optional, renamed, at any depth."""

import threading
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.tables.iceberg.lake import a_table, records
from wirekafka.tables.iceberg.layout import RECORD_COLUMN, typed_columns
from wirekafka.tables.iceberg.problems import BadEvolution
from wirekafka.tables.iceberg.topic_table import TopicTable


def required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


def columns(*fields: pa.Field | tuple) -> pa.Schema:
    return typed_columns(pa.struct(fields))


class Evolving:
    """A table to which rows of changing columns are appended, one at a time."""

    def __init__(self, directory, *fields, partition_spec="()"):
        self.directory = directory
        self.partition_spec = partition_spec
        self.table = a_table(directory, columns(*fields), partition_spec)
        self.end = 0

    def evolve(self, *fields, renames=None):
        self.table.evolve(columns(*fields), renames)
        return self

    def append(self, schema=None, **value):
        (record,) = records(0, [self.end])
        present = schema or self.table.arrow_type
        row = pa.Table.from_pylist([record | value], schema=present)
        self.table.append(row, {0: (self.end, self.end + 1)}, {0: 0})
        self.end += 1
        return self

    def values(self):
        rows = self.table.table.scan().to_arrow().to_pylist()
        ordered = sorted(rows, key=lambda row: row[RECORD_COLUMN]["offset"])
        return [{name: row[name] for name in row if name != RECORD_COLUMN} for row in ordered]

    def type_of(self, name):
        return self.table.arrow_type.field(name)


def test_added_columns_are_null_in_older_rows(tmp_path):
    table = Evolving(tmp_path, ("a", pa.int32())).append(a=1)
    table.evolve(("a", pa.int32()), required("b", pa.string())).append(a=2, b="x")
    assert table.values() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    assert table.type_of("b").nullable


@pytest.mark.parametrize(
    ("older", "newer", "first", "second"),
    [
        (pa.int32(), pa.int64(), -5, 2**40),
        (pa.float32(), pa.float64(), 0.5, 1e300),
        (pa.decimal128(4, 2), pa.decimal128(30, 2), Decimal("12.34"), Decimal(2**70)),
    ],
    ids=["int to long", "float to double", "decimal"],
)
def test_types_widen(tmp_path, older, newer, first, second):
    table = Evolving(tmp_path, ("a", older)).append(a=first)
    table.evolve(("a", newer)).append(a=second)
    assert table.values() == [{"a": first}, {"a": second}]
    assert table.type_of("a").type == newer
    # A worker with the older schema goes on; the table stays as wide.
    table.evolve(("a", older)).append(columns(("a", older)), a=first)
    assert table.type_of("a").type == newer
    assert table.values()[2] == {"a": first}


def test_required_columns_become_optional(tmp_path):
    inner = pa.struct([required("x", pa.int32())])
    table = Evolving(tmp_path, required("a", pa.int32()), required("s", inner))
    table.append(a=1, s={"x": 1})
    optional = pa.struct([("x", pa.int32())])
    table.evolve(("a", pa.int32()), ("s", optional)).append(a=None, s={"x": None})
    assert table.values() == [{"a": 1, "s": {"x": 1}}, {"a": None, "s": {"x": None}}]


def test_columns_that_a_newer_schema_lacks_stay_and_become_optional(tmp_path):
    inner = pa.struct([required("x", pa.int32()), required("y", pa.int32())])
    table = Evolving(
        tmp_path, required("a", pa.int32()), required("b", pa.int32()), required("s", inner)
    ).append(a=1, b=2, s={"x": 3, "y": 4})
    newer = columns(required("a", pa.int32()), required("s", pa.struct([inner.field("x")])))
    table.table.evolve(newer)
    table.append(newer, a=5, s={"x": 6})
    assert table.values()[1] == {"a": 5, "b": None, "s": {"x": 6, "y": None}}
    assert not table.type_of("a").nullable


def test_nested_columns_are_added_and_widened_in_structs_lists_and_maps(tmp_path):
    older = pa.struct([("x", pa.int32())])
    newer = pa.struct([("x", pa.int64()), required("y", pa.string())])

    def fields(item):
        return (
            ("s", pa.struct([("t", item)])),
            ("l", pa.list_(item)),
            ("m", pa.map_(pa.string(), item)),
            ("ll", pa.list_(pa.list_(item))),
        )

    def value(item):
        return {"s": {"t": item}, "l": [item], "m": [("k", item)], "ll": [[item]]}

    table = Evolving(tmp_path, *fields(older)).append(**value({"x": 1}))
    table.evolve(*fields(newer)).append(**value({"x": 2**40, "y": "new"}))
    assert table.values() == [value({"x": 1, "y": None}), value({"x": 2**40, "y": "new"})]


def test_a_renamed_column_keeps_its_field_id_and_values(tmp_path):
    table = Evolving(tmp_path, ("old", pa.int32())).append(old=1)
    field_id = table.table.table.schema().find_field("old").field_id
    table.evolve(("new", pa.int64()), renames={("old",): ("new",)}).append(new=2)
    assert table.values() == [{"new": 1}, {"new": 2}]
    assert table.table.table.schema().find_field("new").field_id == field_id
    # Again, as another worker would.
    table.evolve(("new", pa.int64()), renames={("old",): ("new",)})
    assert table.type_of("new").type == pa.int64()


def test_structs_and_their_fields_are_renamed_together(tmp_path):
    older = pa.struct([("old", pa.int32())])
    table = Evolving(tmp_path, ("before", older), ("l", pa.list_(older)))
    table.append(before={"old": 1}, l=[{"old": 1}])
    newer = pa.struct([("new", pa.int32()), ("more", pa.int32())])
    renames = {
        ("before",): ("after",),
        ("after", "old"): ("after", "new"),
        ("after", "older"): ("after", "new"),
        ("l", "element", "old"): ("l", "element", "new"),
    }
    table.evolve(("after", newer), ("l", pa.list_(newer)), renames=renames)
    table.append(after={"new": 2, "more": 3}, l=[{"new": 2, "more": 3}])
    assert table.values() == [
        {"after": {"new": 1, "more": None}, "l": [{"new": 1, "more": None}]},
        {"after": {"new": 2, "more": 3}, "l": [{"new": 2, "more": 3}]},
    ]


def test_names_of_older_schemas_are_known_after_several_renames(tmp_path):
    table = Evolving(tmp_path, ("a", pa.int32())).append(a=1)
    table.evolve(("b", pa.int32()), renames={("a",): ("b",)}).append(b=2)
    table.evolve(("c", pa.int32()), renames={("b",): ("c",)}).append(c=3)
    for name in "abc":
        table.evolve((name, pa.int32()))
    assert table.values() == [{"c": 1}, {"c": 2}, {"c": 3}]
    assert table.table.renames == {("a",): ("c",), ("b",): ("c",)}


def test_a_column_is_named_back(tmp_path):
    table = Evolving(tmp_path, ("a", pa.int32())).append(a=1)
    table.evolve(("b", pa.int32()), renames={("a",): ("b",)}).append(b=2)
    table.evolve(("a", pa.int32()), renames={("b",): ("a",)}).append(a=3)
    assert table.values() == [{"a": 1}, {"a": 2}, {"a": 3}]
    table.evolve(("b", pa.int32()))
    assert table.values() == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_rename_to_a_column_that_exists_changes_nothing(tmp_path):
    table = Evolving(tmp_path, ("old", pa.int32()), ("new", pa.int32())).append(old=1, new=2)
    table.evolve(("new", pa.int32()), renames={("old",): ("new",)})
    assert table.values() == [{"old": 1, "new": 2}]


@pytest.mark.parametrize(
    ("older", "newer", "text"),
    [
        (pa.string(), pa.int64(), "column a is string and cannot become long"),
        (pa.int64(), pa.float64(), "column a is long and cannot become double"),
        (pa.decimal128(4, 2), pa.decimal128(9, 3), r"decimal\(4, 2\) and cannot become decimal"),
        (pa.string(), pa.binary(), "column a is string and cannot become binary"),
        (pa.date32(), pa.timestamp("us", tz="UTC"), "date and cannot become timestamptz"),
        (pa.int32(), pa.struct([("x", pa.int32())]), "column a is int and cannot become a struct"),
        (pa.list_(pa.int32()), pa.int32(), "column a is a list and cannot become int"),
        (
            pa.list_(pa.struct([("x", pa.int32())])),
            pa.list_(pa.struct([("x", pa.string())])),
            r"column a\.element\.x is int and cannot become string",
        ),
        (
            pa.map_(pa.int32(), pa.int32()),
            pa.map_(pa.int64(), pa.int32()),
            r"column a\.key is int and cannot become long",
        ),
        (pa.int32(), pa.month_day_nano_interval(), "no Iceberg type for a column"),
    ],
)
def test_a_change_of_meaning_is_refused_and_nothing_is_changed(tmp_path, older, newer, text):
    table = Evolving(tmp_path, ("a", older))
    before = table.table.arrow_type
    with pytest.raises(BadEvolution, match=text):
        table.evolve(("added", pa.int32()), ("a", newer))
    table.table.refresh()
    assert table.table.arrow_type == before


INNER = pa.struct([("x", pa.int32()), ("X", pa.int32())])


@pytest.mark.parametrize(
    ("newer", "name"),
    [
        ([("carrier", pa.int32()), ("Carrier", pa.int32())], "Carrier"),
        ([("CARRIER", pa.int32())], "CARRIER"),
        ([("Redpanda", pa.int32())], "Redpanda"),
        ([("s", INNER)], "s.x"),
        ([("l", pa.list_(pa.field("element", INNER)))], "l.element.x"),
        ([("m", pa.map_(pa.string(), pa.field("value", INNER)))], "m.value.x"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_name_that_differs_only_in_case_is_refused(tmp_path, newer, name):
    """Spark 4.0 refuses queries that name either, as [AMBIGUOUS_REFERENCE]."""
    table = Evolving(tmp_path, ("carrier", pa.int32())).append(carrier=1)
    with pytest.raises(BadEvolution, match=f"column {name} differs only in case from"):
        table.evolve(*newer)
    assert table.values() == [{"carrier": 1}]


def test_a_name_whose_case_changes_by_an_alias_is_a_rename(tmp_path):
    table = Evolving(tmp_path, ("carrier", pa.int32())).append(carrier=1)
    table.evolve(("Carrier", pa.int32()), renames={("carrier",): ("Carrier",)})
    assert table.append(Carrier=2).values() == [{"Carrier": 1}, {"Carrier": 2}]


def test_columns_without_a_change_make_no_commit(tmp_path):
    table = Evolving(tmp_path, ("a", pa.int32())).append(a=1)
    location = table.table.table.metadata_location
    table.evolve(("a", pa.int32()))
    assert table.table.table.metadata_location == location


def test_rows_with_older_names_are_written_to_columns_renamed_meanwhile(tmp_path):
    table = Evolving(tmp_path, ("old", pa.int32()), partition_spec="(bucket(4, old))")
    table.append(old=1)
    other = a_table(tmp_path, columns(("old", pa.int32())), "(bucket(4, old))")
    other.evolve(columns(("new", pa.int64()), ("b", pa.string())), {("old",): ("new",)})
    table.append(old=2)
    assert table.values() == [{"new": 1, "b": None}, {"new": 2, "b": None}]


def test_concurrent_evolutions_of_two_workers_both_succeed(tmp_path):
    tables = [a_table(tmp_path, columns(("a", pa.int32())), "()") for _ in range(2)]
    gate = threading.Barrier(2)
    for table in tables:
        _pause_first_commit(table, gate)
    threads = [
        threading.Thread(target=table.evolve, args=[columns(("a", type_), (name, pa.string()))])
        for table, type_, name in zip(tables, (pa.int32(), pa.int64()), "bc", strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = a_table(tmp_path, columns(("a", pa.int32())), "()")
    assert {field.name: field.type for field in table.arrow_type if field.name in "abc"} == {
        "a": pa.int64(),
        "b": pa.string(),
        "c": pa.string(),
    }


def test_an_evolution_that_loses_a_race_is_tried_again(tmp_path):
    table = a_table(tmp_path, columns(("a", pa.int32())), "()")
    commit = table.catalog.commit_table
    refusals = [CommitFailedException("first"), CommitFailedException("second")]

    def commit_table(*request):
        if refusals:
            raise refusals.pop()
        return commit(*request)

    table.catalog.commit_table = commit_table
    table.evolve(columns(("a", pa.int64())))
    assert table.arrow_type.field("a").type == pa.int64()


def _pause_first_commit(table: TopicTable, gate: threading.Barrier) -> None:
    """Both tables are loaded before one of them commits."""
    commit = table.catalog.commit_table

    def commit_table(*request):
        table.catalog.commit_table = commit
        gate.wait(timeout=30)
        return commit(*request)

    table.catalog.commit_table = commit_table
