"""Produce: accepted and rejected batches, and their errors as Kafka 4.3 gave them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.in_process import Exchange, InProcessBroker, batch, now
from wirekafka.codec.batch import CRC_AT, batches, checksum
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import decode_records
from wirekafka.errors import Error
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.replication.partition.partition import Leadership

Topic = ProduceRequest.TopicProduceData
Data = Topic.PartitionProduceData


def produce_request(
    records: Any,
    topic: str = "t",
    *,
    index: int = 0,
    acks: int = 1,
    topic_id: bytes = bytes(16),
    transactional_id: str | None = None,
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        transactional_id=transactional_id,
        topic_data=[
            Topic(
                name=topic, topic_id=topic_id, partition_data=[Data(index=index, records=records)]
            )
        ],
    )


def produce(
    kafka: InProcessBroker, records: Any, topic: str = "t", *, version: int = 9, **options: Any
) -> Any:
    """Produce one batch, and return the response of its partition."""
    response = kafka.call(produce_request(records, topic, **options), version)
    return response.responses[0].partition_responses[0]


def stored(kafka: InProcessBroker, topic: str = "t") -> list[tuple[int, bytes | None]]:
    log = kafka.partition(topic).log
    if log.start_offset == log.end_offset:
        return []
    found = log.read(log.start_offset, 1 << 20, end_offset=log.end_offset)
    data = b"".join(map(bytes, found.buffers()))
    return [
        (record.offset, record.value)
        for at, header in batches(data)
        for record in decode_records(data[at : at + header.size_bytes])
    ]


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_appends_and_returns_the_offset(kafka: InProcessBroker, version: int) -> None:
    kafka.create("t")
    assert produce(kafka, batch(b"a", b"b"), version=version).base_offset == 0
    answer = produce(kafka, batch(b"c"), version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 2, -1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert stored(kafka) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_version_13_uses_topic_ids(kafka: InProcessBroker) -> None:
    topic_id = kafka.create("t")
    assert produce(kafka, batch(), version=13, topic_id=topic_id).error_code == 0
    assert produce(kafka, batch(), version=13, topic_id=b"x" * 16).error_code == 100
    assert produce(kafka, batch(), version=13, topic_id=bytes(16)).error_code == 100
    assert produce(kafka, batch(), version=13, topic_id=topic_id, index=7).error_code == 3


def test_a_recreated_topic_has_a_new_id(kafka: InProcessBroker) -> None:
    old_id = kafka.create("t")
    now(kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
    new_id = kafka.create("t")
    assert produce(kafka, batch(), version=13, topic_id=old_id).error_code == 100
    assert produce(kafka, batch(), version=13, topic_id=new_id).error_code == 0


def test_each_partition_has_its_own_result(kafka: InProcessBroker) -> None:
    kafka.create("a", partitions=2)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            Topic(
                name="a", partition_data=[Data(index=index, records=batch()) for index in range(3)]
            ),
            Topic(name="nope", partition_data=[Data(index=0, records=batch())]),
        ],
    )
    response = kafka.call(request, 9)
    assert [
        (topic.name, [(each.index, each.error_code) for each in topic.partition_responses])
        for topic in response.responses
    ] == [("a", [(0, 0), (1, 0), (2, 3)]), ("nope", [(0, 3)])]


def test_of_two_batches_for_a_partition_the_last_is_appended(kafka: InProcessBroker) -> None:
    kafka.create("t", partitions=2)
    parts = [Data(index=index, records=batch(value)) for index, value in ((0, b"a"), (1, b"b"))]
    again = [Data(index=0, records=batch(b"c"))]
    topics = [Topic(name=name, partition_data=data) for name, data in (("t", parts), ("t", again))]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[*topics, Topic(name="empty")])
    [topic] = kafka.call(request, 9).responses
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(0, 0), (1, 0)]
    assert stored(kafka) == [(0, b"c")]


def test_acks_0_gets_no_response(kafka: InProcessBroker) -> None:
    kafka.create("t")
    exchange = kafka.begin(produce_request(batch(b"a"), acks=0), 9)
    assert exchange.response is None
    assert not exchange.closes_connection
    assert stored(kafka) == [(0, b"a")]


def test_acks_0_on_error_closes_the_socket(kafka: InProcessBroker) -> None:
    exchange = kafka.begin(produce_request(batch(), topic="nope", acks=0), 9)
    assert exchange.response is None
    assert exchange.closes_connection


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_invalid_required_acks_21(kafka: InProcessBroker, acks: int) -> None:
    kafka.create("t")
    answer = produce(kafka, batch(), acks=acks)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (21, -1, -1)
    assert stored(kafka) == []


@pytest.mark.parametrize(
    ("topic", "index"),
    [("nope", 0), ("t", 1), ("t", -1), ("a b", 0), ("", 0), ("__cluster_metadata", 0)],
)
def test_an_unknown_partition_is_unknown_topic_or_partition_3(
    kafka: InProcessBroker, topic: str, index: int
) -> None:
    kafka.create("t")
    assert produce(kafka, batch(), topic, index=index).error_code == 3


def test_only_the_admin_client_may_produce_to_an_internal_topic(kafka: InProcessBroker) -> None:
    kafka.create("__consumer_offsets", cleanup_policy="compact")
    assert produce(kafka, batch(), "__consumer_offsets").error_code == 17
    response = kafka.call(produce_request(batch(), "__consumer_offsets"), 9, "__admin_client")
    assert response.responses[0].partition_responses[0].error_code == 0


def damaged(records: bytes, at: int, layout: str, value: int, *, mend: bool = False) -> bytes:
    changed = bytearray(records)
    struct.pack_into(layout, changed, at, value)
    if mend:
        struct.pack_into(">I", changed, CRC_AT, checksum(changed))
    return bytes(changed)


ONE = batch(b"value")
BAD_RECORDS = {
    "null": (None, 87),
    "empty": (b"", 87),
    "three bytes": (b"abc", 87),
    "cut short": (ONE[:-1], 87),
    "exactly one batch per partition": (ONE + ONE, 87),
    "magic 0": (damaged(ONE, 16, ">b", 0), 87),
    "magic 1": (damaged(ONE, 16, ">b", 1), 87),
    "magic 3": (damaged(ONE, 16, ">b", 3), 2),
    "crc": (ONE[:-1] + b"!", 2),
    "length below the minimum": (damaged(ONE, 8, ">i", 5), 2),
    "count against delta": (damaged(ONE, 57, ">i", 7, mend=True), 87),
    "control batch": (batch(is_control=True), 87),
    "negative sequence": (batch(producer_id=5, producer_epoch=0, base_sequence=-1), 87),
}


@pytest.mark.parametrize(("records", "error"), BAD_RECORDS.values(), ids=BAD_RECORDS.keys())
def test_bad_records_are_refused(kafka: InProcessBroker, records: Any, error: int) -> None:
    kafka.create("t")
    answer = produce(kafka, records)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert stored(kafka) == []


def test_a_batch_above_max_message_bytes_is_too_large_10(kafka: InProcessBroker) -> None:
    kafka.create("t", max_message_bytes="200")
    assert produce(kafka, batch(b"x" * 300)).error_code == 10
    assert produce(kafka, batch(b"x" * 20)).error_code == 0


def test_a_keyless_record_on_a_compacted_topic_is_reported_by_record(
    kafka: InProcessBroker,
) -> None:
    kafka.create("t", cleanup_policy="compact")
    answer = produce(kafka, batch(b"a", b"b", key=None))
    assert (answer.error_code, answer.log_start_offset) == (87, 0)
    assert [each.batch_index for each in answer.record_errors] == [0, 1]
    assert all("without key" in each.batch_index_error_message for each in answer.record_errors)
    assert "record errors" in answer.error_message
    assert produce(kafka, batch(key=None), version=7).error_code == 87


def test_zstd_below_version_7_is_unsupported_compression_type_76(kafka: InProcessBroker) -> None:
    kafka.create("t")
    records = batch(compression=Codec.ZSTD)
    assert produce(kafka, records, version=6).error_code == 76
    assert produce(kafka, records, version=7).error_code == 0


def test_old_versions_check_the_codec_before_the_log(kafka: InProcessBroker) -> None:
    kafka.create("t")
    records = bytearray(batch())
    struct.pack_into(">h", records, 21, 7)
    struct.pack_into(">I", records, CRC_AT, checksum(records))
    results = [produce(kafka, bytes(records), version=version) for version in (6, 7)]
    assert [(each.error_code, each.log_start_offset) for each in results] == [(-1, -1), (-1, 0)]


def test_too_few_in_sync_is_not_enough_replicas_19_before_the_append(
    kafka: InProcessBroker,
) -> None:
    kafka.create("t", min_insync_replicas="2")
    # The topic has one replica, so that is enough (Kafka's effective minimum).
    assert produce(kafka, batch(), acks=-1).error_code == 0
    kafka.partition("t").lead(Leadership(leader_id=1, leader_epoch=1, isr=(1,), replicas=(1, 2)))
    assert produce(kafka, batch(), acks=-1).error_code == 19
    assert produce(kafka, batch(), acks=1).error_code == 0
    assert kafka.partition("t").log.end_offset == 2


def test_not_leader_comes_with_the_leader(kafka: InProcessBroker) -> None:
    kafka.create("t")
    kafka.partition("t").lead(Leadership(leader_id=1, leader_epoch=1, isr=(1,), replicas=(1,)))
    kafka.partition("t").follow(Leadership(leader_id=2, leader_epoch=2, isr=(2,), replicas=(1, 2)))
    response = kafka.call(produce_request(batch()), 10)
    [answer] = response.responses[0].partition_responses
    assert answer.error_code == 6
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 2)
    assert response.node_endpoints == [], "broker 2 is not registered"
    assert produce(kafka, batch(), version=9).error_code == 6


def test_a_duplicate_is_a_success_with_the_original_offset(kafka: InProcessBroker) -> None:
    kafka.create("t")
    for sequence in range(6):
        produce(kafka, batch(producer_id=9, producer_epoch=0, base_sequence=sequence))
    again = produce(kafka, batch(producer_id=9, producer_epoch=0, base_sequence=3))
    assert (again.error_code, again.base_offset) == (0, 3)
    assert kafka.partition("t").log.end_offset == 6


def test_a_sequence_gap_is_out_of_order_45(kafka: InProcessBroker) -> None:
    kafka.create("t")
    produce(kafka, batch(producer_id=9, producer_epoch=0, base_sequence=0))
    answer = produce(kafka, batch(producer_id=9, producer_epoch=0, base_sequence=5))
    assert (answer.error_code, answer.log_start_offset) == (45, 0)


def test_the_broker_rewrites_only_base_offset_and_leader_epoch(kafka: InProcessBroker) -> None:
    kafka.create("t")
    records = batch(b"a", b"b")
    produce(kafka, ONE)
    produce(kafka, records)
    log = kafka.partition("t").log
    data = bytes(log.read(1, 1000, end_offset=3).buffers()[0])
    assert struct.unpack_from(">qii", data) == (1, len(records) - 12, 0)
    assert data[16:] == records[16:]


def test_log_append_time_is_returned_and_stamped(kafka: InProcessBroker) -> None:
    kafka.create("t", message_timestamp_type="LogAppendTime")
    answer = produce(kafka, batch(b"a"))
    assert answer.log_append_time_ms == kafka.clock.now_ms()
    assert produce(kafka, batch(b"b")).error_code == 0


def test_a_transactional_batch_without_transactional_id_is_refused_53(
    kafka: InProcessBroker,
) -> None:
    kafka.create("t")
    records = batch(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert produce(kafka, records).error_code == 53
    assert stored(kafka) == []


# Replication: other brokers are simulated by calls to `follower_fetched`.


def reach(kafka: InProcessBroker, replica_id: int, end_offset: int) -> None:
    kafka.partition("t").leader.follower_fetched(
        replica_id, end_offset, 0, -1, kafka.clock.now_ms()
    )


def led(epoch: int, *isr: int) -> Leadership:
    return Leadership(leader_id=1, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3))


async def begun(kafka: InProcessBroker, **options: Any) -> Exchange:
    exchange = kafka.begin(produce_request(batch(b"a"), acks=-1, **options), 9)
    return await exchange.settled()


def answered(exchange: Exchange) -> tuple[int, int]:
    [answer] = exchange.response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


def test_acks_all_waits_for_the_in_sync_replicas(kafka: InProcessBroker) -> None:
    kafka.create("t")
    kafka.partition("t").lead(led(1, 1, 2, 3))

    async def scenario() -> None:
        exchange = await begun(kafka)
        assert not exchange.is_done
        reach(kafka, 2, 1)
        assert not (await exchange.settled()).is_done
        reach(kafka, 3, 1)
        assert answered(await exchange.settled()) == (0, 0)

    asyncio.run(scenario())


def test_acks_1_does_not_wait(kafka: InProcessBroker) -> None:
    kafka.create("t")
    kafka.partition("t").lead(led(1, 1, 2))
    assert produce(kafka, batch(), acks=1).error_code == 0


def test_too_few_in_sync_is_20_after_the_append(kafka: InProcessBroker) -> None:
    kafka.create("t", min_insync_replicas="2")
    kafka.partition("t").lead(led(1, 1, 2))

    async def scenario() -> None:
        exchange = await begun(kafka)
        reach(kafka, 2, 1)
        kafka.partition("t").lead(led(1, 1))
        assert answered(await exchange.settled()) == (20, 0)

    asyncio.run(scenario())


def test_nothing_is_committed_by_fewer_than_min_insync_replicas(kafka: InProcessBroker) -> None:
    """Kafka 3.7 and later: the high watermark stays (KIP-966), so the request times out."""
    kafka.create("t", min_insync_replicas="2")
    kafka.partition("t").lead(led(1, 1, 2))

    async def scenario() -> None:
        exchange = await begun(kafka)
        kafka.partition("t").lead(led(1, 1))
        assert not (await exchange.settled()).is_done
        assert kafka.partition("t").high_watermark == 0
        kafka.clock.advance(1000)
        assert answered(await exchange.settled()) == (7, 0)

    asyncio.run(scenario())


def test_replicas_that_are_too_slow_are_request_timed_out_7(kafka: InProcessBroker) -> None:
    kafka.create("t")
    kafka.partition("t").lead(led(1, 1, 2))

    async def scenario() -> None:
        exchange = await begun(kafka)
        kafka.clock.advance(1000)
        assert answered(await exchange.settled()) == (7, 0)

    asyncio.run(scenario())


def test_leadership_lost_while_waiting_is_not_leader_6(kafka: InProcessBroker) -> None:
    kafka.create("t")
    kafka.partition("t").lead(led(1, 1, 2))

    async def scenario() -> None:
        exchange = await begun(kafka)
        kafka.partition("t").follow(Leadership(leader_id=2, leader_epoch=2, replicas=(1, 2)))
        assert answered(await exchange.settled()) == (6, 0)

    asyncio.run(scenario())


def test_records_that_were_truncated_while_another_partition_was_waited_for_are_not_acknowledged(
    kafka: InProcessBroker,
) -> None:
    """A leader that lost its partition and leads again may have other records at the offsets."""
    kafka.create("t", 2)
    first, second = kafka.partition("t"), kafka.partition("t", 1)
    for each in (first, second):
        each.lead(led(1, 1, 2))
    request = produce_request(batch(b"lost"), acks=-1)
    request.topic_data[0].partition_data.append(Data(index=1, records=batch(b"kept")))

    async def scenario() -> None:
        exchange = await kafka.begin(request, 9).settled()
        first.follow(Leadership(leader_id=2, leader_epoch=2, replicas=(1, 2)))
        first.log.truncate_to(0, kafka.clock.now_ms())
        first.lead(led(3, 1))
        first.leader.append_from_client(batch(b"other"), 1, kafka.clock.now_ms())
        assert first.high_watermark == 1
        second.leader.follower_fetched(2, 1, 0, -1, kafka.clock.now_ms())
        await exchange.settled()
        found = exchange.response.responses[0].partition_responses
        assert [each.error_code for each in found] == [6, 0]

    asyncio.run(scenario())


def _lose_leadership(kafka: InProcessBroker) -> None:
    kafka.partition("t").follow(Leadership(leader_id=2, leader_epoch=2, replicas=(1, 2)))


def _let_time_pass(kafka: InProcessBroker) -> None:
    kafka.clock.advance(1000)


def _shrink_isr(kafka: InProcessBroker) -> None:
    reach(kafka, 2, 1)
    kafka.partition("t").lead(led(1, 1))


def _fail_disk(kafka: InProcessBroker) -> None:
    kafka.broker.directories[0].on_failure = lambda error: None
    kafka.broker.directories[0].fail(OSError("the medium fails"))
    kafka.partition("t").wake()


def _delete_topic(kafka: InProcessBroker) -> None:
    now(kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
    kafka.clock.advance(1)


def _stop(kafka: InProcessBroker) -> None:
    kafka.broker.release_waiting()


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (_lose_leadership, Error.NOT_LEADER_OR_FOLLOWER),
        (_let_time_pass, Error.REQUEST_TIMED_OUT),
        (_shrink_isr, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (_fail_disk, Error.KAFKA_STORAGE_ERROR),
        (_delete_topic, Error.NOT_LEADER_OR_FOLLOWER),
        (_stop, Error.REQUEST_TIMED_OUT),
    ],
)
def test_an_appended_batch_is_answered_with_an_error_after_which_clients_send_it_again_unchanged(
    kafka: InProcessBroker, event: Callable[[InProcessBroker], None], error: Error
) -> None:
    """KAFKA-14034: after other errors clients give later batches new sequence numbers.

    The batch may be committed nevertheless, and would be stored twice.
    """
    kafka.create("t", min_insync_replicas="2")
    kafka.partition("t").lead(led(1, 1, 2))

    async def scenario() -> None:
        exchange = await begun(kafka)
        event(kafka)
        assert answered(await exchange.settled()) == (error, 0)

    asyncio.run(scenario())


def test_a_topic_id_that_differs_from_the_partitions_is_inconsistent_103(
    kafka: InProcessBroker,
) -> None:
    topic_id = kafka.create("t")
    kafka.partition("t").topic_id = b"another topic id"
    assert produce(kafka, batch(), version=13, topic_id=topic_id).error_code == 103
