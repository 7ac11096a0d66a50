"""Fetches below the local log wait for remote storage; local ones do not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.apis.test_fetch import fetch_request, only
from tests.in_process import InProcessBroker, batch
from wirekafka.codec.batch import batches, with_prefix
from wirekafka.errors import Error, KafkaError
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.lookup import TimestampOffset
from wirekafka.log.retention import RemotePart
from wirekafka.log.slice import MemorySlice
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.replication.partition.reading import ReadRange
from wirekafka.replication.partition.remote_log import RemoteResult
from wirekafka.replication.partition.replica import Leadership

T0 = 1_700_000_000_000
OLD = b"".join(b"".join(with_prefix(batch(b"old%d" % offset), offset, 0)) for offset in range(3))


class FakeRemote:
    """Remote storage with offsets 0 to 2, where each read waits until the test releases it."""

    def __init__(self) -> None:
        self.largest = -1
        self.reads: list[tuple[ReadRange, RemoteResult, asyncio.Future[RemoteResult]]] = []
        self.searches: list[asyncio.Future[TimestampOffset | None]] = []

    def read(self, wanted: ReadRange, found: RemoteResult) -> asyncio.Future[RemoteResult]:
        future: asyncio.Future[RemoteResult] = asyncio.get_running_loop().create_future()
        self.reads.append((wanted, found, future))
        return future

    def offset_for_timestamp(
        self, timestamp: int, limit_ms: int
    ) -> asyncio.Future[TimestampOffset | None]:
        self.searches.append(asyncio.get_running_loop().create_future())
        return self.searches[-1]

    def largest_timestamp(self) -> int:
        return self.largest

    def answer(self, number: int = 0, data: bytes = OLD, **values: Any) -> None:
        _, found, future = self.reads[number]
        found.records = MemorySlice(data)
        for name, value in values.items():
            setattr(found, name, value)
        future.set_result(found)


@pytest.fixture
def remote(kafka: InProcessBroker) -> FakeRemote:
    """Topic t: partition 0 has offsets 3 and 4 here, those below are remote; 1 is local."""
    kafka.create("t", partitions=2)
    local = kafka.partition("t", 0)
    local.log.truncate_fully_at(3, T0)
    local.restore_high_watermark(3)
    local.lead(Leadership(leader_id=1, leader_epoch=1, isr=(1,), replicas=(1,)))
    for index, count in ((0, 2), (1, 1)):
        for _ in range(count):
            kafka.partition("t", index).leading().append_from_client(
                batch(b"local", timestamp=T0 + 10), 1, kafka.clock.now_ms()
            )
    local.log.remote = RemotePart(0)
    local.remote = remote = FakeRemote()
    return remote


def by_index(response: Any) -> dict[int, Any]:
    return {each.partition_index: each for topic in response.responses for each in topic.partitions}


def test_a_fetch_of_local_and_remote_offsets_waits_for_remote_storage(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 1), ("t", 1, 0), max_wait_ms=0), 11)
        assert not (await exchange.settled()).is_done
        [(wanted, _, _)] = remote.reads
        assert (wanted.offset, len(kafka.broker.waiting)) == (1, 0)
        remote.answer()
        found = by_index((await exchange.settled()).response)
        assert bytes(found[0].records) == OLD
        assert (found[0].error_code, found[0].high_watermark, found[0].log_start_offset) == (
            0,
            5,
            0,
        )
        assert [header.base_offset for _, header in batches(found[1].records)] == [0]

    asyncio.run(scenario())


def test_a_fetch_of_local_offsets_does_not_wait(kafka: InProcessBroker, remote: FakeRemote) -> None:
    found = by_index(kafka.call(fetch_request(("t", 0, 3), ("t", 1, 0)), 11))
    assert [header.base_offset for _, header in batches(found[0].records)] == [3, 4]
    assert found[0].log_start_offset == 0, "remote storage included"
    assert remote.reads == []


def test_several_remote_reads_run_side_by_side(kafka: InProcessBroker, remote: FakeRemote) -> None:
    other = kafka.partition("t", 1)
    other.log.truncate_fully_at(3, T0)
    other.restore_high_watermark(3)
    other.log.remote = RemotePart(0)
    other.remote = remote

    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), ("t", 1, 1)), 11)
        assert len(remote.reads) == 2
        remote.answer(1, data=b"second")
        assert not (await exchange.settled()).is_done
        remote.answer(0)
        found = by_index((await exchange.settled()).response)
        assert (bytes(found[0].records), bytes(found[1].records)) == (OLD, b"second")

    asyncio.run(scenario())


def test_a_disconnected_clients_remote_reads_are_cancelled(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), ("t", 1, 0)), 11)
        assert not (await exchange.settled()).is_done
        exchange.abandon()
        [(_, _, future)] = remote.reads
        assert future.cancelled()

    asyncio.run(scenario())


def test_an_error_of_remote_storage_is_returned_for_its_partition(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), ("t", 1, 0)), 11)
        remote.reads[0][2].set_exception(KafkaError(Error.KAFKA_STORAGE_ERROR))
        found = by_index((await exchange.settled()).response)
        assert (found[0].error_code, found[0].records) == (Error.KAFKA_STORAGE_ERROR, b"")
        assert found[1].error_code == 0 and len(found[1].records) > 0

    asyncio.run(scenario())


def test_a_remote_read_returns_aborted_transactions(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0), isolation_level=1), 11)
        remote.answer(aborted=[AbortedTransaction(7, 1, 2, 3)])
        found = only((await exchange.settled()).response)
        assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [
            (7, 1)
        ]

    asyncio.run(scenario())


def test_a_large_remote_read_is_sent_from_memory(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    async def scenario() -> None:
        exchange = kafka.begin(fetch_request(("t", 0, 0)), 11)
        remote.answer(data=OLD * 1000)
        assert bytes(only((await exchange.settled()).response).records) == OLD * 1000

    asyncio.run(scenario())


def test_below_the_start_of_remote_storage_is_out_of_range(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    kafka.partition("t", 0).log.remote = RemotePart(1)
    assert only(kafka.call(fetch_request(("t", 0, 0)), 11)).error_code == Error.OFFSET_OUT_OF_RANGE


def test_followers_get_offset_moved_to_tiered_storage(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    kafka.partition("t", 0).lead(Leadership(leader_id=1, leader_epoch=2, isr=(1,), replicas=(1, 2)))
    answer = only(kafka.call(fetch_request(("t", 0, 0), replica_id=2), 11))
    assert answer.error_code == Error.OFFSET_MOVED_TO_TIERED_STORAGE


def list_offset(timestamp: int) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.Topic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        timeout_ms=0,
        topics=[
            topic(
                name="t",
                partitions=[
                    topic.Partition(partition_index=index, timestamp=timestamp) for index in (0, 1)
                ],
            )
        ],
    )


def offsets(response: Any) -> list[int]:
    return [each.offset for each in response.topics[0].partitions]


def test_timestamps_are_searched_remotely_first(kafka: InProcessBroker, remote: FakeRemote) -> None:
    async def scenario() -> None:
        exchange = kafka.begin(list_offset(T0 + 1), 10)
        assert not (await exchange.settled()).is_done
        remote.searches[0].set_result(TimestampOffset(T0 + 2, 1, 0))
        assert offsets((await exchange.settled()).response) == [1, 0]

        exchange = kafka.begin(list_offset(T0 + 5), 10)
        remote.searches[1].set_result(None)
        assert offsets((await exchange.settled()).response) == [3, 0]

        exchange = kafka.begin(list_offset(T0), 10)
        exchange.abandon()
        assert remote.searches[2].cancelled()

    asyncio.run(scenario())


def test_the_largest_timestamp_may_be_remote(kafka: InProcessBroker, remote: FakeRemote) -> None:
    async def scenario() -> None:
        assert offsets(kafka.call(list_offset(-3), 10)) == [3, 0]
        remote.largest = T0 + 11
        exchange = kafka.begin(list_offset(-3), 10)
        assert not (await exchange.settled()).is_done
        remote.searches[0].set_result(TimestampOffset(T0 + 11, 2, 0))
        assert offsets((await exchange.settled()).response) == [2, 0]

    asyncio.run(scenario())


def test_the_earliest_offset_is_remote_and_the_earliest_local_one_is_not(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    assert offsets(kafka.call(list_offset(-2), 10)) == [0, 0]
    assert offsets(kafka.call(list_offset(-4), 10)) == [3, 0]


def test_records_are_deleted_from_remote_storage_too(
    kafka: InProcessBroker, remote: FakeRemote
) -> None:
    topic = DeleteRecordsRequest.Topic
    for offset, local_start in ((2, 3), (4, 4)):
        answer = kafka.call(
            DeleteRecordsRequest(
                timeout_ms=1_000,
                topics=[
                    topic(name="t", partitions=[topic.Partition(partition_index=0, offset=offset)])
                ],
            ),
            2,
        )
        assert answer.topics[0].partitions[0].low_watermark == offset
        assert kafka.partition("t", 0).start_offset == offset
        assert kafka.partition("t", 0).log.start_offset == local_start
