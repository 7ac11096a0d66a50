"""Logs read from brokers' sockets: complete, committed, and in spite of failures that pass."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.reader.contradictory_batches import CONTRADICTORY_BATCH, WHOLE_BATCH
from wirekafka import Broker, Cluster
from wirekafka.reader import leaders
from wirekafka.reader.fetches import Fetches
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError, UnknownLog
from wirekafka.reader.source import Isolation, OffsetRange, Split
from wirekafka.reader.wire_log import WireLog
from wirekafka.tables.scan import scan


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.reset()


@pytest.fixture
def log(broker: Broker) -> Iterator[WireLog]:
    # Small responses: a reader needs several.
    with WireLog(broker.bootstrap_servers, fetch_bytes=1_000) as opened:
        yield opened


def values(log: WireLog, split: Split, isolation: Isolation = "read_committed") -> list[bytes]:
    batches = log.read(split, columns=["value"], isolation=isolation)
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def values_and_error(log: WireLog, split: Split) -> tuple[list[bytes], ReaderError]:
    """What is read of a split up to its error."""
    found: list[bytes] = []
    with pytest.raises(ReaderError) as raised:
        for batch in log.read(split, columns=["value"]):
            found += batch.column("value").to_pylist()
    return found, raised.value


def whole(log: WireLog, topic: str = "t", isolation: Isolation = "read_committed") -> Split:
    return Split(topic, 0, *log.offsets(topic, 0, isolation=isolation))


def numbers(count: int) -> list[bytes]:
    return [b"%04d" % number for number in range(count)]


def transactions(broker: Broker, *ends: str) -> None:
    """Transactions of two records each, which are committed, aborted or left open."""
    for number, end in enumerate(ends):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{number}"}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions()
        producer.begin_transaction()
        for place in range(2):
            producer.produce("t", f"{end}-{number}-{place}")
        producer.flush()
        if end == "committed":
            producer.commit_transaction()
        elif end == "aborted":
            producer.abort_transaction()


def test_topics_and_partitions_are_listed(broker: Broker, log: WireLog) -> None:
    broker.create_topic("t", partitions=3)
    assert "t" in log.topics()
    assert "__consumer_offsets" not in log.topics()
    assert log.partitions("t") == [0, 1, 2]
    with pytest.raises(UnknownLog, match="no topic missing"):
        log.partitions("missing")
    with pytest.raises(UnknownLog, match="t has no partition 7"):
        log.offsets("t", 7)


def test_every_record_is_read_once_and_in_order(broker: Broker, log: WireLog) -> None:
    for number in numbers(300):
        broker.produce("t", [number])
    assert log.offsets("t", 0) == OffsetRange(0, 300)
    assert values(log, whole(log)) == numbers(300)
    assert values(log, Split("t", 0, 7, 200)) == numbers(200)[7:]


def test_splits_cover_a_range_once(broker: Broker, log: WireLog) -> None:
    broker.produce("t", numbers(30_000))
    splits = log.splits("t", 0, 100, 30_000, target_bytes=100_000)
    assert len(splits) > 1
    assert [value for split in splits for value in values(log, split)] == numbers(30_000)[100:]


def test_records_are_found_by_time(broker: Broker, log: WireLog) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    broker.create_topic("t")
    for number in range(10):
        producer.produce("t", b"x", timestamp=1_000 + number * 10)
    producer.flush()
    assert log.offset_for_time("t", 0, 1_035) == 4
    assert log.offset_for_time("t", 0, 2_000) is None


def test_aborted_and_open_transactions_are_left_out(broker: Broker, log: WireLog) -> None:
    broker.create_topic("t")
    transactions(broker, "committed", "aborted", "committed", "aborted", "open")
    broker.produce("t", [b"last"])
    assert values(log, whole(log)) == [
        b"committed-0-0",
        b"committed-0-1",
        b"committed-2-0",
        b"committed-2-1",
    ]
    everything = values(log, whole(log, isolation="read_uncommitted"), "read_uncommitted")
    assert everything == [record.value for record in broker.records("t")]
    assert len(everything) == 11


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "FENCED_LEADER_EPOCH"),
        ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("Fetch", "KAFKA_STORAGE_ERROR"),
    ],
)
def test_errors_that_pass_are_retried(broker: Broker, log: WireLog, api: str, error: str) -> None:
    broker.produce("t", numbers(20))
    with broker.fail(api, error, topic="t", times=2, required=True):  # type: ignore[arg-type]
        assert values(log, whole(log)) == numbers(20)


def test_lost_connections_are_made_again(broker: Broker, log: WireLog) -> None:
    broker.produce("t", numbers(20))
    for api in ("Metadata", "ListOffsets", "Fetch"):
        with broker.drop(api, times=1, required=True):
            assert values(log, whole(log)) == numbers(20)
    broker.drop_connections()
    assert values(log, whole(log)) == numbers(20)


def test_other_errors_are_reported(broker: Broker, log: WireLog) -> None:
    broker.produce("t", numbers(20))
    with (
        broker.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", topic="t", required=True),
        pytest.raises(ReaderError, match="t-0: TOPIC_AUTHORIZATION_FAILED"),
    ):
        values(log, Split("t", 0, 0, 20))


def test_a_broker_that_stays_away_is_reported_with_the_reason(
    broker: Broker, log: WireLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce("t", numbers(20))
    monkeypatch.setattr(leaders, "RETRY_FOR_S", 0.2)
    with broker.fail("Fetch", "LEADER_NOT_AVAILABLE"), pytest.raises(ReaderError) as raised:
        values(log, Split("t", 0, 0, 20))
    assert "t-0: LEADER_NOT_AVAILABLE" in str(raised.value)


def test_deleted_records_are_a_loss_with_their_offsets(broker: Broker, log: WireLog) -> None:
    broker.produce("t", numbers(100))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    [deleted] = admin.delete_records([TopicPartition("t", 0, 40)]).values()
    deleted.result(30)
    with pytest.raises(DataLost, match=r"t-0, offsets 10 up to 40: .*") as raised:
        values(log, Split("t", 0, 10, 90))
    assert (raised.value.start_offset, raised.value.end_offset) == (10, 40)
    assert values(log, Split("t", 0, 40, 90)) == numbers(90)[40:]


def test_offsets_beyond_the_end_are_a_loss(broker: Broker, log: WireLog) -> None:
    broker.produce("t", numbers(10))
    with pytest.raises(DataLost, match="ends at offset 10"):
        values(log, Split("t", 0, 15, 90))


def test_rows_in_front_of_a_loss_are_read(
    broker: Broker, log: WireLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirekafka.reader.leaders.RETRY_FOR_S", 1.0)
    broker.produce("t", numbers(10))
    found, error = values_and_error(log, Split("t", 0, 0, 90))
    assert isinstance(error, DataLost) and error.start_offset == 10
    assert found == numbers(10)


def test_records_that_contradict_their_batch_are_damage_after_the_rows_in_front(
    broker: Broker, log: WireLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("t")
    sent = scan(WHOLE_BATCH + CONTRADICTORY_BATCH)
    monkeypatch.setattr(Fetches, "batches", lambda *_: iter([sent]))
    found, error = values_and_error(log, Split("t", 0, 0, 4))
    assert isinstance(error, DamagedLog)
    assert str(error).startswith("t-0, the batch at offset 2, position 0: ")
    assert found == [b"a", b"b"]


def test_a_reader_follows_a_partition_to_its_next_leader() -> None:
    with Cluster(topics=["t"]) as cluster:
        for number in numbers(50):
            cluster.produce("t", [number])
        with WireLog(cluster.bootstrap_servers, fetch_bytes=1_000) as log:
            split = whole(log)
            batches = log.read(split, columns=["offset"])
            offsets = next(batches).column("offset").to_pylist()
            cluster.kill(cluster.leader("t"))
            for batch in batches:
                offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(50))
