"""A refused append fails its command, and changes nothing else in the group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.coordinator.machine_backend import MachineBackend
from wirekafka.coordinator.groups.classic.group import ClassicGroup
from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    DeleteGroups,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Leaver,
    OffsetToCommit,
    Sync,
    Synced,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket

SESSION_MS = 10_000


class Member:
    """A member of the group `g`, which sends requests and reads the responses later."""

    def __init__(self, backend: MachineBackend, name: str, instance: str | None = None):
        self.backend, self.name, self.instance = backend, name, instance
        self.member_id, self.generation_id = "", -1
        self.ticket: Ticket

    def post(self, command: Any) -> Ticket:
        return self.backend.runtime.post(command)

    def join(self) -> Ticket:
        self.ticket = self.post(
            Join(
                group_id="g",
                member_id=self.member_id,
                instance_id=self.instance,
                client_id=self.name,
                protocol_type="consumer",
                protocols=(AssignorChoice("range", b"\0\0\0\0\0\0\xff\xff\xff\xff"),),
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=20_000,
                fresh_id=str(self.backend.clock.now_ms()),
                can_skip_assignment=True,
            )
        )
        return self.ticket

    def joined(self) -> Joined:
        joined: Joined = self.ticket.result()
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        return joined

    def sync(self, *others: Member) -> Ticket:
        self.ticket = self.post(
            Sync(
                group_id="g",
                generation_id=self.generation_id,
                member_id=self.member_id,
                instance_id=self.instance,
                assignments={each.member_id: each.name.encode() for each in others},
            )
        )
        return self.ticket

    def heartbeat(self) -> Error:
        return outcome(self.post(Heartbeat("g", self.generation_id, self.member_id, self.instance)))

    def leave(self) -> Ticket:
        return self.post(Leave("g", [Leaver(self.member_id, self.instance)]))


def outcome(ticket: Ticket) -> Any:
    assert ticket.done
    try:
        return ticket.result() or Error.NONE
    except KafkaError as error:
        return error.error


@pytest.fixture
def backend() -> Iterator[MachineBackend]:
    backend = MachineBackend()
    settle(backend)
    machine, backend.log.reads = backend.runtime.machine, 0
    yield backend
    assert backend.runtime.machine is machine and backend.log.reads == 0, "it was rebuilt"


@contextmanager
def refusing(backend: MachineBackend) -> Iterator[None]:
    """The log refuses appends within the block; afterwards every group must be unchanged."""
    before = picture(backend)
    backend.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    yield
    backend.log.failure = None
    assert picture(backend) == before


def picture(backend: MachineBackend) -> Any:
    """The complete state of the groups and their timers."""
    groups = {}
    for group_id, group in backend.shard.groups.items():
        assert isinstance(group, ClassicGroup)
        fields = dict(vars(group))
        groups[group_id] = {
            name: value.copy() if isinstance(value, dict | set) else value
            for name, value in fields.items()
        }
    offsets = list(backend.shard.offsets.snapshot())
    return groups, dict(backend.shard.timers._due), offsets


def commit(backend: MachineBackend, group_id: str = "other") -> Error:
    return outcome(
        backend.runtime.post(CommitOffsets(group_id, -1, "", [OffsetToCommit("t", 0, 5)]))
    )


def settle(backend: MachineBackend) -> None:
    backend.clock.advance(1)


def stable(backend: MachineBackend, member: Member) -> None:
    """Make the member the only one of a stable group."""
    member.join()
    settle(backend)
    member.joined()
    assert member.sync(member).done


def members(backend: MachineBackend, *names: str, instance: str | None = None) -> list[Member]:
    return [Member(backend, name, instance) for name in names]


def test_a_refused_commit_keeps_another_members_join_waiting(backend: MachineBackend) -> None:
    first, second = members(backend, "a", "b")
    stable(backend, first)
    joining = second.join()
    with refusing(backend):
        assert commit(backend) is Error.NOT_ENOUGH_REPLICAS
    assert not joining.done
    first.join()
    assert first.joined().generation_id == second.joined().generation_id == 2


def test_a_refused_assignment_leaves_the_others_waiting_and_can_be_sent_again(
    backend: MachineBackend,
) -> None:
    first, second = members(backend, "a", "b")
    first.join()
    second.join()
    settle(backend)
    leader, other = (first, second) if first.joined().members else (second, first)
    other.joined()
    waiting = other.sync()
    with refusing(backend):
        assert outcome(leader.sync(first, second)) is Error.NOT_ENOUGH_REPLICAS
    assert backend.shard.groups["g"].state.value == "CompletingRebalance"
    assert not waiting.done
    assert leader.sync(first, second).result() == Synced("consumer", "range", leader.name.encode())
    assert waiting.result().assignment == other.name.encode()


def test_a_refused_replacement_of_a_static_member_leaves_the_old_one(
    backend: MachineBackend,
) -> None:
    (old,) = members(backend, "a", instance="i")
    stable(backend, old)
    (new,) = members(backend, "b", instance="i")
    with refusing(backend):
        assert outcome(new.join()) is Error.NOT_ENOUGH_REPLICAS
    assert old.heartbeat() is Error.NONE
    new.join()
    assert new.joined().generation_id == 1
    assert old.heartbeat() is Error.FENCED_INSTANCE_ID


def test_a_refused_first_join_creates_no_group(backend: MachineBackend) -> None:
    (member,) = members(backend, "a")
    with refusing(backend):
        assert outcome(member.join()) is Error.NOT_ENOUGH_REPLICAS
    assert backend.shard.groups == {}
    stable(backend, member)


def test_a_refused_leave_keeps_the_member(backend: MachineBackend) -> None:
    (member,) = members(backend, "a")
    stable(backend, member)
    with refusing(backend):
        assert outcome(member.leave()) is Error.NOT_ENOUGH_REPLICAS
    assert member.heartbeat() is Error.NONE
    assert member.leave().result() == [Error.NONE]
    assert backend.shard.groups["g"].is_empty


def test_a_refused_deletion_keeps_the_group_and_its_offsets(backend: MachineBackend) -> None:
    assert commit(backend) == [Error.NONE]
    with refusing(backend):
        assert outcome(backend.runtime.post(DeleteGroups(["other"]))) is Error.NOT_ENOUGH_REPLICAS
    assert backend.runtime.post(DeleteGroups(["other"])).result() == [Error.NONE]
    assert backend.shard.groups == {}


def test_a_member_whose_removal_is_refused_stays_for_another_second(
    backend: MachineBackend,
) -> None:
    (member,) = members(backend, "a")
    stable(backend, member)
    backend.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    backend.clock.advance(SESSION_MS)
    assert not backend.shard.groups["g"].is_empty
    backend.log.failure = None
    backend.clock.advance(999)
    assert not backend.shard.groups["g"].is_empty
    backend.clock.advance(1)
    assert backend.shard.groups["g"].is_empty


def test_a_member_whose_removal_is_refused_may_send_heartbeats_again(
    backend: MachineBackend,
) -> None:
    (member,) = members(backend, "a")
    stable(backend, member)
    backend.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    backend.clock.advance(SESSION_MS)
    backend.log.failure = None
    assert member.heartbeat() is Error.NONE
    backend.clock.advance(SESSION_MS - 1)
    assert not backend.shard.groups["g"].is_empty


def test_offsets_whose_expiry_is_refused_expire_a_second_later() -> None:
    backend = MachineBackend(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=60_000)
    commit(backend)
    backend.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    backend.clock.advance(60_000)
    backend.log.failure = None
    assert list(backend.shard.offsets.snapshot())
    backend.clock.advance(1_000)
    assert not list(backend.shard.offsets.snapshot()) and backend.shard.groups == {}
