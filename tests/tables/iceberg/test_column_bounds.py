"""Bounds of columns in data files: readers skip by them only what has no such row."""

from pyiceberg.expressions import EqualTo

from tests.tables.iceberg.lake import a_table, rows
from wirekafka.tables.iceberg.column_bounds import bound_of
from wirekafka.tables.iceberg.live_files import live_files


def bounds(table, path):
    """The bounds of a column in the only data file."""
    (task,) = live_files(table.table)
    file, schema = task.file, table.table.schema()
    return tuple(bound_of(each, schema, path) for each in (file.lower_bounds, file.upper_bounds))


def test_the_columns_of_a_records_position_and_key_have_bounds(tmp_path):
    table = a_table(tmp_path)
    table.append(rows(3, range(10, 20)), {3: (10, 20)}, {3: 0})
    assert bounds(table, "redpanda.partition") == (3, 3)
    assert bounds(table, "redpanda.offset") == (10, 19)
    assert bounds(table, "redpanda.key") == (b"key-10", b"key-19")
    assert bounds(table, "value") == (b"10", b"19")
    assert bounds(table, "redpanda.headers.element.value") == (None, None)


def test_a_row_whose_value_is_too_long_for_statistics_is_found(tmp_path):
    table = a_table(tmp_path)
    # Parquet has statistics of the second row group only.
    with table.table.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-limit": "2"})
    long = b"z" * 5000
    written = rows(0, range(4)).to_pylist()
    written[0]["value"] = long
    table.append(rows(0, ()).from_pylist(written, table.arrow_type), {0: (0, 4)}, {0: 0})
    assert bounds(table, "value") == (None, None)
    found = table.table.scan(EqualTo("value", value=long)).to_arrow()
    assert found.num_rows == 1
