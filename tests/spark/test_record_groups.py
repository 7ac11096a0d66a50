"""Rows of a task as finished record batches of their partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from wirekafka.client.partitioner import partition_of
from wirekafka.codec.batch import read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import Record, decode_records
from wirekafka.spark.record_groups import RecordGroups, UnfitRow
from wirekafka.spark.sink_options import SinkOptions

ORDERS = SinkOptions("host:9092", topic="orders")
ANY_TOPIC = SinkOptions("host:9092")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COUNTS = {"orders": 3, "returns": 2}


def encoded(
    options: SinkOptions, *tables: dict[str, Any], first: int = 0
) -> dict[tuple[str, int], list[Record]]:
    """The records of each partition, and each partition's groups in order."""
    batches = [pa.record_batch(list(table.values()), names=list(table)) for table in tables]
    groups = RecordGroups(options, COUNTS.__getitem__, first_without_key=first)
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for one_round in groups.rounds(batches):
        for group in one_round:
            records = list(_records(group.batches))
            assert len(records) == group.records
            found[group.place] += records
    return dict(found)


def _records(batches: Iterable[bytes]) -> Iterable[Record]:
    for batch in batches:
        yield from decode_records(batch, read_header(batch))


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_keys_are_placed_as_java_places_them_and_keep_their_order() -> None:
    keys = [f"key {number % 50}".encode() for number in range(1_000)]
    found = encoded(ORDERS, {"value": pa.array(range(1_000)).cast("string"), "key": pa.array(keys)})
    for (topic, partition), records in found.items():
        assert topic == "orders"
        assert {partition_of(record.key or b"", 3) for record in records} == {partition}
        assert values(records) == sorted(values(records), key=lambda each: int(each or b""))
    assert sum(map(len, found.values())) == 1_000


def test_given_partition_counts_more_than_the_key() -> None:
    columns = {
        "value": pa.array(["a", "b", "c"]),
        "key": pa.array(["k", "k", None]),
        "partition": pa.array([2, None, 1], pa.int32()),
    }
    found = encoded(ORDERS, columns)
    assert values(found["orders", 2])[0] == b"a"
    assert values(found["orders", 1])[-1] == b"c"
    assert b"b" in values(found["orders", partition_of(b"k", 3)])


def test_few_rows_without_a_key_go_to_one_partition_in_turn() -> None:
    found = encoded(ORDERS, {"value": pa.array(["a", "b"])}, first=4)
    assert list(found) == [("orders", 1)]


def test_many_rows_without_a_key_go_to_all_partitions_in_blocks() -> None:
    rows = pa.array([bytes([number % 256]) * 10_000 for number in range(300)])
    found = encoded(ORDERS, {"value": rows})
    assert [len(records) for records in found.values()] == [100, 100, 100]


def test_topics_come_from_the_column_or_the_option() -> None:
    columns = {
        "topic": pa.array(["orders", "returns", "orders"]),
        "value": pa.array(["a", "b", "c"]),
    }
    found = encoded(ANY_TOPIC, columns)
    assert {topic for topic, _ in found} == {"orders", "returns"}
    assert {topic for topic, _ in encoded(ORDERS, columns)} == {"orders"}


def test_times_are_the_columns_or_now() -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    columns = {
        "value": pa.array(["a", "b"]),
        "timestamp": pa.array([moment, None], pa.timestamp("us", "UTC")),
    }
    [records] = encoded(ORDERS, columns).values()
    assert records[0].timestamp == int(moment.timestamp() * 1000)
    assert records[1].timestamp > records[0].timestamp
    [records] = encoded(ORDERS, {"value": pa.array(["a"])}).values()
    assert records[0].timestamp > int(moment.timestamp() * 1000)


def test_headers_and_nulls_are_kept() -> None:
    columns = {
        "value": pa.array([None, b"b"], pa.binary()),
        "headers": pa.array([[{"key": "h", "value": None}], None], HEADERS),
    }
    [records] = encoded(ORDERS, columns).values()
    assert values(records) == [None, b"b"]
    assert [list(record.headers) for record in records] == [[("h", None)], []]


def test_batches_are_transactional_unless_the_query_is_not_exactly_once() -> None:
    for options, expected in (
        (ORDERS, True),
        (SinkOptions("host:9092", topic="orders", is_exactly_once=False), False),
        (SinkOptions("host:9092", topic="orders", compression=Codec.ZSTD), True),
    ):
        groups = RecordGroups(options, COUNTS.__getitem__, first_without_key=0)
        [[group]] = groups.rounds([pa.record_batch([pa.array(["a"])], names=["value"])])
        header = read_header(group.batches[0])
        assert header.is_transactional == expected
        assert header.attributes & 7 == options.compression


def test_batches_are_as_large_as_the_option_allows() -> None:
    options = SinkOptions("host:9092", topic="orders", batch_bytes=2_000)
    rows = pa.record_batch([pa.array([b"x" * 100] * 100)], names=["value"])
    groups = RecordGroups(options, lambda _: 1, first_without_key=0)
    [[group]] = groups.rounds([rows])
    assert 5 < len(group.batches) < 10
    assert max(map(len, group.batches)) <= 2_000


def test_no_rows_ask_for_no_topic() -> None:
    empty = {"topic": pa.array([], pa.string()), "value": pa.array([], pa.string())}
    assert encoded(ANY_TOPIC, empty) == {}


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"partition": pa.array([3], pa.int32())}, "partition 3, but topic orders has 3"),
        ({"partition": pa.array([-1], pa.int32())}, "partition -1"),
        ({"timestamp": pa.array([-1], pa.timestamp("us", "UTC"))}, "timestamp before 1970"),
        ({"headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, "header without a key"),
    ],
)
def test_rows_that_no_record_can_be_are_refused(column: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnfitRow, match=reason):
        encoded(ORDERS, {"value": pa.array(["a"])} | column)


def test_row_without_a_topic_is_refused() -> None:
    with pytest.raises(UnfitRow, match="a row has no topic"):
        columns = {"topic": pa.array([None], pa.string()), "value": pa.array(["a"])}
        encoded(ANY_TOPIC, columns)
