"""Upserts: a table has the newest record of each key, as a compacted topic has."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.tables.iceberg.deaths import deaths_at_every_step
from tests.tables.iceberg.lake import FIRST_TIME, a_table, files_in, files_of
from wirekafka.tables.iceberg import upsert as upserts
from wirekafka.tables.iceberg.layout import KEY_VALUE_COLUMNS, typed_columns
from wirekafka.tables.iceberg.marks import added_by
from wirekafka.tables.iceberg.problems import MarksMoved
from wirekafka.tables.iceberg.small_files import Compaction, FileSizes
from wirekafka.tables.iceberg.upsert import upsert


def batch(offset, *pairs, partition=0, schema=KEY_VALUE_COLUMNS):
    """Consecutive records of keys and values."""
    found = [
        {
            "redpanda": {
                "partition": partition,
                "offset": offset + position,
                "timestamp": FIRST_TIME,
                "headers": None,
                "key": key,
                "timestamp_type": 0,
            },
            "value": value,
        }
        for position, (key, value) in enumerate(pairs)
    ]
    return pa.Table.from_pylist(found, schema=schema)


def write(table, offset, *pairs, partition=0):
    """Upsert consecutive records."""
    rows = batch(offset, *pairs, partition=partition)
    tombstones = rows["value"].is_null().combine_chunks()
    return upsert(
        table, rows, tombstones, {partition: (offset, offset + len(pairs))}, {partition: 1}
    )


def values_of(table):
    """Value and offset by partition and key; asserts that no key has two rows."""
    table.refresh()
    found = {}
    for row in table.table.scan().to_arrow().to_pylist():
        record = row["redpanda"]
        key = record["partition"], record["key"]
        assert key not in found
        found[key] = row["value"], record["offset"]
    return found


def test_the_newest_record_of_a_key_replaces_its_row(tmp_path):
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"1"), (b"b", b"2"))
    marks = write(table, 2, (b"a", b"3"), (b"c", b"4"), (b"a", b"5"))
    assert values_of(table) == {(0, b"a"): (b"5", 4), (0, b"b"): (b"2", 1), (0, b"c"): (b"4", 3)}
    assert (marks.ends, marks.epochs) == ({0: 5}, {0: 1})
    snapshot = table.table.current_snapshot()
    assert added_by(snapshot) == {0: (2, 5)}
    assert snapshot.summary.operation.value == "overwrite"
    assert snapshot.summary.additional_properties["total-records"] == "3"


def test_a_null_value_deletes_the_row_of_its_key(tmp_path):
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"1"), (b"b", b"2"))
    write(table, 2, (b"a", None), (b"c", b"3"), (b"c", None), (b"d", None))
    assert values_of(table) == {(0, b"b"): (b"2", 1)}
    write(table, 6, (b"b", None))
    assert values_of(table) == {}
    assert write(table, 7, (b"a", b"4")).ends == {0: 8}
    assert values_of(table) == {(0, b"a"): (b"4", 7)}


def test_a_key_is_one_within_its_partition(tmp_path):
    """As in the log, whose compaction knows nothing of other partitions."""
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"1"))
    write(table, 0, (b"a", b"2"), partition=1)
    write(table, 1, (b"a", None))
    assert values_of(table) == {(1, b"a"): (b"2", 0)}


def test_new_keys_are_an_append(tmp_path):
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"1"))
    write(table, 1, (b"b", b"1"))
    assert table.table.current_snapshot().summary.operation.value == "append"


def test_only_files_with_keys_of_the_batch_are_written_again(tmp_path, monkeypatch):
    table = a_table(tmp_path)
    write(table, 0, *((b"a%d" % number, b"1") for number in range(9)))
    write(table, 9, *((b"b%d" % number, b"1") for number in range(9)))
    write(table, 18, *((b"a%d" % number, b"1") for number in range(9, 18)))
    write(table, 0, (b"a3", b"1"), partition=1)
    before = files_of(table)
    read = []
    rows_of = upserts.rows_of
    monkeypatch.setattr(
        upserts,
        "rows_of",
        lambda table, tasks, *rest: read.append(tasks) or rows_of(table, tasks, *rest),
    )
    write(table, 27, (b"a3", b"2"))
    # The bounds of one file show that it has no such key; of another, its keys.
    assert len(before & files_of(table)) == 3
    assert {len(tasks) for tasks in read} == {1} and len(read) == 3
    assert values_of(table)[0, b"a3"] == (b"2", 27)


def test_manifests_without_files_are_not_kept(tmp_path):
    table = a_table(tmp_path)
    for offset in range(4):
        write(table, offset, (b"a", b"1"))
    # One of the new file, one of the file that it replaces.
    assert len(table.table.current_snapshot().manifests(table.table.io)) == 2


def test_a_row_of_a_newer_record_stays(tmp_path):
    """Somebody wrote it: the log's own records come in order."""
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"1"))
    table.table.append(batch(7, (b"b", b"8")))
    write(table, 1, (b"b", b"2"), (b"a", None), (b"b", None))
    assert values_of(table) == {(0, b"b"): (b"8", 7)}


def test_a_batch_that_does_not_begin_where_the_marks_end_is_refused(tmp_path):
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"1"))
    with pytest.raises(MarksMoved):
        write(table, 0, (b"a", b"2"))
    assert values_of(table) == {(0, b"a"): (b"1", 0)}
    assert len(files_in(tmp_path)) == 1


def test_rows_get_the_columns_of_today(tmp_path):
    tags = pa.list_(pa.struct([("name", pa.string())]))
    old = typed_columns(pa.struct([("count", pa.int32()), ("tags", tags)]))
    new = typed_columns(pa.struct([("total", pa.int64()), ("tags", tags), ("note", pa.string())]))
    table = a_table(tmp_path, old)
    for offset, (name, columns) in enumerate([("count", old), ("total", new)]):
        table.evolve(columns, {("count",): ("total",)} if offset else {})
        keys = batch(2 * offset, (b"a", b""), (b"%d" % offset, b""))
        values = pa.table({name: [offset, offset], "tags": [None, [{"name": "x"}]]})
        rows = (
            keys.drop_columns("value")
            .append_column(
                pa.field(name, columns.field(name).type),
                values[name].cast(columns.field(name).type),
            )
            .append_column(pa.field("tags", tags), values["tags"])
        )
        upsert(table, rows, pa.array([False, False]), {0: (2 * offset, 2 * offset + 2)}, {0: 1})
    (path,) = files_of(table)
    found = {
        row["redpanda"]["key"]: (row["total"], row["tags"], row["note"])
        for row in pq.read_table(path).to_pylist()
    }
    named = [{"name": "x"}]
    assert found == {b"a": (1, None, None), b"0": (0, named, None), b"1": (1, named, None)}


def meanwhile(monkeypatch, action):
    """Let somebody else act after an upsert wrote its files, before they are committed."""
    write_rows = upserts.write_rows

    def wrapper(*arguments, **named):
        written = write_rows(*arguments, **named)
        monkeypatch.undo()
        action()
        return written

    monkeypatch.setattr(upserts, "write_rows", wrapper)


def test_another_partitions_upsert_at_the_same_time_comes_first(tmp_path, monkeypatch):
    """Both rewrite the same file: the second does so with what the first left."""
    table = a_table(tmp_path)
    both = pa.concat_tables([batch(0, (b"a", b"1")), batch(0, (b"a", b"1"), partition=1)])
    upsert(table, both, pa.array([False, False]), {0: (0, 1), 1: (0, 1)}, {0: 1, 1: 1})
    other = a_table(tmp_path)
    meanwhile(monkeypatch, lambda: write(other, 1, (b"a", b"2"), partition=1))
    marks = write(table, 1, (b"a", b"3"))
    assert values_of(table) == {(0, b"a"): (b"3", 1), (1, b"a"): (b"2", 1)}
    assert marks.ends == {0: 2, 1: 2}
    # What was written for the state before is deleted again.
    assert len(files_in(tmp_path)) == 3


def test_a_compaction_at_the_same_time_comes_first(tmp_path, monkeypatch):
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"1"))
    write(table, 1, (b"b", b"1"))

    def compact():
        compaction, other = Compaction(FileSizes(fewest_files=2)), a_table(tmp_path)
        (group,) = compaction.due(other.table)
        assert compaction.merge(other, group) == 2

    meanwhile(monkeypatch, compact)
    write(table, 2, (b"a", None))
    assert values_of(table) == {(0, b"b"): (b"1", 1)}


def test_an_upsert_that_ends_anywhere_is_complete_or_has_not_been(tmp_path):
    table = a_table(tmp_path)
    write(table, 0, (b"a", b"0"), (b"b", b"1"))
    number = 0

    def run():
        write(a_table(tmp_path), 2 + 2 * number, (b"a", b"%d" % number), (b"c", None))

    for has_ended in deaths_at_every_step(run):
        is_committed = table.refresh().ends[0] == 4 + 2 * number
        assert is_committed or not has_ended
        number += is_committed
        expected = (b"%d" % (number - 1), 2 * number) if number else (b"0", 0)
        assert values_of(table) == {(0, b"a"): expected, (0, b"b"): (b"1", 1)}


KEYS = st.sampled_from([b"", b"a", b"b", b"c" * 20, b"c" * 20 + b"d", b"\xff" * 17])
RECORDS = st.lists(
    st.tuples(st.integers(0, 2), KEYS, st.one_of(st.none(), st.binary(max_size=2))), max_size=8
)


@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(RECORDS, min_size=2, max_size=4), st.sampled_from(["()", "(bucket(2, redpanda.key))"])
)
def test_a_table_has_what_a_dictionary_has(tmp_path_factory, batches, partition_spec):
    table = a_table(tmp_path_factory.mktemp("table"), partition_spec=partition_spec)
    expected, ends = {}, dict.fromkeys(range(3), 0)
    for records in batches:
        starts, parts = dict(ends), []
        for partition, key, value in records:
            offset = ends[partition]
            parts.append(batch(offset, (key, value), partition=partition))
            ends[partition] += 1
            expected.pop((partition, key), None)
            if value is not None:
                expected[partition, key] = value, offset
        rows = pa.concat_tables(parts or [batch(0)])
        tombstones = rows["value"].is_null().combine_chunks()
        added = {partition: (starts[partition], ends[partition]) for partition in ends}
        upsert(table, rows, tombstones, added, dict.fromkeys(ends, 1))
        assert values_of(table) == expected
        assert table.marks.ends == ends
