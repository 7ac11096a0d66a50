"""Compaction: fewer files with the same rows and marks, whatever happens at the same time."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue, EqualTo

from tests.tables.iceberg.deaths import deaths_at_every_step
from tests.tables.iceberg.lake import (
    a_table,
    append,
    assert_holds_its_marks,
    files_in,
    files_of,
    offsets_of,
    records,
    rows,
)
from tests.tables.iceberg.position_deletes import delete_positions
from wirekafka.tables.iceberg import small_files
from wirekafka.tables.iceberg.layout import KEY_VALUE_COLUMNS, typed_columns
from wirekafka.tables.iceberg.live_files import live_files, rows_of
from wirekafka.tables.iceberg.marks import TAG, added_by
from wirekafka.tables.iceberg.small_files import Compaction, FileSizes

PAIRS = FileSizes(fewest_files=2)


def compact(table, sizes=PAIRS):
    """Merge all that is due; returns how many files each merge removed."""
    compaction = Compaction(sizes)
    table.refresh()
    return [compaction.merge(table, group) for group in compaction.due(table.table)]


def content_of(table):
    """All rows by partition and offset."""
    found = table.table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["redpanda"]["partition"], row["redpanda"]["offset"]))


def with_small_files(directory, count=3, partition_spec="()"):
    """A table with files of ten rows each."""
    table = a_table(directory, partition_spec=partition_spec)
    for number in range(count):
        append(table, 10 * number, 10 * number + 10, epoch=4)
    return table


def meanwhile(monkeypatch, action):
    """Let somebody else act after a compaction wrote its files, before they are committed."""
    write = small_files.write_rows

    def write_rows(*arguments):
        written = write(*arguments)
        monkeypatch.undo()
        action()
        return written

    monkeypatch.setattr(small_files, "write_rows", write_rows)


def test_small_files_become_one_with_the_same_rows_and_marks(tmp_path):
    table = with_small_files(tmp_path)
    append(table, 0, 5, partition=1)
    before = content_of(table)
    marks = table.marks
    assert compact(table) == [4]
    assert content_of(table) == before
    assert (table.refresh(), len(files_of(table))) == (marks, 1)
    snapshot = table.table.current_snapshot()
    assert snapshot.summary.operation.value == "replace"
    assert snapshot.summary.additional_properties["total-records"] == "35"
    assert added_by(snapshot) == {}
    assert table.table.refs()[TAG].snapshot_id == snapshot.snapshot_id
    assert compact(table) == []


def test_a_merged_file_is_sorted_by_partition_and_offset(tmp_path):
    table = with_small_files(tmp_path)
    append(table, 0, 5, partition=1)
    append(table, 30, 40)
    compact(table)
    (path,) = files_of(table)
    record = pq.read_table(path)["redpanda"].to_pylist()
    positions = [(each["partition"], each["offset"]) for each in record]
    assert positions == sorted(positions) and len(positions) == 45


def test_partitions_are_merged_apart_and_that_of_the_newest_records_later(tmp_path):
    table = a_table(tmp_path)
    for start in (0, 30, 60, 90):
        append(table, start, start + 30)
    assert compact(table, FileSizes(fewest_files=3)) == [2]
    assert len(files_of(table)) == 3
    assert compact(table) == [2]
    assert len(files_of(table)) == 2
    assert assert_holds_its_marks(table) == {0: 120}


def test_partitions_of_several_transforms_and_of_nulls_are_merged(tmp_path):
    amount = pa.decimal128(10, 2)
    columns = typed_columns(pa.struct([("amount", amount), ("city", pa.string())]))
    table = a_table(tmp_path, columns, "(month(redpanda.timestamp), amount, truncate(2, city))")
    values = [{"amount": Decimal("1.50"), "city": "Åre"}, {}]
    for start in (0, 4):
        found = [
            record | values[position % 2]
            for position, record in enumerate(records(0, range(start, start + 4)))
        ]
        written = pa.Table.from_pylist(found, schema=table.arrow_type)
        table.append(written, {0: (start, start + 4)}, {0: 0})
    before = content_of(table)
    assert compact(table) == [2, 2]
    assert content_of(table) == before
    assert len(files_of(table)) == 2


def test_a_file_that_is_large_enough_stays(tmp_path):
    table = with_small_files(tmp_path)
    append(table, 30, 3000)
    large = max(files_of(table), key=lambda path: path.stat().st_size)
    assert compact(table, FileSizes(fewest_files=2, small_bytes=large.stat().st_size)) == [3]
    assert large in files_of(table)


def test_merged_files_have_the_target_size(tmp_path):
    table = with_small_files(tmp_path, 4)
    size_bytes = max(path.stat().st_size for path in files_of(table))
    assert compact(table, FileSizes(fewest_files=2, target_bytes=2 * size_bytes)) == [2, 2]
    assert assert_holds_its_marks(table) == {0: 40}


def test_rows_are_merged_as_far_as_memory_goes(tmp_path):
    table = with_small_files(tmp_path, 3)
    one_bytes = max(each.file.record_count for each in live_files(table.table))
    compaction = Compaction(FileSizes(fewest_files=2, memory_bytes=one_bytes))
    (group,) = compaction.due(table.table)
    assert compaction.merge(table, group) == 0
    assert len(files_of(table)) == 3
    # The file that fills the memory is not read again.
    (group,) = compaction.due(table.table)
    assert len(group) == 2


def test_files_of_an_older_partition_spec_stay(tmp_path):
    with_small_files(tmp_path, 2)
    table = a_table(tmp_path, partition_spec="(hour(redpanda.timestamp))")
    append(table, 20, 30)
    append(table, 30, 40)
    assert compact(table) == [2]
    assert assert_holds_its_marks(table) == {0: 40}
    assert len(files_of(table)) == 3


def test_old_files_get_the_columns_of_today(tmp_path):
    tags = pa.list_(pa.struct([("name", pa.string())]))
    table = with_small_files(tmp_path, 2)
    table.evolve(pa.schema([*KEY_VALUE_COLUMNS, ("tags", tags)]))
    new = [record | {"tags": [{"name": "a"}]} for record in records(0, [20])]
    table.append(pa.Table.from_pylist(new, schema=table.arrow_type), {0: (20, 21)}, {0: 4})
    assert compact(table) == [3]
    (path,) = files_of(table)
    # As the file has them: pyiceberg's scan reads a null list of structs as an empty one.
    assert pq.read_table(path)["tags"].to_pylist() == [None] * 20 + [[{"name": "a"}]]


def test_an_append_at_the_same_time_comes_first(tmp_path, monkeypatch):
    table = with_small_files(tmp_path)
    meanwhile(monkeypatch, lambda: append(a_table(tmp_path, partition_spec="()"), 30, 40))
    assert compact(table) == [3]
    assert assert_holds_its_marks(table) == {0: 40}
    assert len(files_of(table)) == 2


def test_of_two_compactions_of_the_same_files_one_gives_up(tmp_path, monkeypatch):
    table = with_small_files(tmp_path)
    meanwhile(monkeypatch, lambda: compact(a_table(tmp_path, partition_spec="()")))
    assert compact(table) == [0]
    assert assert_holds_its_marks(table) == {0: 30}
    assert len(files_of(table)) == 1
    assert len(files_in(tmp_path)) == 4


@pytest.mark.parametrize("left", [set(range(30)) - {15}, set()])
def test_rows_that_somebody_deletes_at_the_same_time_stay_deleted(tmp_path, monkeypatch, left):
    table = with_small_files(tmp_path)
    foreign = a_table(tmp_path, partition_spec="()").table
    condition = EqualTo("value", value=b"15") if left else AlwaysTrue()
    meanwhile(monkeypatch, lambda: foreign.delete(condition))
    assert compact(table) == [0]
    table.refresh()
    assert offsets_of(table.table) == ({0: sorted(left)} if left else {})
    assert table.marks.ends == {0: 30}


def test_the_partition_spec_may_change_at_the_same_time(tmp_path, monkeypatch):
    table = with_small_files(tmp_path)
    meanwhile(monkeypatch, lambda: a_table(tmp_path, partition_spec="(day(redpanda.timestamp))"))
    assert compact(table) == [0]
    assert assert_holds_its_marks(table) == {0: 30}


def test_files_that_another_process_merged_and_removed_are_passed_over(tmp_path):
    table = with_small_files(tmp_path)
    compaction = Compaction(PAIRS)
    (group,) = compaction.due(table.table)
    assert compact(a_table(tmp_path, partition_spec="()")) == [3]
    for task in group:
        table.table.io.delete(task.file.file_path)
    assert compaction.merge(table, group) == 0
    assert assert_holds_its_marks(table) == {0: 30}


def test_rows_that_files_of_deletes_name_are_left_out(tmp_path):
    table = with_small_files(tmp_path)
    task = live_files(table.table)[0]
    first = rows_of(table.table, [task]).rows["redpanda"].to_pylist()[0]["offset"]
    delete_positions(table.table, task, [3, 9])
    left = [each for each in range(30) if each not in (first + 3, first + 9)]
    assert offsets_of(table.table) == {0: left}
    assert compact(table) == [3]
    assert offsets_of(table.table) == {0: left}
    assert table.refresh().ends == {0: 30}


def test_deletes_of_rows_at_the_same_time_stay(tmp_path, monkeypatch):
    table = with_small_files(tmp_path)
    foreign = a_table(tmp_path, partition_spec="()").table
    task = live_files(foreign)[0]
    meanwhile(monkeypatch, lambda: delete_positions(foreign, task, [0]))
    assert compact(table) == [0]
    table.refresh()
    assert len(offsets_of(table.table)[0]) == 29
    assert compact(table) == [3]
    assert len(offsets_of(table.table)[0]) == 29


def test_marks_are_kept_over_snapshots_of_others(tmp_path):
    table = with_small_files(tmp_path)
    table.table.append(rows(9, [500]))
    marks = table.refresh()
    assert compact(table) == [4]
    assert table.refresh() == marks
    assert append(table, 30, 40) == {0: 40}
    assert offsets_of(table.table) == {0: list(range(40)), 9: [500]}


def test_a_compaction_that_ends_anywhere_loses_and_doubles_nothing(tmp_path):
    table = with_small_files(tmp_path, 2)
    ends = {0: 20}
    for _ in deaths_at_every_step(lambda: compact(a_table(tmp_path, partition_spec="()"))):
        assert assert_holds_its_marks(table) == ends
        if len(files_of(table)) == 1:
            ends = append(table, ends[0], ends[0] + 10)
