"""Random commands to a shard: its log rebuilds it, and offsets change only by commands."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordinator.machine_backend import MachineBackend
from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteOffsets,
    ForgetPartitions,
    Heartbeat,
    Join,
    Joined,
    JoinRefused,
    Leave,
    Leaver,
    OffsetToCommit,
    Sync,
    Synced,
)
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Producer

GROUPS = ("g", "h")
TOPICS = ("t", "u")

group_ids = st.sampled_from(GROUPS)
places = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1))
actors = st.integers(0, 3)

steps = st.one_of(
    st.tuples(
        st.just("join"),
        group_ids,
        actors,
        st.sampled_from([None, "i", "j"]),
        st.sampled_from([("range",), ("range", "rr"), ("rr",)]),
    ),
    st.tuples(st.just("sync"), group_ids, actors),
    st.tuples(st.just("heartbeat"), group_ids, actors),
    st.tuples(st.just("leave"), group_ids, actors),
    st.tuples(
        st.just("commit"), group_ids, st.one_of(st.none(), actors), places, st.integers(0, 1000)
    ),
    st.tuples(
        st.just("commit_pending"), group_ids, st.integers(0, 1), places, st.integers(0, 1000)
    ),
    st.tuples(st.just("end"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("delete"), group_ids),
    st.tuples(st.just("delete_offset"), group_ids, places),
    st.tuples(st.just("forget"), places),
    st.tuples(st.just("time"), st.sampled_from([1, 50, 3_000, 7_000, 30_000, 90_000])),
    st.tuples(st.just("restart")),
)


class World:
    """A shard, actors with the responses that they got, and a model of the expected offsets."""

    def __init__(self) -> None:
        self.backend = MachineBackend(
            max_size=3, initial_rebalance_delay_ms=50, offsets_retention_ms=10**12
        )
        self.returned: dict[tuple[str, int], tuple[str, int, str | None]] = {}
        self.tickets: list[tuple[str, int, str | None, Any]] = []
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.pending: dict[int, dict[tuple[str, str, int], tuple[int, int]]] = {}
        self.counts_from: dict[tuple[str, str, int], int] = {}
        self.has_markers = False
        self.fresh = 0

    def post(self, command: Any) -> Any:
        ticket = self.backend.runtime.post(command)
        self.backend.pass_time(1)
        return ticket

    def listen(self) -> None:
        waiting = []
        for group_id, actor, instance, ticket in self.tickets:
            if not ticket.done:
                waiting.append((group_id, actor, instance, ticket))
                continue
            match result(ticket):
                case Joined(member_id, generation_id):
                    self.returned[group_id, actor] = (member_id, generation_id, instance)
                case JoinRefused(error=Error.MEMBER_ID_REQUIRED, member_id=member_id):
                    self.returned[group_id, actor] = (member_id, -1, None)
                case JoinRefused():
                    self.returned.pop((group_id, actor), None)
        self.tickets = waiting

    def step(self, verb: str, *details: Any) -> None:
        getattr(self, verb)(*details)
        self.listen()
        self.check()

    def join(self, group_id: str, actor: int, instance: str | None, names: Any) -> None:
        member_id, _, was = self.returned.get((group_id, actor), ("", -1, None))
        instance = was if member_id else instance
        self.fresh += 1
        ticket = self.post(
            Join(
                group_id=group_id,
                member_id=member_id,
                instance_id=instance,
                client_id=f"c{actor}",
                protocol_type="consumer",
                protocols=tuple(
                    AssignorChoice(name, b"\0\0\0\0\0\0\xff\xff\xff\xff") for name in names
                ),
                session_timeout_ms=6_000,
                rebalance_timeout_ms=20_000,
                fresh_id=str(self.fresh),
                needs_known_member_id=not member_id and instance is None and self.fresh % 2 == 0,
                can_skip_assignment=True,
            )
        )
        self.tickets.append((group_id, actor, instance, ticket))

    def sync(self, group_id: str, actor: int) -> None:
        member_id, generation_id, instance = self.returned.get((group_id, actor), ("x", 0, None))
        others = {
            other: b"part"
            for (returned_group, _), (other, _, _) in self.returned.items()
            if returned_group == group_id
        }
        ticket = self.post(
            Sync(
                group_id=group_id,
                generation_id=generation_id,
                member_id=member_id,
                instance_id=instance,
                assignments=others,
            )
        )
        if ticket.done and isinstance(result(ticket), Synced):
            assert result(ticket).assignment in (b"part", b"")

    def heartbeat(self, group_id: str, actor: int) -> None:
        member_id, generation_id, instance = self.returned.get((group_id, actor), ("x", 0, None))
        assert self.post(Heartbeat(group_id, generation_id, member_id, instance)).done

    def leave(self, group_id: str, actor: int) -> None:
        member_id, _, instance = self.returned.pop((group_id, actor), ("x", 0, None))
        assert self.post(Leave(group_id, [Leaver(member_id, instance)])).done

    def commit(self, group_id: str, actor: int | None, place: Any, offset: int) -> None:
        member_id, generation_id, instance = self.returned.get((group_id, actor), ("", -1, None))
        ticket = self.post(
            CommitOffsets(
                group_id,
                generation_id,
                member_id,
                [OffsetToCommit(place[0], place[1], offset)],
                instance,
            )
        )
        if result(ticket) == [Error.NONE]:
            self.offsets[(group_id, *place)] = offset
            self.counts_from[(group_id, *place)] = self.fresh

    def commit_pending(self, group_id: str, producer: int, place: Any, offset: int) -> None:
        ticket = self.post(
            CommitTransactionOffsets(
                group_id,
                -1,
                "",
                [OffsetToCommit(place[0], place[1], offset)],
                producer_id=producer,
                producer_epoch=0,
            )
        )
        if result(ticket) == [Error.NONE]:
            self.fresh += 1
            self.pending.setdefault(producer, {})[(group_id, *place)] = (offset, self.fresh)

    def end(self, producer: int, committed: bool) -> None:
        self.backend.runtime.replay_end_marker(Producer(producer, 0), committed)
        self.has_markers = True
        for key, (offset, written) in self.pending.pop(producer, {}).items():
            if committed and written > self.counts_from.get(key, 0):
                self.offsets[key] = offset
                self.counts_from[key] = written

    def delete(self, group_id: str) -> None:
        if result(self.post(DeleteGroups([group_id]))) == [Error.NONE]:
            for model in self.models():
                for key in [key for key in model if key[0] == group_id]:
                    del model[key]

    def delete_offset(self, group_id: str, place: Any) -> None:
        if result(self.post(DeleteOffsets(group_id, [place]))) == [Error.NONE]:
            for model in self.models():
                model.pop((group_id, *place), None)

    def models(self) -> list[dict[tuple[str, str, int], Any]]:
        return [self.offsets, *self.pending.values()]

    def forget(self, place: Any) -> None:
        topic, partition = place
        self.post(ForgetPartitions({topic: frozenset([partition])}, GROUPS))
        for group_id in GROUPS:
            for model in self.models():
                model.pop((group_id, *place), None)

    def time(self, ms: int) -> None:
        self.backend.pass_time(ms)

    def restart(self) -> None:
        before = hard_state(self.backend.shard)
        if self.pending or self.has_markers:
            return  # end markers are not in this log
        self.backend.restart()
        self.tickets.clear()
        # Loading restarts sessions and changes nothing else.
        assert Counter(before) >= Counter(
            [each for each in hard_state(self.backend.shard) if each[0] == "offset"]
        )

    def check(self) -> None:
        shard = self.backend.shard
        found = {
            (r.group_id, r.topic, r.partition): r.committed.offset
            for r in shard.offsets.snapshot()
            if r.committed
        }
        assert found == self.offsets
        for group in shard.groups.values():
            assert len(group.members) <= 3 or group.state.value == "PreparingRebalance"
            assert group.awaiting_joins == sum(
                member.join_ticket is not None for member in group.members.values()
            )
            assert (group.leader_id in group.members) == bool(group.members)
            assert set(group.static_member_ids.values()) == {
                member.member_id for member in group.members.values() if member.instance_id
            }
            for member_id, member in group.members.items():
                assert member.member_id == member_id
        if not self.has_markers:
            assert hard_state(replayed(self.backend)) == hard_state(shard)


def result(ticket: Any) -> Any:
    assert ticket.done
    try:
        return ticket.result()
    except KafkaError as error:
        return error


def replayed(backend: MachineBackend) -> GroupShard:
    fresh = MachineBackend()
    fresh.log = backend.log
    fresh.config = GroupConfig()
    shard = fresh._load().machine
    assert isinstance(shard, GroupShard)
    return shard


def hard_state(shard: GroupShard) -> list[tuple[Any, ...]]:
    codec = GroupRecordCodec()
    packed = [codec.pack(record) for record in shard.snapshot()]
    return sorted(("offset" if key[1] == 1 else "group", key, value) for key, value in packed)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=60))
def test_the_log_rebuilds_the_shard_and_offsets_never_move_by_themselves(
    script: list[tuple[Any, ...]],
) -> None:
    world = World()
    for step in script:
        world.step(*step)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=60))
def test_a_snapshot_rebuilds_the_shard(script: list[tuple[Any, ...]]) -> None:
    world = World()
    for step in script:
        world.step(*step)
    fresh = GroupShard(GroupConfig())
    for record in world.backend.shard.snapshot():
        fresh.replay(record)
    assert hard_state(fresh) == hard_state(world.backend.shard)
