"""The coordinator of many shards: changes of leadership, loading, failed appends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.codec.batch import read_header
from wirekafka.codec.compression import Codec
from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    CommitTransactionOffsets,
    DescribeGroup,
    FetchOffsets,
    Join,
    OffsetToCommit,
)
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.coordinator import GroupCoordinator
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Producer

OFFSETS_PARTITIONS = 4
MANY = 1200
"""So many batches that a log is loaded in several steps."""


class GroupBroker:
    """A coordinator over logs in memory, which may be slow or fail; it leads none until `ready`."""

    def __init__(self, **settings: Any):
        self.clock = ManualClock()
        self.logs = [MemoryLog() for _ in range(OFFSETS_PARTITIONS)]
        self._is_ready = False
        self.groups = GroupCoordinator(
            GroupConfig(**settings),
            self.clock,
            lambda: OFFSETS_PARTITIONS if self._is_ready else 0,
            lambda error: pytest.fail(str(error)),
        )

    def ready(self) -> GroupBroker:
        self._is_ready = True
        for index, log in enumerate(self.logs):
            self.groups.lead(index, log)
        return self


def commit(offset: int, group_id: str = "g") -> CommitOffsets:
    return CommitOffsets(group_id, -1, "", [OffsetToCommit("t", 0, offset)])


def fetch(broker: GroupBroker, group_id: str = "g") -> int:
    (found,) = asyncio.run(broker.groups.submit(group_id, FetchOffsets(group_id, [("t", 0)])))
    return int(found.offset)


def refusal(broker: GroupBroker, command: object = None, group_id: str = "g") -> Error:
    with pytest.raises(KafkaError) as caught:
        asyncio.run(broker.groups.submit(group_id, command or DescribeGroup(group_id)))
    return caught.value.error


def with_long_log() -> tuple[GroupBroker, int, MemoryLog]:
    broker = GroupBroker().ready()
    runtime = broker.groups.shard_for("g")
    for offset in range(MANY):
        runtime.post(commit(offset))
    partition = broker.groups.partition_for("g")
    broker.groups.resign(partition)
    return broker, partition, broker.logs[partition]


def test_not_coordinator_without_the_topic_and_after_resigning() -> None:
    assert refusal(GroupBroker()) is Error.NOT_COORDINATOR
    broker = GroupBroker().ready()
    assert refusal(broker) is Error.GROUP_ID_NOT_FOUND
    broker.groups.resign(broker.groups.partition_for("g"))
    assert refusal(broker) is Error.NOT_COORDINATOR


def test_coordinator_load_in_progress_until_the_log_is_read() -> None:
    broker, partition, log = with_long_log()
    broker.groups.lead(partition, log)
    assert refusal(broker) is Error.COORDINATOR_LOAD_IN_PROGRESS
    broker.clock.advance(10)
    assert fetch(broker) == MANY - 1


def test_a_load_is_cancelled_by_a_resignation() -> None:
    broker, partition, log = with_long_log()
    broker.groups.lead(partition, log)
    broker.groups.resign(partition)
    broker.clock.advance(10)
    assert refusal(broker) is Error.NOT_COORDINATOR
    broker.groups.lead(partition, log)
    broker.groups.lead(partition, log)
    broker.clock.advance(10)
    assert fetch(broker) == MANY - 1


def test_a_log_that_cannot_be_read_does_not_affect_other_partitions() -> None:
    broker = GroupBroker().ready()
    partition = broker.groups.partition_for("g")
    log = MemoryLog()
    log.batches.append(b"\xff" * 80)
    broker.groups.lead(partition, log)
    assert refusal(broker) is Error.NOT_COORDINATOR
    others = [
        group_id
        for group_id in map(str, range(20))
        if broker.groups.partition_for(group_id) != partition
    ]
    assert refusal(broker, group_id=others[0]) is Error.GROUP_ID_NOT_FOUND


def test_groups_are_spread_over_all_partitions() -> None:
    broker = GroupBroker().ready()
    assert {broker.groups.partition_for(f"group-{n}") for n in range(50)} == set(
        range(OFFSETS_PARTITIONS)
    )


def test_waiting_members_get_not_coordinator_after_a_resignation() -> None:
    broker = GroupBroker(initial_rebalance_delay_ms=3000).ready()

    async def scenario() -> None:
        waiting = asyncio.ensure_future(
            broker.groups.submit(
                "g",
                Join(
                    group_id="g",
                    protocol_type="consumer",
                    protocols=(AssignorChoice("range", b""),),
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                    fresh_id="1",
                ),
            )
        )
        await asyncio.sleep(0)
        broker.groups.stop()
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await waiting

    asyncio.run(scenario())


def test_a_response_waits_until_the_state_it_returns_is_committed() -> None:
    broker = GroupBroker().ready()
    log = broker.logs[broker.groups.partition_for("g")]
    log.commits_at_once = False

    async def scenario() -> None:
        writing = asyncio.ensure_future(broker.groups.submit("g", commit(5)))
        reading = asyncio.ensure_future(broker.groups.submit("g", FetchOffsets("g", [("t", 0)])))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not writing.done() and not reading.done()
        log.commit(log.end_offset)
        assert await writing == [Error.NONE]
        assert (await reading)[0].offset == 5

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("failure", "reported"),
    [
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_append_keeps_the_committed_state(failure: Error, reported: Error) -> None:
    broker = GroupBroker().ready()
    asyncio.run(broker.groups.submit("g", commit(5)))
    log = broker.logs[broker.groups.partition_for("g")]
    log.failure = KafkaError(failure)
    assert refusal(broker, commit(6)) is reported
    log.failure = None
    assert fetch(broker) == 5


def test_deleted_partitions_lose_their_offsets_in_every_shard() -> None:
    broker = GroupBroker().ready()
    for group_id in map(str, range(20)):
        asyncio.run(broker.groups.submit(group_id, commit(5, group_id)))
    broker.groups.forget_partitions(frozenset({("t", 0)}))
    assert {fetch(broker, group_id) for group_id in map(str, range(20))} == {-1}


def test_offsets_are_deleted_in_batches_that_fit() -> None:
    broker = GroupBroker().ready()
    log = broker.logs[broker.groups.partition_for("g")]
    asyncio.run(
        broker.groups.submit(
            "g",
            CommitOffsets("g", -1, "", [OffsetToCommit("t", index, 5) for index in range(2500)]),
        )
    )
    batches = len(log.batches)
    broker.groups.forget_partitions(frozenset(("t", index) for index in range(2500)))
    broker.clock.advance(0)
    assert fetch(broker) == -1
    assert [read_header(batch).count for batch in log.batches[batches:]] == [1000, 1000, 500]


def test_partitions_deleted_while_a_log_is_loaded_lose_their_offsets() -> None:
    broker, partition, log = with_long_log()
    broker.groups.lead(partition, log)
    broker.groups.forget_partitions(frozenset({("t", 0)}))
    broker.clock.advance(10)
    assert fetch(broker) == -1


def test_a_deletion_that_cannot_be_written_is_retried() -> None:
    broker = GroupBroker().ready()
    asyncio.run(broker.groups.submit("g", commit(5)))
    log = broker.logs[broker.groups.partition_for("g")]
    log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    broker.groups.forget_partitions(frozenset({("t", 0)}))
    broker.groups.forget_partitions(frozenset({("t", 1)}))
    log.failure = None
    assert fetch(broker) == 5
    broker.clock.advance(1_000)
    assert fetch(broker) == -1


def test_offsets_are_compressed_as_configured() -> None:
    broker = GroupBroker(compression=Codec.GZIP).ready()
    asyncio.run(broker.groups.submit("g", commit(5)))
    (batch,) = broker.logs[broker.groups.partition_for("g")].batches
    assert read_header(batch).compression == Codec.GZIP


def test_end_markers_reach_the_shard_of_their_partition() -> None:
    broker = GroupBroker().ready()
    partition = broker.groups.partition_for("g")
    asyncio.run(
        broker.groups.submit(
            "g",
            CommitTransactionOffsets(
                "g", -1, "", [OffsetToCommit("t", 0, 9)], producer_id=7, producer_epoch=0
            ),
        )
    )
    assert fetch(broker) == -1
    broker.groups.end_transaction(partition, Producer(7, 0), True)
    assert fetch(broker) == 9
    broker.groups.resign(partition)
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        broker.groups.end_transaction(partition, Producer(7, 0), True)
