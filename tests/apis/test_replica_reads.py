"""Consumers read from followers and are sent to replicas in their own rack (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apis.brokers import beat, create_on, follower_fetch, register
from tests.apis.test_fetch import fetch_request, only
from tests.apis.test_produce import produce_request
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.config.options.replication import RACK_AWARE_SELECTOR
from wirekafka.errors import Error
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.replication.partition.follower import LeaderData

LEADER, SAME_RACK, ALSO_THERE = 1, 2, 3


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    """Broker 1 in rack a, which leads t-0; brokers 2 and 3 in rack b, in sync."""
    kafka = InProcessBroker(
        tmp_path, manual_clock, broker_rack="a", replica_selector_class=RACK_AWARE_SELECTOR
    )
    for id in (SAME_RACK, ALSO_THERE):
        register(kafka, id, rack="b")
    create_on(kafka, "t", [LEADER, SAME_RACK, ALSO_THERE])
    yield kafka
    for id in (SAME_RACK, ALSO_THERE):
        beat(kafka, id, wants_fence=True)
    kafka.stop()


def produce(kafka: InProcessBroker, *values: bytes) -> None:
    partition = kafka.partition("t")
    partition.leading().append_from_client(batch(*values), 1, kafka.clock.now_ms())


def replicate(kafka: InProcessBroker, id: int, offset: int) -> None:
    assert only(kafka.call(follower_fetch(kafka, "t", id, offset), 17)).error_code == 0


def consume(kafka: InProcessBroker, offset: int, rack: str = "b", version: int = 17) -> Any:
    key = kafka.broker.image.topics["t"].id if version >= 13 else "t"
    request = fetch_request((key, 0, offset))
    request.rack_id = rack
    return only(kafka.call(request, version))


def test_a_consumer_is_sent_to_the_in_sync_replica_of_its_rack_with_the_most_records(
    kafka: InProcessBroker,
) -> None:
    produce(kafka, b"a", b"b")
    replicate(kafka, SAME_RACK, 1)
    replicate(kafka, ALSO_THERE, 2)
    response = consume(kafka, 0)
    assert (response.error_code, response.preferred_read_replica) == (0, ALSO_THERE)
    assert (response.records, response.high_watermark) == (b"", 1)
    assert response.aborted_transactions is None


@pytest.mark.parametrize(("rack", "version"), [("a", 17), ("c", 17), ("", 17), ("b", 10)])
def test_a_consumer_without_a_replica_in_its_rack_reads_from_the_leader(
    kafka: InProcessBroker, rack: str, version: int
) -> None:
    produce(kafka, b"a")
    for id in (SAME_RACK, ALSO_THERE):
        replicate(kafka, id, 1)
    response = consume(kafka, 0, rack, version)
    assert (response.preferred_read_replica, len(response.records)) == (-1, len(batch(b"a")))


def test_replicas_that_are_behind_out_of_sync_or_fenced_are_not_preferred(
    kafka: InProcessBroker,
) -> None:
    produce(kafka, b"a")
    replicate(kafka, SAME_RACK, 1)
    assert consume(kafka, 1).preferred_read_replica == SAME_RACK, "broker 3 lacks offset 1"
    beat(kafka, SAME_RACK, wants_fence=True)
    assert consume(kafka, 0).preferred_read_replica == -1, "broker 3 has not fetched yet"
    replicate(kafka, ALSO_THERE, 1)
    assert consume(kafka, 0).preferred_read_replica == ALSO_THERE


def test_without_a_selector_every_consumer_reads_from_the_leader(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(tmp_path, manual_clock)
    register(kafka, SAME_RACK, rack="b")
    create_on(kafka, "t", [LEADER, SAME_RACK])
    produce(kafka, b"a")
    replicate(kafka, SAME_RACK, 1)
    assert consume(kafka, 0).preferred_read_replica == -1
    beat(kafka, SAME_RACK, wants_fence=True)
    kafka.stop()


def test_a_preferred_replica_is_returned_at_once_and_within_sessions(
    kafka: InProcessBroker,
) -> None:
    replicate(kafka, SAME_RACK, 0)
    key = kafka.broker.image.topics["t"].id
    opening = fetch_request((key, 0, 0), session_epoch=0)
    session_id = kafka.call(opening, 17).session_id
    again = fetch_request((key, 0, 0), session_id=session_id, session_epoch=1, max_wait_ms=5_000)
    again.rack_id = "b"
    assert only(kafka.call(again, 17)).preferred_read_replica == SAME_RACK


def following(kafka: InProcessBroker) -> None:
    """Broker 2 becomes the leader of t-0, and this broker follows."""
    create_on(kafka, "f", [SAME_RACK, LEADER])
    partition = kafka.partition("f")
    assert partition.follower is not None
    for start, high_watermark in ((0, 0), (1, 1)):
        partition.follower.take(
            LeaderData(
                leader_epoch=partition.leader_epoch,
                fetch_offset=start,
                records=batch(b"v", base_offset=start),
                high_watermark=high_watermark,
                start_offset=0,
            ),
            kafka.clock.now_ms(),
        )


def consume_from_follower(kafka: InProcessBroker, offset: int, version: int = 17, **options: Any):
    key = kafka.broker.image.topics["f"].id if version >= 13 else "f"
    return fetch_request((key, 0, offset, options.pop("epoch", 0)), **options), version


def test_a_follower_serves_consumers_up_to_its_high_watermark(kafka: InProcessBroker) -> None:
    following(kafka)
    response = only(kafka.call(*consume_from_follower(kafka, 0)))
    assert (response.error_code, response.high_watermark) == (0, 1)
    assert len(response.records) == len(batch(b"v"))
    assert only(kafka.call(*consume_from_follower(kafka, 1))).records == b""
    beyond = only(kafka.call(*consume_from_follower(kafka, 3)))
    assert beyond.error_code == Error.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("version", "options", "error"),
    [
        (10, {}, Error.NOT_LEADER_OR_FOLLOWER),
        (17, {"epoch": 1}, Error.UNKNOWN_LEADER_EPOCH),
        (11, {"epoch": -1}, Error.NONE),
    ],
)
def test_old_consumers_and_other_epochs_are_refused_by_a_follower(
    kafka: InProcessBroker, version: int, options: dict[str, int], error: Error
) -> None:
    following(kafka)
    response = only(kafka.call(*consume_from_follower(kafka, 0, version, **options)))
    assert response.error_code == error


def test_a_consumer_waits_at_a_follower_for_the_high_watermark(kafka: InProcessBroker) -> None:
    following(kafka)
    partition = kafka.partition("f")

    async def scenario() -> None:
        exchange = kafka.begin(*consume_from_follower(kafka, 1, max_wait_ms=5_000))
        partition.wake()
        assert not (await exchange.settled()).is_done, "offset 1 is not committed yet"
        assert partition.follower is not None
        partition.follower.take(
            LeaderData(
                leader_epoch=0, fetch_offset=2, records=b"", high_watermark=2, start_offset=0
            ),
            kafka.clock.now_ms(),
        )
        assert (await exchange.settled()).is_done
        assert len(only(exchange.response).records) == len(batch(b"v"))

    asyncio.run(scenario())


def test_a_leadership_error_names_the_current_leader_and_its_address(
    kafka: InProcessBroker,
) -> None:
    create_on(kafka, "elsewhere", [ALSO_THERE, SAME_RACK])
    following(kafka)
    image = kafka.broker.image
    for topic, leader in (("f", SAME_RACK), ("elsewhere", ALSO_THERE)):
        topic_id = image.topics[topic].id
        produced = kafka.call(produce_request(batch(b"v"), topic_id=topic_id), 13)
        [refused] = produced.responses[0].partition_responses
        assert refused.error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (
            leader,
            0,
        )
        [node] = produced.node_endpoints
        assert (node.node_id, node.host, node.rack) == (leader, f"host{leader}", "b")
    fetch = fetch_request((image.topics["elsewhere"].id, 0, 0), max_wait_ms=5_000)
    fetched = kafka.call(fetch, 16)
    assert only(fetched).error_code == Error.NOT_LEADER_OR_FOLLOWER
    assert only(fetched).current_leader.leader_id == ALSO_THERE
    assert [node.node_id for node in fetched.node_endpoints] == [ALSO_THERE]
    older = kafka.call(fetch, 15)
    assert (only(older).current_leader.leader_id, older.node_endpoints) == (-1, [])


def test_a_follower_describes_its_producers(kafka: InProcessBroker) -> None:
    following(kafka)
    topic = DescribeProducersRequest.TopicRequest(name="f", partition_indexes=[0])
    response = kafka.call(DescribeProducersRequest(topics=[topic]), 0)
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.active_producers) == (Error.NONE, [])
