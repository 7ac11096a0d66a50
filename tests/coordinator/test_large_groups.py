"""Groups of two thousand members: no step blocks the loop for long; results are the same."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.coordinator.group_machines import GroupMachines
from tests.memory_log import MemoryLog
from wirekafka.coordinator.groups.classic.group import ClassicGroup, GroupState
from wirekafka.coordinator.groups.classic.member import ClassicMember
from wirekafka.coordinator.groups.classic.records import GroupRecord
from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    Heartbeat,
    TopicsChanged,
)
from wirekafka.coordinator.groups.consumer.commands import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DescribeConsumerGroup,
)
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from wirekafka.coordinator.groups.consumer.protocol import pack_assignment
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetRecord,
)
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription
from wirekafka.protocol.records.subscription import CONSUMER_PROTOCOL
from wirekafka.runtime.runtime import Runtime

MEMBERS, PARTITIONS = 2_000, 20_000
LONGEST_S = 0.12
"""Of the processor's time: six times 20 ms, for slow machines that are shared.

The groups are twice as large as those for which 20 ms suffice, since in one step even these took
longer than this.
"""
INTERVAL_MS = 1_000


class Crowd:
    """The members of the group "g"; measures the processor time of each turn of the loop.

    The clock advances with the thread's processor time, since turns end by the clock.
    """

    def __init__(self, topics: dict[str, int], assignor: str | None = None):
        self.broker = GroupMachines().ready()
        self.broker.consumer_options = GroupTimes(assignment_interval_ms=INTERVAL_MS)
        for name, count in topics.items():
            self.broker.add_topic(name, count)
        self.topics, self.assignor = list(topics), assignor
        self.longest_s = 0.0
        self.epochs: dict[int, int] = {}
        self.assigned: dict[int, Any] = {}
        clock = self.broker.clock
        now_ms, call_later = clock.now_ms, clock.call_later
        clock.now_ms = lambda: now_ms() + int(time.thread_time() * 1000)  # type: ignore[method-assign]
        clock.call_later = lambda delay_ms, callback: call_later(  # type: ignore[method-assign]
            delay_ms, lambda: self.measured(callback)
        )

    @property
    def runtime(self) -> Runtime:
        return self.broker.groups.shard_for("g")

    @property
    def group(self) -> ConsumerGroup:
        group = self.runtime.machine.groups["g"]  # type: ignore[attr-defined]
        assert isinstance(group, ConsumerGroup)
        return group

    def measured(self, step: Callable[[], Any]) -> Any:
        start = time.thread_time()
        try:
            return step()
        finally:
            self.longest_s = max(self.longest_s, time.thread_time() - start)

    def post(self, command: Any) -> Any:
        return self.measured(lambda: self.runtime.post(command))

    def join(self, number: int, topics: list[str] | None = None) -> Any:
        return self.post(
            ConsumerHeartbeat(
                group_id="g",
                member_id=f"member-{number}",
                epoch=0,
                rebalance_timeout_ms=60_000,
                topics=self.topics if topics is None else topics,
                owned={},
                assignor=self.assignor,
            )
        )

    def beat(self, number: int) -> Any:
        return self.post(
            ConsumerHeartbeat(
                group_id="g",
                member_id=f"member-{number}",
                epoch=self.epochs[number],
                owned=dict(self.assigned.get(number, [])),
            )
        )

    def take(self, tickets: dict[int, Any]) -> None:
        self.broker.clock.advance(0)
        for number, ticket in tickets.items():
            reply: ConsumerHeartbeatReply = ticket.result()
            self.epochs[number] = reply.epoch
            if reply.assignment is not None:
                self.assigned[number] = reply.assignment

    def settle(self) -> None:
        """Let all members send heartbeats until the group is stable."""
        for _ in range(10):
            self.broker.clock.advance(INTERVAL_MS)
            self.take({number: self.beat(number) for number in self.epochs})
            if self.group.state is ConsumerGroupState.STABLE:
                return
        raise AssertionError("the group is not stable after ten rounds")

    def load_again(self) -> None:
        """Load the group from its log, as after a move of the coordinator."""
        index = self.broker.groups.partition_for("g")
        self.broker.groups.lead(index, self.broker.logs[index])
        self.broker.clock.advance(0)

    def records(self) -> list[Any]:
        codec = GroupRecordCodec()
        return [
            record
            for log in self.broker.logs
            for batch in log.batches
            for record in codec.decode(batch)
        ]


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Without garbage collection, which is rare in a broker, whose heap is also smaller."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile the codecs first, as a broker does when it starts."""
    crowd = Crowd({"big": 5})
    crowd.take({number: crowd.join(number) for number in range(2)})
    crowd.settle()


@pytest.mark.long
@pytest.mark.parametrize(
    ("topics", "assignor"),
    [
        ({"big": PARTITIONS}, "uniform"),
        ({"big": PARTITIONS}, "range"),
        ({f"topic-{number}": PARTITIONS // 50 for number in range(50)}, "uniform"),
    ],
    ids=["one topic", "range", "fifty topics"],
)
def test_twenty_thousand_partitions_are_assigned_to_members_in_short_steps(
    topics: dict[str, int], assignor: str
) -> None:
    crowd = Crowd(topics, assignor)
    crowd.take({0: crowd.join(0)})
    crowd.take({number: crowd.join(number) for number in range(1, MEMBERS)})
    crowd.settle()
    assert crowd.longest_s < LONGEST_S
    sizes = {sum(len(partitions) for _, partitions in each) for each in crowd.assigned.values()}
    assert len(crowd.assigned) == MEMBERS and sizes == {PARTITIONS // MEMBERS}


@pytest.mark.long
def test_members_of_different_subscriptions_are_assigned_in_short_steps() -> None:
    crowd = Crowd({"a": PARTITIONS // 2, "b": PARTITIONS // 2})
    for number in range(MEMBERS):
        crowd.take({number: crowd.join(number, ["a"] if number % 2 else ["a", "b"])})
    crowd.settle()
    assert crowd.longest_s < LONGEST_S


@pytest.mark.long
def test_members_lost_at_once_are_removed_in_short_steps() -> None:
    crowd = Crowd({"big": PARTITIONS})
    crowd.take({number: crowd.join(number) for number in range(MEMBERS)})
    crowd.settle()
    crowd.longest_s = 0
    crowd.broker.clock.advance(60_000)
    assert crowd.group.is_empty
    assert crowd.longest_s < LONGEST_S


@pytest.mark.long
def test_a_classic_group_becomes_a_consumer_group_in_short_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd({"big": PARTITIONS})
    log = _load_classic_group(crowd, MEMBERS)
    replayed = _replays_after_append(log, monkeypatch)
    crowd.longest_s = 0
    crowd.take({0: crowd.join(0)})
    assert crowd.longest_s < LONGEST_S
    assert not replayed, "the records of the one batch were replayed before, in steps"
    assert len(crowd.group.members) == MEMBERS + 1
    assert crowd.group.epoch == 8
    converted = list(crowd.group.snapshot())
    crowd.load_again()
    assert list(crowd.group.snapshot()) == converted, "the state is that of the log"


@pytest.mark.long
def test_a_consumer_group_becomes_a_classic_group_in_short_steps() -> None:
    crowd = Crowd({"big": PARTITIONS})
    log = _load_classic_group(crowd, MEMBERS)
    crowd.take({0: crowd.join(0)})
    batches = len(log.batches)
    crowd.longest_s = 0
    leaving = crowd.post(ConsumerHeartbeat(group_id="g", member_id="member-0", epoch=-1))
    late = crowd.post(Heartbeat("g", 8, "classic-0"))
    assert not leaving.done, "it takes several steps"
    crowd.broker.clock.advance(0)
    assert leaving.result().epoch == -1
    with pytest.raises(KafkaError) as refused:
        late.result()
    assert refused.value.error is Error.REBALANCE_IN_PROGRESS
    assert crowd.longest_s < LONGEST_S
    assert len(log.batches) == batches + 1, "Kafka's format wants one batch"
    classic = _converted(crowd)
    stored = list(classic.snapshot())
    crowd.load_again()
    loaded = crowd.runtime.machine.groups["g"]  # type: ignore[attr-defined]
    assert isinstance(loaded, ClassicGroup)
    assert list(loaded.snapshot()) == stored, "the state is that of the log"


def test_a_conversion_after_the_end_of_a_session_is_repeated_once_the_log_accepts_it() -> None:
    crowd = Crowd({"big": 2_000})
    log = _load_classic_group(crowd, 200)
    crowd.take({0: crowd.join(0)})
    # The sessions of the classic members last longer than that of the other one.
    log.refuses = lambda batch: True
    crowd.broker.clock.advance(45_500)
    assert isinstance(crowd.group, ConsumerGroup)
    log.refuses = None
    crowd.broker.clock.advance(3_000)
    assert len(_converted(crowd).members) == 200


def _load_classic_group(crowd: Crowd, members: int) -> MemoryLog:
    """Store a classic group "g" of generation 7, and load it; returns its log."""
    joined = ClassicGroup("g")
    joined.generation_id = 7
    subscription = b"\0\0" + bytes(ConsumerProtocolSubscription(topics=["big"]).encode(0))
    for number in range(members):
        protocols = (AssignorChoice("range", subscription),)
        joined.add(
            ClassicMember(
                member_id=f"classic-{number}",
                instance_id=None,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=60_000,
                session_timeout_ms=60_000,
                protocol_type=CONSUMER_PROTOCOL,
                protocols=protocols,
            )
        )
    joined.protocol_name = "range"
    each = PARTITIONS // MEMBERS
    assignments = {
        f"classic-{number}": pack_assignment(
            [("big", range(number * each, (number + 1) * each))], subscription
        )
        for number in range(members)
    }
    index = crowd.broker.groups.partition_for("g")
    stored = GroupRecord("g", joined.to_record(0, assignments))
    log = crowd.broker.logs[index]
    log.append(GroupRecordCodec().encode([stored], 0, None))
    crowd.load_again()
    return log


def _converted(crowd: Crowd) -> ClassicGroup:
    """The group "g", which has become classic: its members keep their partitions, and rejoin."""
    classic = crowd.runtime.machine.groups["g"]  # type: ignore[attr-defined]
    assert isinstance(classic, ClassicGroup)
    assert classic.state is GroupState.PREPARING_REBALANCE
    assert classic.generation_id == 8
    assert classic.stored is not None
    assert [each.member_id for each in classic.stored.members] == list(classic.members)
    assert all(member.assignment for member in classic.members.values())
    return classic


def _replays_after_append(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> list[ConsumerRecord]:
    """A list that gets the records of consumer groups replayed since the last append."""
    replayed: list[ConsumerRecord] = []
    append, replay = log.append, ConsumerGroup.replay

    def appended(batch: bytes) -> int:
        replayed.clear()
        return append(batch)

    def noted(group: ConsumerGroup, record: ConsumerRecord) -> None:
        replayed.append(record)
        replay(group, record)

    monkeypatch.setattr(log, "append", appended)
    monkeypatch.setattr(ConsumerGroup, "replay", noted)
    return replayed


# Commands that wait while the target assignment of a group is computed


@pytest.fixture
def crowd() -> Crowd:
    """A group whose next heartbeat begins to compute targets that take several steps."""
    crowd = Crowd({"t2": 4_000})
    crowd.take({number: crowd.join(number) for number in range(200)})
    crowd.broker.clock.advance(INTERVAL_MS)
    return crowd


def test_commands_of_the_group_wait_and_are_processed_in_order(crowd: Crowd) -> None:
    first, second, gone = crowd.beat(0), crowd.beat(1), crowd.beat(2)
    described = crowd.post(DescribeConsumerGroup("g"))
    late = crowd.join(200)
    assert not any(ticket.done for ticket in (first, second, gone, described, late))
    crowd.broker.clock.advance(0)
    epoch = crowd.group.assignment_epoch
    assert {ticket.result().epoch for ticket in (first, second, gone)} <= {epoch, 2}
    assert described.result().assignment_epoch == epoch
    assert late.result().epoch == epoch
    assert crowd.group.epoch == epoch + 1


def test_other_groups_and_offsets_do_not_wait(crowd: Crowd) -> None:
    waiting = crowd.beat(0)
    commit = CommitOffsets(
        group_id="g", member_id="member-1", generation_id=crowd.epochs[1], offsets=[], version=9
    )
    assert crowd.post(commit).done
    assert not waiting.done


def test_a_refusal_is_returned_to_a_command_that_waited(crowd: Crowd) -> None:
    waiting = crowd.beat(0)
    crowd.epochs[500] = 7
    unknown = crowd.beat(500)
    crowd.broker.clock.advance(0)
    assert waiting.result()
    with pytest.raises(KafkaError) as refused:
        unknown.result()
    assert refused.value.error is Error.UNKNOWN_MEMBER_ID


def test_sessions_do_not_end_while_their_heartbeats_wait(crowd: Crowd) -> None:
    sent = {number: crowd.beat(number) for number in range(200)}
    crowd.broker.clock.sleep(44_500)
    crowd.take(sent)
    crowd.broker.clock.advance(100)
    assert len(crowd.group.members) == 200


def test_topic_changes_during_a_computation_are_not_missed(crowd: Crowd) -> None:
    epoch = crowd.group.epoch
    waiting = crowd.beat(0)
    crowd.broker.grow_topic("t2", 4_400)
    crowd.runtime.post(TopicsChanged(frozenset({"t2"}), ["g"]))
    crowd.take({0: waiting})
    crowd.settle()
    assert crowd.group.epoch > epoch
    sizes = [sum(len(each) for _, each in crowd.assigned[number]) for number in range(200)]
    assert sum(sizes) == 4_400


def test_a_coordinator_that_stops_refuses_waiting_commands(crowd: Crowd) -> None:
    async def ask() -> None:
        beats = [
            asyncio.create_task(
                crowd.runtime.submit(
                    ConsumerHeartbeat(
                        group_id="g", member_id=f"member-{number}", epoch=crowd.epochs[number]
                    )
                )
            )
            for number in range(2)
        ]
        await asyncio.sleep(0)
        crowd.runtime.stop()
        for beat in beats:
            with pytest.raises(KafkaError) as refused:
                await beat
            assert refused.value.error is Error.NOT_COORDINATOR

    asyncio.run(ask())


def test_a_log_that_refuses_a_later_batch_fails_the_command(crowd: Crowd) -> None:
    waiting, next_one = crowd.beat(0), crowd.beat(1)
    log = next(each for each in crowd.broker.logs if each.batches)
    batches = len(log.batches)
    log.refuses = lambda batch: len(log.batches) > batches
    crowd.broker.clock.advance(500)
    assert not waiting.done and len(log.batches) == batches + 1
    crowd.broker.clock.advance(1_000)
    with pytest.raises(KafkaError) as refused:
        waiting.result()
    assert refused.value.error is Error.COORDINATOR_NOT_AVAILABLE
    log.refuses = None
    crowd.broker.clock.advance(2_000)
    assert next_one.done
    crowd.settle()
    assert sum(len(part) for _, part in _pairs(crowd)) == 4_000


def test_a_coordinator_that_stops_between_two_batches_is_followed_by_a_new_assignment(
    crowd: Crowd,
) -> None:
    crowd.beat(0)
    log = next(each for each in crowd.broker.logs if each.batches)
    batches = len(log.batches)
    log.refuses = lambda batch: len(log.batches) > batches
    crowd.broker.clock.advance(500)
    last = [*GroupRecordCodec().decode(log.batches[-1])]
    assert any(isinstance(each, ConsumerTargetRecord) for each in last)
    assert not any(isinstance(each, ConsumerTargetEpochRecord) for each in last)
    log.refuses = None
    for index, each in enumerate(crowd.broker.logs):
        crowd.broker.groups.lead(index, each)
    crowd.broker.clock.advance(0)
    assert crowd.group.state is ConsumerGroupState.ASSIGNING
    crowd.settle()
    assert sum(len(part) for _, part in _pairs(crowd)) == 4_000


def _pairs(crowd: Crowd) -> list[tuple[bytes, Any]]:
    """The owned partitions of all members; no partition has two owners."""
    owned = [
        (topic, partitions) for number in range(200) for topic, partitions in crowd.assigned[number]
    ]
    every = [(topic, partition) for topic, partitions in owned for partition in partitions]
    assert len(every) == len(set(every))
    return owned
