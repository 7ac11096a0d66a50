"""Fetch: limits, waiting, sessions, epochs, isolation; responses as Kafka 4.3 gave them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.in_process import Exchange, InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import batches
from wirekafka.errors import Error
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.replication.partition.partition import Leadership

Topic = FetchRequest.Topic
Partition = Topic.Partition
Forgotten = FetchRequest.ForgottenTopic
ONE_BYTES = len(batch(b"x" * 10))


def fetch_request(
    *wanted: tuple[Any, ...],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    **options: Any,
) -> FetchRequest:
    """`wanted`: (topic name or id, partition, offset[, leader epoch[, last fetched epoch]])."""
    topics: dict[Any, list[Partition]] = {}
    for topic, index, offset, *epochs in wanted:
        named = dict(zip(("current_leader_epoch", "last_fetched_epoch"), epochs, strict=False))
        topics.setdefault(topic, []).append(
            Partition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                **named,
            )
        )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[
            Topic(topic=topic, partitions=partitions)
            if isinstance(topic, str)
            else Topic(topic_id=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
        **options,
    )


def fetch(
    kafka: InProcessBroker, *wanted: tuple[Any, ...], version: int = 11, **options: Any
) -> Any:
    return kafka.call(fetch_request(*wanted, **options), version)


def only(response: Any) -> Any:
    [topic] = response.responses
    [partition] = topic.partitions
    return partition


def sizes(response: Any) -> list[int]:
    return [
        len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    ]


def fill(kafka: InProcessBroker, topic: str = "t", count: int = 3, index: int = 0) -> None:
    for number in range(count):
        kafka.partition(topic, index).leader.append_from_client(
            batch(b"%010d" % number), 1, kafka.clock.now_ms()
        )


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_reads_by_name(kafka: InProcessBroker, version: int) -> None:
    kafka.create("t")
    fill(kafka)
    partition = only(fetch(kafka, ("t", 0, 0), version=version, session_epoch=-1))
    assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (
        0,
        3,
        3,
    )
    assert partition.log_start_offset == (0 if version >= 5 else -1)
    assert partition.aborted_transactions is None
    assert partition.preferred_read_replica == -1
    assert [header.base_offset for _, header in batches(partition.records)] == [0, 1, 2]


@pytest.mark.parametrize("version", range(13, 19))
def test_later_versions_read_by_topic_id(kafka: InProcessBroker, version: int) -> None:
    topic_id = kafka.create("t")
    fill(kafka)
    response = fetch(kafka, (topic_id, 0, 1), version=version)
    assert response.responses[0].topic_id == topic_id
    assert [header.base_offset for _, header in batches(only(response).records)] == [1, 2]


def test_unknown_topics_are_3_by_name_and_100_by_id(kafka: InProcessBroker) -> None:
    kafka.create("t")
    for unknown in (("nope", 0, 0), ("t", 7, 0)):
        partition = only(fetch(kafka, unknown))
        assert (partition.error_code, partition.high_watermark) == (3, -1)
        assert partition.aborted_transactions == []
    assert only(fetch(kafka, (b"x" * 16, 0, 0), version=13)).error_code == 100
    assert only(fetch(kafka, (bytes(16), 0, 0), version=13)).error_code == 100


def test_errors_are_reported_per_partition(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=2)
    fill(kafka, index=1)
    response = fetch(kafka, ("nope", 0, 0), ("t", 0, 99), ("t", 1, 0))
    assert response.error_code == 0
    assert [
        (topic.topic, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.responses
    ] == [("t", [(0, 1), (1, 0)]), ("nope", [(0, 3)])]


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_an_offset_outside_of_the_log_is_offset_out_of_range_1(
    kafka: InProcessBroker, offset: int
) -> None:
    kafka.create("t")
    fill(kafka)
    partition = only(fetch(kafka, ("t", 0, offset)))
    assert (partition.error_code, partition.high_watermark, partition.log_start_offset) == (
        1,
        -1,
        -1,
    )


def test_deleted_records_are_out_of_range(kafka: InProcessBroker) -> None:
    kafka.create("t")
    fill(kafka)
    kafka.partition("t").delete_records(2)
    assert only(fetch(kafka, ("t", 0, 1))).error_code == 1
    assert only(fetch(kafka, ("t", 0, 2))).log_start_offset == 2


def test_a_fetch_may_start_mid_batch_and_gets_the_complete_batch(kafka: InProcessBroker) -> None:
    kafka.create("t")
    records = batch(b"a", b"b", b"c")
    kafka.partition("t").leader.append_from_client(records, 1, kafka.clock.now_ms())
    found = only(fetch(kafka, ("t", 0, 2))).records
    assert len(found) == len(records)
    assert next(batches(found))[1].base_offset == 0


def test_at_least_one_complete_batch_is_returned_over_the_limits(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=2)
    fill(kafka)
    fill(kafka, index=1)
    wanted = ("t", 0, 0), ("t", 1, 0)
    assert sizes(fetch(kafka, *wanted, max_bytes=1)) == [ONE_BYTES, 0]
    assert sizes(fetch(kafka, *wanted, max_bytes=0)) == [ONE_BYTES, 0]
    assert sizes(fetch(kafka, *wanted, partition_max_bytes=1)) == [ONE_BYTES, 0]


def test_the_first_partition_that_has_any_is_read_over_the_limits(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=3)
    fill(kafka, index=1)
    fill(kafka, index=2)
    wanted = ("t", 0, 0), ("t", 1, 0), ("t", 2, 0)
    assert sizes(fetch(kafka, *wanted, max_bytes=1)) == [0, ONE_BYTES, 0]


def test_limits_of_request_and_partition_hold(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=2)
    fill(kafka, count=10)
    fill(kafka, count=10, index=1)
    wanted = ("t", 0, 0), ("t", 1, 0)
    assert sizes(fetch(kafka, *wanted, partition_max_bytes=2 * ONE_BYTES)) == [
        2 * ONE_BYTES,
        2 * ONE_BYTES,
    ]
    assert sizes(fetch(kafka, *wanted, max_bytes=12 * ONE_BYTES)) == [10 * ONE_BYTES, 2 * ONE_BYTES]


def test_fetch_max_bytes_of_the_broker_holds(tmp_path: Any, manual_clock: ManualClock) -> None:
    kafka = InProcessBroker(tmp_path / "small", manual_clock, fetch_max_bytes="1024")
    kafka.create("t")
    fill(kafka, count=40)
    assert sizes(fetch(kafka, ("t", 0, 0)))[0] <= 1024
    kafka.stop()


def test_a_partition_requested_twice_has_one_result(kafka: InProcessBroker) -> None:
    kafka.create("t")
    fill(kafka)
    assert only(fetch(kafka, ("t", 0, 0), ("t", 0, 2))).error_code == 0


# Waiting.


def test_a_long_poll_is_woken_by_the_append(kafka: InProcessBroker) -> None:
    kafka.create("t")

    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), max_wait_ms=5000), 11)
        await exchange.settled()
        assert not exchange.is_done
        fill(kafka, count=1)
        await exchange.settled()
        assert sizes(exchange.response) == [ONE_BYTES]

    run(scenario())


def test_a_long_poll_ends_with_max_wait(kafka: InProcessBroker) -> None:
    kafka.create("t")

    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), max_wait_ms=500), 11)
        kafka.clock.advance(499)
        assert not (await exchange.settled()).is_done
        kafka.clock.advance(1)
        assert sizes((await exchange.settled()).response) == [0]

    run(scenario())


def test_a_long_poll_waits_for_min_bytes(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=2)

    async def scenario() -> None:
        exchange = kafka.begin(
            fetch_request(("t", 0, 0), ("t", 1, 0), max_wait_ms=5000, min_bytes=3 * ONE_BYTES), 11
        )
        fill(kafka, count=2)
        assert not (await exchange.settled()).is_done
        fill(kafka, count=1, index=1)
        assert sizes((await exchange.settled()).response) == [2 * ONE_BYTES, ONE_BYTES]

    run(scenario())


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (5000, 0), (5000, -1)])
def test_a_fetch_with_max_wait_0_does_not_wait(
    kafka: InProcessBroker, max_wait_ms: int, min_bytes: int
) -> None:
    kafka.create("t")
    request = fetch_request(("t", 0, 0), max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    assert sizes(kafka.call(request, 11)) == [0]


def test_an_error_is_reported_at_once(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=2)
    response = fetch(kafka, ("t", 0, 9), ("t", 1, 0), max_wait_ms=5000)
    assert [each.error_code for each in response.responses[0].partitions] == [1, 0]


def test_an_unknown_partition_does_not_end_the_wait_for_a_known_one(kafka: InProcessBroker) -> None:
    kafka.create("t")

    async def scenario() -> None:
        request = fetch_request(("nope", 0, 0), ("t", 0, 0), max_wait_ms=500)
        exchange = kafka.begin(request, 11)
        assert not (await exchange.settled()).is_done
        kafka.clock.advance(500)
        assert (await exchange.settled()).is_done

    run(scenario())
    assert only(fetch(kafka, ("nope", 0, 0), max_wait_ms=5000)).error_code == 3


def test_a_long_poll_ends_when_the_topic_is_deleted(kafka: InProcessBroker) -> None:
    kafka.create("t")

    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), max_wait_ms=5000), 11)
        await kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")]))
        assert only((await exchange.settled()).response).error_code == 3

    run(scenario())


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [(10, -1, Error.NOT_LEADER_OR_FOLLOWER), (11, 0, Error.FENCED_LEADER_EPOCH)],
)
def test_a_long_poll_ends_when_leadership_moves(
    kafka: InProcessBroker, version: int, epoch: int, error: Error
) -> None:
    kafka.create("t")

    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0, epoch), max_wait_ms=5000), version)
        await exchange.settled()
        kafka.partition("t").follow(Leadership(leader_id=2, leader_epoch=1, replicas=(1, 2)))
        assert only((await exchange.settled()).response).error_code == error

    run(scenario())


def test_a_disconnected_client_leaves_no_watch(kafka: InProcessBroker) -> None:
    kafka.create("t")

    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), max_wait_ms=5000), 11)
        assert kafka.partition("t").watchers
        exchange.abandon()
        assert not kafka.partition("t").watchers
        assert len(kafka.broker.waiting) == 0

    run(scenario())


# Epochs.


def test_leader_epochs_are_checked(kafka: InProcessBroker) -> None:
    kafka.create("t")
    kafka.partition("t").lead(Leadership(leader_id=1, leader_epoch=3, isr=(1,), replicas=(1,)))
    fill(kafka)
    errors = {
        epoch: only(fetch(kafka, ("t", 0, 0, epoch))).error_code for epoch in (2, 3, 4, -1, -5)
    }
    assert errors == {2: 74, 3: 0, 4: 75, -1: 0, -5: 0}


def test_a_diverging_fetcher_gets_the_diverging_epoch(kafka: InProcessBroker) -> None:
    kafka.create("t")
    fill(kafka, count=2)
    kafka.partition("t").lead(Leadership(leader_id=1, leader_epoch=4, isr=(1,), replicas=(1,)))
    fill(kafka, count=2)
    behind = only(fetch(kafka, ("t", 0, 3, -1, 2), version=12))
    assert (behind.diverging_epoch.epoch, behind.diverging_epoch.end_offset) == (0, 2)
    assert (behind.error_code, behind.records, behind.high_watermark) == (0, b"", 4)
    beyond = only(fetch(kafka, ("t", 0, 9, -1, 4), version=12))
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (4, 4)
    agreeing = only(fetch(kafka, ("t", 0, 3, -1, 4), version=12))
    assert agreeing.diverging_epoch.epoch == -1
    assert len(agreeing.records) == ONE_BYTES
    assert only(fetch(kafka, ("t", 0, 3, -1, 9), version=12)).error_code == 1


def test_not_leader_comes_with_the_leader_from_version_16_on(kafka: InProcessBroker) -> None:
    topic_id = kafka.create("t")
    kafka.partition("t").lead(Leadership(leader_id=1, leader_epoch=5, isr=(1,), replicas=(1,)))
    response = fetch(kafka, (topic_id, 0, 0, 4), version=16)
    leader = only(response).current_leader
    assert (only(response).error_code, leader.leader_id, leader.leader_epoch) == (74, 1, 5)
    assert [(node.node_id, node.host) for node in response.node_endpoints] == [(1, "broker.test")]


@pytest.mark.parametrize("replica_id", [1, 5])
def test_a_fetch_as_a_replica_that_is_not_assigned_is_refused(
    kafka: InProcessBroker, replica_id: int
) -> None:
    kafka.create("t")
    assert only(fetch(kafka, ("t", 0, 0), replica_id=replica_id)).error_code == 6
    state = FetchRequest.ReplicaState(replica_id=replica_id)
    topic_id = kafka.broker.image.topics["t"].id
    assert only(fetch(kafka, (topic_id, 0, 0), version=15, replica_state=state)).error_code == 6


# Isolation.


def transact(kafka: InProcessBroker, producer_id: int, *values: bytes) -> None:
    records = batch(
        *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    confirmed = object()
    kafka.partition("t").leader.append_from_client(records, 1, kafka.clock.now_ms(), confirmed)


def test_read_committed_stops_at_the_last_stable_offset(kafka: InProcessBroker) -> None:
    kafka.create("t")
    fill(kafka, count=2)
    transact(kafka, 7, b"open")
    fill(kafka, count=1)
    committed = only(fetch(kafka, ("t", 0, 0), isolation_level=1))
    assert (committed.high_watermark, committed.last_stable_offset) == (4, 2)
    assert [header.base_offset for _, header in batches(committed.records)] == [0, 1]
    assert committed.aborted_transactions == []
    uncommitted = only(fetch(kafka, ("t", 0, 0)))
    assert [header.base_offset for _, header in batches(uncommitted.records)] == [0, 1, 2, 3]
    assert (uncommitted.last_stable_offset, uncommitted.aborted_transactions) == (2, None)


def test_the_last_stable_offset_is_not_far_below_a_log_start(kafka: InProcessBroker) -> None:
    kafka.create("t")
    transact(kafka, 7, b"a", b"b")
    transact(kafka, 8, b"c", b"d", b"e")
    kafka.partition("t").delete_records(3)
    found = only(fetch(kafka, ("t", 0, 3), isolation_level=1))
    assert (found.log_start_offset, found.last_stable_offset) == (3, 2), "its batch begins at 2"
    assert not found.records
    kafka.partition("t").delete_records(5)
    assert only(fetch(kafka, ("t", 0, 5), isolation_level=1)).last_stable_offset == 5


def test_an_unknown_isolation_level_is_an_unknown_server_error(kafka: InProcessBroker) -> None:
    kafka.create("t")
    response = fetch(kafka, ("t", 0, 0), isolation_level=5)
    assert (response.error_code, only(response).error_code) == (-1, -1)


@pytest.mark.parametrize("version", [4, 9, 10])
def test_topics_compressed_with_zstd_are_read_in_all_versions(
    kafka: InProcessBroker, version: int
) -> None:
    """Also below version 10, whose clients need not know zstd (KIP-110), as in Kafka."""
    kafka.create("t", compression_type="zstd")
    fill(kafka)
    response = fetch(kafka, ("t", 0, 0), version=version)
    assert only(response).error_code == 0
    assert sizes(response)[0] > 0


# Sessions.


def session(
    kafka: InProcessBroker, session_id: int, epoch: int, *wanted: tuple[Any, ...], **options: Any
) -> Any:
    return fetch(kafka, *wanted, session_id=session_id, session_epoch=epoch, **options)


def test_a_session_sends_only_what_changed(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=3)
    opened = session(kafka, 0, 0, ("t", 0, 0), ("t", 1, 0), ("t", 2, 0))
    session_id = opened.session_id
    assert session_id > 0
    assert sizes(opened) == [0, 0, 0]
    assert session(kafka, session_id, 1).responses == []
    fill(kafka, count=1, index=1)
    changed = session(kafka, session_id, 2)
    assert changed.session_id == session_id
    assert (only(changed).partition_index, sizes(changed)) == (1, [ONE_BYTES])
    advanced = session(kafka, session_id, 3, ("t", 1, 1))
    assert advanced.responses == []


def test_session_errors_are_reported_at_the_top_level(kafka: InProcessBroker) -> None:
    topic_id = kafka.create("t")
    session_id = session(kafka, 0, 0, ("t", 0, 0)).session_id
    for asked, error in (((99, 1), 70), ((session_id, 9), 71)):
        response = session(kafka, *asked)
        assert (response.error_code, response.session_id, response.responses) == (error, 0, [])
    assert session(kafka, session_id, 1, (topic_id, 0, 0), version=13).error_code == 106


def test_forgotten_topics_leave_the_session(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=2)
    session_id = session(kafka, 0, 0, ("t", 0, 0), ("t", 1, 0)).session_id
    fill(kafka, index=0)
    fill(kafka, index=1)
    response = session(
        kafka, session_id, 1, forgotten_topics_data=[Forgotten(topic="t", partitions=[0])]
    )
    assert only(response).partition_index == 1


def test_a_session_knows_the_topic_of_an_id_that_was_deleted(kafka: InProcessBroker) -> None:
    topic_id = kafka.create("t")
    session_id = session(kafka, 0, 0, (topic_id, 0, 0), version=13).session_id

    async def delete() -> None:
        await kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")]))

    run(delete())
    for epoch in (1, 2):
        assert only(session(kafka, session_id, epoch, version=13)).error_code == 3
    assert only(fetch(kafka, (topic_id, 0, 0), version=13)).error_code == 100


def test_a_waiting_fetch_of_a_session_is_woken_too(kafka: InProcessBroker) -> None:
    kafka.create("t")
    session_id = session(kafka, 0, 0, ("t", 0, 0)).session_id

    async def scenario() -> None:
        exchange: Exchange = kafka.begin(
            fetch_request(max_wait_ms=5000, session_id=session_id, session_epoch=1), 11
        )
        assert not (await exchange.settled()).is_done
        fill(kafka, count=1)
        assert sizes((await exchange.settled()).response) == [ONE_BYTES]

    run(scenario())
