"""The lag of groups and readers of a whole node, while it is written, read, deleted and reset."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.in_process import Exchange, InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.server.test_measured_pipeline import FETCH, fetch_request, produce_request
from wirekafka.metrics.lag import Behind
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.monitoring import lag
from wirekafka.server.monitoring.groups import LagCollector
from wirekafka.server.monitoring.lag import GROUP, READER, LagRow, LagTracker
from wirekafka.server.monitoring.share_lag import SHARE

SAMPLES = int(os.environ.get("WIREKAFKA_LAG_SAMPLES", "20000"))
"""1,000,000 take some minutes."""


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock, offsets_topic_num_partitions="1")
    broker.create("t")
    broker.create("__consumer_offsets")
    yield broker
    broker.stop()


@pytest.fixture
def tracker(kafka: InProcessBroker) -> LagTracker:
    return LagTracker(kafka.broker)


def commit(kafka: InProcessBroker, group: str, offset: int, topic: str = "t") -> None:
    named = OffsetCommitRequest.Topic
    partition = named.Partition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, topics=[named(name=topic, partitions=[partition])]
    )
    response = kafka.call(request, 8)
    assert response.topics[0].partitions[0].error_code == 0


def produce(kafka: InProcessBroker, count: int, topic: str = "t", version: int = 9) -> None:
    kafka.call(produce_request(batch(*[b"x"] * count), topic), version)


def rows(tracker: LagTracker) -> list[LagRow]:
    return [row for row in tracker.rows() if row is not None]


def test_a_group_lags_by_the_records_after_its_commit(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    produce(kafka, 10)
    commit(kafka, "g", 4)
    tracker.observe()
    [row] = rows(tracker)
    assert (row.kind, row.name, row.topic, row.partition) == (GROUP, "g", "t", 0)
    assert (row.behind.position, row.behind.end_offset, row.behind.lag) == (4, 10, 6)


def test_it_is_behind_by_the_age_of_the_first_record_it_has_not_committed(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    commit(kafka, "g", 0)
    assert rows(tracker)[0].behind == Behind(0, 0, 0)
    manual_clock.advance(1_000)
    produce(kafka, 10)
    tracker.observe()
    manual_clock.advance(30_000)
    assert 30_000 <= (rows(tracker)[0].behind.behind_ms or 0) <= 31_000
    commit(kafka, "g", 10)
    assert rows(tracker)[0].behind == Behind(10, 10, 0)


def test_before_the_first_observation_the_age_is_that_of_the_timestamp(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    stamp_ms = manual_clock.now_ms() - 90_000
    kafka.call(produce_request(batch(b"x", timestamp=stamp_ms)), 9)
    commit(kafka, "g", 0)
    assert rows(tracker)[0].behind.behind_ms == 90_000


def test_a_timestamp_is_read_from_the_log_once_as_long_as_the_position_stays(
    kafka: InProcessBroker,
    tracker: LagTracker,
    manual_clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    stamp_at = lag._stamp_at

    def counted(partition: Partition, position: int) -> int | None:
        read.append(position)
        return stamp_at(partition, position)

    monkeypatch.setattr(lag, "_stamp_at", counted)
    monkeypatch.setattr(lag, "_MOST_STAMPS", 4)
    stamp_ms = manual_clock.now_ms() - 90_000
    for _ in range(8):
        kafka.call(produce_request(batch(b"x", timestamp=stamp_ms)), 9)
    for offset in range(6):
        commit(kafka, f"g{offset}", offset)
    for _ in range(3):
        list(tracker.sample())
    # Four are kept, and only the other two are read for each sample.
    assert len(read) == 6 + 2 + 2 and {row.behind.behind_ms for row in rows(tracker)} == {90_000}
    for offset in range(6):
        commit(kafka, f"g{offset}", 7)
    for _ in range(2):
        list(tracker.sample())
    del read[:]
    list(tracker.sample())
    assert read == [], "positions that nobody has any more leave room for others"


def test_a_reader_that_commits_nothing_has_a_position(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    produce(kafka, 10)
    kafka.call(fetch_request(0), FETCH, "spark")
    [row] = rows(tracker)
    assert (row.kind, row.name, row.behind) == (READER, "spark", Behind(10, 10, 0))
    produce(kafka, 5)
    manual_clock.advance(20_000)
    [row] = rows(tracker)
    assert (row.behind.lag, row.idle_ms) == (5, 20_000)


def test_idle_readers_are_forgotten_an_hour_after_their_last_fetch_but_groups_are_not(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    produce(kafka, 3)
    commit(kafka, "g", 1)
    kafka.call(fetch_request(0), FETCH, "spark")
    for _ in range(361):
        list(tracker.sample())
        manual_clock.advance(10_000)
    assert [row.name for row in rows(tracker)] == ["g"]
    assert len(list(tracker.histories[GROUP, "g"].samples())) == 361
    assert {sample.lag for sample in tracker.histories[GROUP, "g"].samples()} == {2}


def test_a_reader_whose_connection_has_closed_ends_after_a_minute(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    produce(kafka, 3)
    kafka.call(fetch_request(0), FETCH, "gone")
    readers = kafka.broker.readers
    [reader] = readers.present(manual_clock.now_ms())
    [connection_id] = readers._readers
    readers.disconnected(connection_id, manual_clock.now_ms())
    manual_clock.advance(59_000)
    assert [row.name for row in rows(tracker)] == ["gone"]
    manual_clock.advance(1_000)
    assert reader.has_gone(manual_clock.now_ms()) and rows(tracker) == []
    readers.sweep(manual_clock.now_ms())
    assert len(readers) == 0


def test_members_of_groups_are_not_listed_again_as_readers(
    kafka: InProcessBroker, tracker: LagTracker
) -> None:
    produce(kafka, 3)
    kafka.call(fetch_request(0), FETCH, "member")
    kafka.call(fetch_request(0), FETCH, "other")
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert kafka.call(heartbeat, 1, "member").error_code == 0
    assert [row.name for row in rows(tracker) if row.kind == READER] == ["other"]
    heartbeat.member_epoch = -1
    assert kafka.call(heartbeat, 1, "member").error_code == 0
    assert [row.name for row in rows(tracker) if row.kind == READER] == ["other"], "still"


def test_the_consumers_of_a_spark_query_are_one_reader_over_its_restarts(
    kafka: InProcessBroker, tracker: LagTracker
) -> None:
    produce(kafka, 3)
    for run, task in (("5f0e", 1), ("5f0e", 2), ("77aa", 1)):
        name = f"consumer-orders-etl-{run}ae57-2f4f-4d8e-9d0c-0a1b2c3d4e5f--131-executor-{task}"
        kafka.call(fetch_request(0), FETCH, name)
    [row] = rows(tracker)
    assert (row.kind, row.name) == (READER, "orders-etl--131")


def test_the_commands_and_the_console_are_no_readers(
    kafka: InProcessBroker, tracker: LagTracker
) -> None:
    produce(kafka, 3)
    connection = kafka.net.open(kafka.node.listeners[0].address)
    connection.protocol.call.client.software = ("wirekafka", "1.0")
    assert Exchange(connection, fetch_request(0), FETCH, "wirekafka-cli").response.responses
    assert rows(tracker) == [] and len(kafka.broker.readers) == 0


def test_a_deleted_topic_has_no_lag(kafka: InProcessBroker, tracker: LagTracker) -> None:
    produce(kafka, 3)
    commit(kafka, "g", 1)
    kafka.call(fetch_request(0), FETCH, "spark")
    assert len(rows(tracker)) == 2
    response = kafka.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert response.responses[0].error_code == 0
    assert rows(tracker) == []


def test_the_sums_of_a_group_are_those_of_its_partitions(
    kafka: InProcessBroker, tracker: LagTracker
) -> None:
    kafka.create("u")
    produce(kafka, 3)
    produce(kafka, 5, "u")
    commit(kafka, "g", 1)
    commit(kafka, "g", 1, "u")
    collector = LagCollector(tracker)
    list(collector.collect())
    text = "".join(text for table in collector.tables for text in table.texts())
    assert 'kafka_consumergroup_lag{consumergroup="g",topic="u",partition="0"} 4\n' in text
    assert 'kafka_consumergroup_lag_sum{consumergroup="g",topic="t"} 2\n' in text
    assert 'kafka_consumergroup_current_offset_sum{consumergroup="g",topic="t"} 1\n' in text
    assert 'kafka_consumergroup_members{consumergroup="g"} 0\n' in text


def test_a_share_group_lags_by_what_is_not_delivered(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    kafka.create("__share_group_state")
    produce(kafka, 2)
    manual_clock.advance(5_000)
    produce(kafka, 3)
    of = AlterShareGroupOffsetsRequest.Topic
    start = of.Partition(partition_index=0, start_offset=2)
    request = AlterShareGroupOffsetsRequest(
        group_id="s", topics=[of(topic_name="t", partitions=[start])]
    )
    assert kafka.call(request, 0).error_code == 0

    def shares() -> list[LagRow]:
        now(tracker.find_elsewhere())
        return [row for row in rows(tracker) if row.kind == SHARE]

    [row] = shares()
    assert (row.name, row.topic, row.partition, row.behind.lag) == ("s", "t", 0, 3)
    manual_clock.advance(4_000)
    produce(kafka, 1)
    [row] = shares()
    assert row.behind.lag == 4 and (row.behind.behind_ms or 0) >= 4_000
    collector = LagCollector(tracker)
    for _ in collector.collect():
        pass
    text = "".join(text for table in collector.tables for text in table.texts())
    assert 'wirekafka_sharegroup_lag{sharegroup="s",topic="t",partition="0"} 4\n' in text
    assert 'wirekafka_sharegroup_seconds_behind{sharegroup="s",topic="t",partition="0"} ' in text
    kafka.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert shares() == []


def test_lag_is_never_negative_under_churn(
    kafka: InProcessBroker, tracker: LagTracker, manual_clock: ManualClock
) -> None:
    chance = random.Random(20)
    topics = [f"churn-{number}" for number in range(5)]
    for topic in topics:
        kafka.create(topic)
    groups = [f"group-{number}" for number in range(40)]
    seen = 0
    while seen < SAMPLES:
        topic = chance.choice(topics)
        partition = kafka.partition(topic)
        match chance.randrange(10):
            case 0:
                request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
                kafka.call(request, 5)
                kafka.create(topic)
            case 1:
                named = DeleteRecordsRequest.Topic
                place = named.Partition(partition_index=0, offset=-1)
                request = DeleteRecordsRequest(topics=[named(name=topic, partitions=[place])])
                kafka.call(request, 1)
            case 2:
                kafka.call(fetch_request(partition.log.start_offset, topic), FETCH, "reader")
            case 3:
                tracker.observe()
            case 4:
                list(tracker.sample())
            case 5 | 6:
                produce(kafka, chance.randrange(1, 50), topic)
            case _:
                offset = chance.randrange(partition.end_offset + 100)
                commit(kafka, chance.choice(groups), offset, topic)
        manual_clock.advance(chance.randrange(3_000))
        for row in rows(tracker):
            seen += 1
            assert row.behind.lag >= 0 and (row.behind.behind_ms or 0) >= 0
    for history in tracker.histories.values():
        assert all(sample.lag >= 0 and sample.behind_ms >= -1 for sample in history.samples())
