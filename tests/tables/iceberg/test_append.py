"""Appends: one snapshot each, with rows and marks, sorted, partitioned and compressed."""

import time
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, In

from tests.tables.iceberg.lake import (
    TABLE,
    TOPIC_ID,
    a_table,
    append,
    assert_holds_its_marks,
    files_in,
    files_of,
    offsets_of,
    records,
    rows,
)
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.tables.iceberg.layout import (
    DEAD_LETTER_COLUMNS,
    KEY_VALUE_COLUMNS,
    dead_letter_table,
    typed_columns,
)
from wirekafka.tables.iceberg.marks import TAG, added_by, marks_of
from wirekafka.tables.iceberg.problems import MarksMoved, WrongTable
from wirekafka.tables.iceberg.topic_table import TopicTable


def test_a_new_table_has_redpandas_columns_and_no_ends(tmp_path):
    table = a_table(tmp_path)
    assert table.arrow_type == KEY_VALUE_COLUMNS
    assert table.refresh().ends == {}
    assert table.refresh().topic_id == TOPIC_ID
    assert [field.name for field in table.table.spec().fields] == ["redpanda.timestamp_hour"]
    assert table.table.properties["write.parquet.compression-codec"] == "zstd"


def test_an_append_is_one_snapshot_with_rows_marks_and_tag(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 100, epoch=3)
    marks = table.append(
        pa.concat_tables([rows(1, range(50)), rows(0, range(100, 120))]),
        {0: (100, 120), 1: (0, 50)},
        {0: 3, 1: 7},
    )
    assert (marks.ends, marks.epochs) == ({0: 120, 1: 50}, {0: 3, 1: 7})
    snapshot = table.table.current_snapshot()
    assert added_by(snapshot) == {0: (100, 120), 1: (0, 50)}
    assert table.table.refs()[TAG].snapshot_id == snapshot.snapshot_id
    assert len(table.table.snapshots()) == 2
    assert assert_holds_its_marks(table) == {0: 120, 1: 50}
    assert marks_of(table.table) == marks


def test_a_range_without_rows_moves_the_marks(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    assert table.append(rows(0, ()), {0: (10, 30)}, {0: 1}).ends == {0: 30}
    assert len(files_in(tmp_path)) == 1
    assert table.append(rows(0, [31, 35]), {0: (30, 40)}, {0: 1}).ends == {0: 40}
    assert offsets_of(table.table) == {0: [*range(10), 31, 35]}


def test_a_first_range_may_begin_where_the_log_does(tmp_path):
    table = a_table(tmp_path)
    assert append(table, 500, 510) == {0: 510}


@pytest.mark.parametrize("start", [0, 9, 11])
def test_a_range_that_does_not_begin_where_the_marks_end_is_refused(tmp_path, start):
    table = a_table(tmp_path)
    append(table, 0, 10)
    before = files_in(tmp_path)
    with pytest.raises(MarksMoved, match="partition 0 ends at 10 in the table, not at"):
        append(table, start, 20)
    assert files_in(tmp_path) == before
    assert assert_holds_its_marks(table) == {0: 10}


def test_files_are_sorted_by_partition_and_offset_and_compressed_by_zstd(tmp_path):
    table = a_table(tmp_path, partition_spec="()")
    mixed = pa.concat_tables([rows(1, [3, 1, 2]), rows(0, [5, 0])])
    table.append(mixed, {0: (0, 6), 1: (0, 4)}, {0: 0, 1: 0})
    (path,) = files_of(table)
    found = pq.read_table(path)["redpanda"].to_pylist()
    order = [(record["partition"], record["offset"]) for record in found]
    assert order == [(0, 0), (0, 5), (1, 1), (1, 2), (1, 3)]
    columns = pq.read_metadata(path).row_group(0)
    assert columns.column(0).compression == "ZSTD"
    assert columns.column(1).path_in_schema == "redpanda.timestamp"
    assert "DELTA_BINARY_PACKED" in columns.column(1).encodings


def test_the_codec_of_a_tables_properties_is_used(tmp_path):
    table = a_table(tmp_path, partition_spec="()")
    with table.table.transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "uncompressed"})
    append(table, 0, 10)
    (path,) = files_of(table)
    assert pq.read_metadata(path).row_group(0).column(0).compression == "UNCOMPRESSED"
    assert assert_holds_its_marks(table) == {0: 10}


def test_rows_are_divided_into_partitions_by_hour(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 150)
    assert {path.parent.name for path in files_of(table)} == {
        f"redpanda.timestamp_hour=2026-11-27-{hour:02d}" for hour in range(3)
    }
    assert assert_holds_its_marks(table) == {0: 150}


def test_every_type_is_read_as_it_was_written(tmp_path):
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    value = pa.struct(
        [
            ("decimal", pa.decimal128(38, 9)),
            ("uint64", pa.decimal128(20, 0)),
            ("time", pa.time64("us")),
            ("date", pa.date32()),
            ("local", pa.timestamp("us")),
            ("instant", pa.timestamp("us", tz="UTC")),
            ("structs", pa.list_(header)),
            ("map", pa.map_(pa.string(), pa.int64())),
            ("maps", pa.map_(pa.string(), header)),
            ("lists", pa.list_(pa.list_(pa.float64()))),
            ("uuid", pa.uuid()),
            ("fixed", pa.binary(3)),
            ("with.dot", pa.int32()),
            ("with space", pa.float32()),
            pa.field("inner", pa.struct([pa.field("needed", pa.int32(), nullable=False)])),
        ]
    )
    columns = typed_columns(value)
    table = a_table(tmp_path, columns)
    full: dict = {
        "decimal": Decimal("-12345678901234567890123456789.000000001"),
        "uint64": Decimal(2**64 - 1),
        "time": datetime(2026, 1, 1, 23, 59, 59, 999_999).time(),
        "date": datetime(1965, 3, 1).date(),
        "local": datetime(1965, 3, 1, 1, 2, 3, 4),
        "instant": datetime(2026, 3, 1, 1, 2, 3, 4, tzinfo=UTC),
        "structs": [{"key": "a", "value": None}, None],
        "map": [("a", 1), ("b", None)],
        "maps": [("a", {"key": "x", "value": b"y"})],
        "lists": [[1.5], [], None],
        "uuid": bytes(range(16)),
        "fixed": b"abc",
        "with.dot": 7,
        "with space": 0.5,
        "inner": {"needed": 4},
    }
    empty: dict = {"structs": [], "map": [], "lists": []}
    values: list[dict] = [full, {}, empty, full]
    found = [record | each for record, each in zip(records(0, range(4)), values, strict=True)]
    written = pa.Table.from_pylist(found, schema=columns)
    # A slice has offsets into buffers of more rows.
    table.append(written.slice(0, 1), {0: (0, 1)}, {0: 0})
    table.append(written.slice(1), {0: (1, 4)}, {0: 0})
    paths = sorted(files_of(table), key=lambda path: pq.read_metadata(path).num_rows)
    read = pa.concat_tables([pq.read_table(path) for path in paths])
    read = read.rename_columns(columns.names)
    assert read.to_pylist() == written.to_pylist()
    # pyiceberg reads a null list or map of structs as an empty one.
    fields = [name for name in columns.names if name not in ("structs", "maps")]
    by_scan = sorted(
        table.table.scan(selected_fields=tuple(fields)).to_arrow().to_pylist(),
        key=lambda row: row["redpanda"]["offset"],
    )
    assert by_scan == written.select(fields).to_pylist()


def test_column_bounds_let_readers_skip_files(tmp_path):
    table = a_table(tmp_path, partition_spec="()")
    append(table, 0, 10)
    append(table, 10, 20)
    tasks = list(table.table.scan("redpanda.offset >= 15").plan_files())
    assert len(tasks) == 1


def test_times_that_python_does_not_have_are_rows_without_bounds(tmp_path):
    times = pa.struct([("at", pa.timestamp("us")), ("day", pa.date32())])
    columns = typed_columns(pa.struct([*times, ("nested", times)]))
    table = a_table(tmp_path, columns)
    place = rows(0, range(2)).column("redpanda")
    at, day = pa.array([0, 1 << 62], times[0].type), pa.array([0, 1 << 30], times[1].type)
    nested = pa.StructArray.from_arrays([at, day], fields=list(times))
    table.append(pa.table([place, at, day, nested], names=columns.names), {0: (0, 2)}, {0: 1})
    found = table.table.scan().to_arrow()
    assert found.column("at").cast(pa.int64()).to_pylist() == [0, 1 << 62]
    assert found.column("day").cast(pa.int32()).to_pylist() == [0, 1 << 30]
    [task] = table.table.scan("redpanda.offset >= 1").plan_files()
    assert task.file.record_count == 2


def test_a_snapshot_of_somebody_else_is_passed_over(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    other = open_catalog(str(tmp_path)).load_table(TABLE)
    other.delete(In("value", values=[b"%d" % offset for offset in range(5)]))
    assert table.refresh().ends == {0: 10}
    assert append(table, 10, 20) == {0: 20}
    assert offsets_of(table.table) == {0: list(range(5, 20))}


def test_the_marks_outlive_the_expiry_of_all_older_snapshots(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    append(table, 10, 20)
    other = open_catalog(str(tmp_path)).load_table(TABLE)
    other.delete(In("value", values=[b"%d" % offset for offset in range(5)]))
    other.delete(EqualTo("value", value=b"5"))
    other.maintenance.expire_snapshots().older_than(_later()).commit()
    assert len(other.snapshots()) == 2
    assert table.refresh().ends == {0: 20}
    assert append(table, 20, 30) == {0: 30}
    other.refresh().maintenance.expire_snapshots().older_than(_later()).commit()
    assert len(other.snapshots()) == 1
    assert table.refresh().ends == {0: 30}
    assert offsets_of(table.table) == {0: list(range(6, 30))}


def test_a_rollback_takes_the_marks_back_with_the_rows(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    first = table.table.current_snapshot().snapshot_id
    append(table, 10, 20)
    table.table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert table.refresh().ends == {0: 10}
    assert append(table, 10, 15) == {0: 15}
    assert assert_holds_its_marks(table) == {0: 15}


def test_the_table_of_a_topic_created_again_is_refused(tmp_path):
    append(a_table(tmp_path), 0, 10)
    with pytest.raises(WrongTable, match=r"redpanda.flights.*id AAAA.*AQ.*created again"):
        TopicTable.open(open_catalog(str(tmp_path)), TABLE, "other", KEY_VALUE_COLUMNS, "()")


def test_an_empty_table_of_a_topic_created_again_is_refused(tmp_path):
    a_table(tmp_path)
    with pytest.raises(WrongTable, match="created again"):
        TopicTable.open(open_catalog(str(tmp_path)), TABLE, "other", KEY_VALUE_COLUMNS, "()")


def test_a_table_with_rows_of_somebody_else_is_refused(tmp_path):
    catalog = open_catalog(str(tmp_path))
    catalog.create_namespace("redpanda")
    catalog.create_table(TABLE, KEY_VALUE_COLUMNS).append(rows(0, range(3)))
    with pytest.raises(WrongTable, match="rows that wirekafka did not write"):
        a_table(tmp_path)


def test_an_empty_table_of_somebody_else_is_taken_over(tmp_path):
    catalog = open_catalog(str(tmp_path))
    catalog.create_namespace("redpanda")
    catalog.create_table(TABLE, KEY_VALUE_COLUMNS)
    append(a_table(tmp_path), 0, 10)
    with pytest.raises(WrongTable):
        TopicTable.open(catalog, TABLE, "other", KEY_VALUE_COLUMNS, "()")


def test_a_table_that_is_dropped_meanwhile_is_reported(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    open_catalog(str(tmp_path)).drop_table(TABLE)
    with pytest.raises(WrongTable, match=r"redpanda.flights: the table was dropped"):
        append(table, 10, 20)


def test_a_restored_catalog_goes_on_from_its_older_marks(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    backup = (tmp_path / "catalog.db").read_bytes()
    append(table, 10, 20)
    table.catalog.close()
    (tmp_path / "catalog.db").write_bytes(backup)
    restored = a_table(tmp_path)
    assert assert_holds_its_marks(restored) == {0: 10}
    with pytest.raises(MarksMoved):
        append(table, 20, 30)
    append(restored, 10, 25)
    assert assert_holds_its_marks(restored) == {0: 25}


def test_a_restored_catalog_whose_metadata_is_gone_is_reported(tmp_path):
    table = a_table(tmp_path)
    for metadata in (tmp_path / "redpanda" / "flights" / "metadata").glob("*.json"):
        metadata.unlink()
    with pytest.raises(WrongTable, match=r"redpanda.flights: FileNotFoundError.*restore it"):
        table.refresh()


def test_a_hundred_appends_merge_their_manifests(tmp_path):
    table = a_table(tmp_path, partition_spec="()")
    with table.table.transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "5"})
    for start in range(0, 12, 2):
        append(table, start, start + 2)
    snapshot = table.table.current_snapshot()
    assert len(snapshot.manifests(table.table.io)) < 6
    assert assert_holds_its_marks(table) == {0: 12}


def test_names_with_dots_and_the_dead_letters_suffix_are_tables(tmp_path):
    catalog = open_catalog(str(tmp_path))
    for name in ("a.b.c", dead_letter_table("flights"), "-_x"):
        table = TopicTable.open(catalog, ("redpanda", name), TOPIC_ID, KEY_VALUE_COLUMNS, "()")
        append(table, 0, 3)
        assert assert_holds_its_marks(table) == {0: 3}


def test_dead_letters_have_a_table_of_their_own_with_the_reason(tmp_path):
    table = a_table(tmp_path, DEAD_LETTER_COLUMNS)
    letters = [each | {"value": b"?", "error": "no schema 7"} for each in records(0, [3])]
    table.append(pa.Table.from_pylist(letters, schema=DEAD_LETTER_COLUMNS), {0: (0, 4)}, {0: 0})
    assert table.table.scan().to_arrow()["error"].to_pylist() == ["no schema 7"]


def test_a_value_whose_field_has_the_name_of_the_records_column_is_refused():
    with pytest.raises(ValueError, match="the value has a field redpanda"):
        typed_columns(pa.struct([("redpanda", pa.int32())]))


def test_rows_outside_of_the_ranges_are_a_defect(tmp_path):
    table = a_table(tmp_path)
    with pytest.raises(AssertionError, match="outside of the ranges"):
        table.append(rows(0, range(5)), {0: (0, 4)}, {0: 0})
    with pytest.raises(AssertionError, match="outside of the ranges"):
        table.append(rows(1, range(4)), {0: (0, 4)}, {0: 0})


def _later() -> datetime:
    return datetime.fromtimestamp(time.time() + 1000)
