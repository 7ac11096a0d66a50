"""The share coordinator of a broker: pruning, deleted topics, and its client's retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import share_state_topic
from tests.coordinator.test_share_shard import (
    DOOMED,
    KEY,
    TOPIC,
    Coordinator,
    Topics,
    share_commands,
)
from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.coordinator.routing import NoLinks, Routing
from wirekafka.coordinator.share_state.client import ShareStateClient
from wirekafka.coordinator.share_state.coordinator import ShareCoordinator, ShareCoordinatorParts
from wirekafka.coordinator.share_state.pruning import RedundantOffsets
from wirekafka.coordinator.share_state.shard import ShareCoordinatorConfig
from wirekafka.coordinator.share_state.states import (
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
    only,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.initialize_share_group_state import InitializeShareGroupStateResponse
from wirekafka.runtime.driver import start
from wirekafka.runtime.observation import Committed
from wirekafka.runtime.promise import Promise

PRUNE_MS = 10_000
SETTINGS = {
    **share_state_topic.settings(),
    "share_coordinator_snapshot_update_records_per_snapshot": "4",
    "share_coordinator_state_topic_prune_interval_ms": str(PRUNE_MS),
}


@pytest.fixture
def node(tmp_path: Path, manual_clock: ManualClock) -> InProcessBroker:
    return InProcessBroker(tmp_path / "data", manual_clock, **SETTINGS)


def initialize(node: InProcessBroker, *keys: ShareKey) -> None:
    initializations = [StateInitialization(key, 1, 0) for key in keys]
    assert set(now(node.broker.share_states.initialize(initializations))) == {None}


def test_the_client_creates_the_topic_and_reaches_the_coordinator(node: InProcessBroker) -> None:
    key = ShareKey("g", node.create("t"), 0)
    initialize(node, key)
    states = node.broker.share_states
    batches = (StateBatch(0, 3, 2, 1),)
    assert only(now(states.write([StateWrite(key, 1, 0, batches=batches)]))) is None
    assert only(now(states.read([StateRead(key, 0)]))).batches == batches
    assert only(now(states.read_summaries([StateRead(key)]))) == StateSummary(1, 0, 0, 0)
    with pytest.raises(KafkaError) as fenced:
        only(now(states.initialize([StateInitialization(key, 0)])))
    assert fenced.value.error is Error.FENCED_STATE_EPOCH
    assert only(now(states.delete([key]))) is None
    assert now(states.read([StateRead(key, 0)]))[0].error is Error.INVALID_REQUEST
    node.stop()


def test_records_that_later_snapshots_replaced_are_deleted(
    node: InProcessBroker, tmp_path: Path, manual_clock: ManualClock
) -> None:
    key = ShareKey("g", node.create("t"), 0)
    initialize(node, key)
    states = node.broker.share_states
    for number in range(12):
        now(states.write([StateWrite(key, 1, 0, batches=(StateBatch(number, number, 2, 1),))]))
    partition = node.partition("__share_group_state")
    manual_clock.advance(PRUNE_MS - 1)
    assert partition.start_offset == 0
    manual_clock.advance(1)
    assert partition.start_offset == 10, "of the second snapshot after four updates each"
    before = now(states.read([StateRead(key, 0)]))
    node.stop()
    again = InProcessBroker(tmp_path / "data", manual_clock, **SETTINGS)
    manual_clock.advance(1)
    assert again.partition("__share_group_state").start_offset == 10
    assert now(again.broker.share_states.read([StateRead(key, 0)])) == before
    again.stop()


def test_the_states_of_a_deleted_topic_are_deleted(
    node: InProcessBroker, manual_clock: ManualClock
) -> None:
    key, kept = ShareKey("g", node.create("t"), 0), ShareKey("g", node.create("kept"), 0)
    initialize(node, key, kept)
    topic = DeleteTopicsRequest.DeleteTopicState(name="t")
    node.call(DeleteTopicsRequest(topics=[topic], timeout_ms=1000), 6)
    manual_clock.advance(1)
    shard: Any = node.broker.share_coordinator.shard_for("any").machine
    assert [record.key for record in shard.snapshot()] == [kept]
    node.stop()


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run an asynchronous test."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Lone:
    """A coordinator without a broker, with a single shard on a log in memory."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pruned: list[tuple[int, int]] = []
        self.coordinator = ShareCoordinator(
            ShareCoordinatorParts(
                ShareCoordinatorConfig(prune_interval_ms=PRUNE_MS), Topics(), self._delete_records
            ),
            self.clock,
            lambda: 1,
            pytest.fail,
        )
        self.failure: KafkaError | None = None
        self.leader = 0
        self.routing = Routing(0, lambda topic, index: self.leader)

    def _delete_records(self, partition: int, offset: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.pruned.append((partition, offset))

    def client(self, ensure_topic: Callable[[], Any] | None = None) -> ShareStateClient:
        async def ensured() -> None:
            """Report that the internal topic exists."""

        return ShareStateClient(self.coordinator, self.routing, ensure_topic or ensured, self.clock)


def begun(coroutine: Any) -> Promise:
    """The results of a client's method, once they are there."""
    results = Promise()

    async def run() -> None:
        results.set(await coroutine)

    start(run())
    return results


def test_topics_deleted_while_a_shard_loads_lose_their_states_then() -> None:
    filled = Coordinator()
    keys = [ShareKey(f"g{number}", topic, 0) for number in range(300) for topic in (DOOMED, TOPIC)]
    for key in keys:
        filled.run(StateInitialization(key, 0))
    lone = Lone()
    lone.coordinator.lead(0, filled.log)
    runtime = lone.coordinator.shard_for("any")
    assert not runtime.is_loaded
    lone.coordinator.delete_topics(frozenset({DOOMED}))
    lone.clock.advance(1)
    left = {record.key for record in runtime.machine.snapshot()}
    assert left == {key for key in keys if key.topic_id == TOPIC}


def test_nothing_is_pruned_after_a_resignation() -> None:
    lone = Lone()
    filled = Coordinator()
    for epoch in range(3):
        filled.run(StateInitialization(KEY, epoch))
    lone.coordinator.lead(0, filled.log)
    lone.clock.advance(PRUNE_MS)
    assert lone.pruned == [(0, 2)]
    lone.failure = KafkaError(Error.KAFKA_STORAGE_ERROR)
    lone.clock.advance(PRUNE_MS)
    lone.failure = None
    lone.clock.advance(PRUNE_MS)
    assert lone.pruned == [(0, 2)] * 2, "a failure is retried at the next interval"
    lone.coordinator.resign(0)
    lone.clock.advance(10 * PRUNE_MS)
    assert len(lone.pruned) == 2


@on_a_loop
async def test_requests_wait_until_this_broker_is_the_coordinator() -> None:
    lone = Lone()
    results = begun(lone.client().initialize([StateInitialization(KEY, 1)]))
    await settled(lone, 120)
    assert not results.done
    lone.coordinator.lead(0, MemoryLog())
    await settled(lone, 5_000)
    assert results.result() == [None]


OF_REQUESTS = {Error.NETWORK_EXCEPTION, Error.BROKER_NOT_AVAILABLE, Error.REQUEST_TIMED_OUT}


class Remote(NoLinks):
    """Another broker that coordinates share partitions; `results` are those of its responses."""

    def __init__(self, *results: Error):
        self.results = list(results)
        self.requests: list[tuple[int, list[ShareKey]]] = []

    async def send(self, broker_id: int, client_id: str, request: Any) -> Any:
        group_id = request.group_id
        asked = [(each.topic_id, part) for each in request.topics for part in each.partitions]
        self.requests.append(
            (broker_id, [ShareKey(group_id, topic_id, part.partition) for topic_id, part in asked])
        )
        result = self.results.pop(0)
        if result in OF_REQUESTS:
            raise KafkaError(result)
        kind = InitializeShareGroupStateResponse.InitializeStateResult
        return InitializeShareGroupStateResponse(
            results=[
                kind(
                    topic_id=topic_id,
                    partitions=[kind.PartitionResult(partition=part.partition, error_code=result)],
                )
                for topic_id, part in asked
            ]
        )


@on_a_loop
async def test_commands_go_to_the_coordinator_on_another_broker_by_group() -> None:
    lone = Lone()
    lone.leader = 2
    lone.routing.links = remote = Remote(Error.NONE, Error.NONE)
    keys = [KEY, KEY._replace(group_id="h"), KEY._replace(partition=5)]
    results = begun(lone.client().delete(keys))
    await settled(lone, 0)
    assert results.result() == [None, None, None]
    assert remote.requests == [(2, [keys[0], keys[2]]), (2, [keys[1]])]


@on_a_loop
async def test_an_unreachable_coordinator_is_looked_up_again() -> None:
    lone = Lone()
    lone.leader = 2
    lone.routing.links = remote = Remote(*OF_REQUESTS, Error.FENCED_STATE_EPOCH)
    results = begun(lone.client().initialize([StateInitialization(KEY, 1)]))
    await settled(lone, 60_000)
    assert [each.error for each in results.result()] == [Error.FENCED_STATE_EPOCH]
    assert not remote.results


@on_a_loop
async def test_requests_fail_in_the_end_without_a_coordinator_or_its_topic() -> None:
    lone = Lone()

    async def refuse() -> None:
        raise KafkaError(Error.INVALID_REPLICATION_FACTOR)

    for ensure_topic, error in (
        (None, Error.NOT_COORDINATOR),
        (refuse, Error.COORDINATOR_NOT_AVAILABLE),
    ):
        results = begun(lone.client(ensure_topic).delete([KEY]))
        await settled(lone, 60_000)
        assert [each.error for each in results.result()] == [error]


@on_a_loop
async def test_a_stopped_client_waits_no_longer() -> None:
    lone = Lone()
    client = lone.client()
    results = begun(client.delete([KEY]))
    assert not results.done
    client.stop()
    await settled(lone, 0)
    assert [each.error for each in results.result()] == [Error.NOT_COORDINATOR]


@on_a_loop
async def test_only_failed_partitions_are_sent_again() -> None:
    lone = Lone()
    lone.coordinator.lead(0, log := MemoryLog())
    log.refuses = lambda batch: b"second" in bytes(batch)
    keys = [KEY, KEY._replace(group_id="second")]
    results = begun(lone.client().initialize([StateInitialization(key, 0) for key in keys]))
    await settled(lone, 50)
    log.refuses = None
    await settled(lone, 5_000)
    assert results.result() == [None, None]
    assert len(log.batches) == 2, "the first one is written once"


async def settled(lone: Lone, ms: int) -> None:
    """Let time pass in steps, between which waiting coroutines run."""
    for _ in range(20):
        lone.clock.advance(ms // 20)
        for _ in range(4):
            await asyncio.sleep(0)


@given(st.lists(share_commands, max_size=60))
def test_no_record_below_the_redundant_offset_is_needed(commands: list[Any]) -> None:
    whole = Coordinator()
    redundant = RedundantOffsets()
    whole.runtime.observe(redundant.note)
    for command in commands:
        if isinstance(command, int):
            whole.clock.advance(command)
        else:
            whole.runtime.post(command)
    from_log = RedundantOffsets()
    for batch in whole.log.batches:
        records = list(whole.codec.decode(batch))
        from_log.note(Committed(records, whole.log.end_offset))
    assert from_log.needed_from == redundant.needed_from
    pruned = MemoryLog()
    for record in whole.records():
        if record.offset >= redundant.needed_from:
            pruned.append(whole.codec.encode([record], 0, None))
    assert Coordinator(pruned).state() == whole.state()
