"""Moves a member of a streams group step by step to its target (KIP-1071).

A member first revokes the tasks that it loses, and only then enters the target's epoch. It gets an
active task once no process runs it, and a copy once no other member of its process has it. A task
that changes its role within a member need not be revoked first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, assert_never

from wirekafka.coordinator.groups.streams.member import StreamsMember, TaskState
from wirekafka.coordinator.groups.streams.tasks import (
    NOTHING_OWNED,
    OwnedTasks,
    TaskId,
    TaskOwners,
    Tasks,
    flatten,
    flatten_epochs,
    grouped,
    grouped_epochs,
)
from wirekafka.errors import Error, KafkaError


class TaskAim(NamedTuple):
    """The target to reconcile a member with; `owners` are the processes of the group's tasks."""

    epoch: int
    target: Tasks
    owners: TaskOwners


def reconcile(member: StreamsMember, aim: TaskAim, reported: Tasks | None) -> StreamsMember:
    """Return the member's next state; the same object if there is nothing to do.

    `reported` are the tasks that the member owns, None if the request has none. Raises
    FENCED_MEMBER_EPOCH for a member whose stored state is unknown.
    """
    match member.state:
        case TaskState.STABLE:
            return member if member.epoch == aim.epoch else _Step(member, aim).next(reported)
        case TaskState.UNREVOKED_TASKS:
            if _holds_any(reported, member.revoking):
                return member
            return _Step(member, aim).next(reported, member.epoch + 1)
        case TaskState.UNRELEASED_TASKS:
            return _Step(member, aim).next(reported)
        case TaskState.UNKNOWN:
            if reported is None or any(reported):
                raise KafkaError(
                    Error.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. "
                    "The member must abandon all its tasks and rejoin.",
                )
            return _Step(member, aim).next(reported, aim.epoch)
        case _:
            assert_never(member.state)


def _holds_any(reported: Tasks | None, tasks: OwnedTasks) -> bool:
    """Whether the member owns one of these; it does unless it reports otherwise."""
    if reported is None:
        return True
    return any(
        not flatten(mine).isdisjoint(flatten(theirs))
        for mine, theirs in zip(reported, tasks, strict=True)
    )


class _Role:
    """The tasks of one role that the member keeps, loses and gets.

    `withheld` are not free yet.
    """

    def __init__(self, current: set[TaskId], target: set[TaskId]):
        self.current = current
        self.kept = current & target
        self.lost = current - target
        self.gained = target - current
        self.withheld: set[TaskId] = set()

    def withhold(self, tasks: set[TaskId]) -> None:
        """Leave out tasks that are not free."""
        self.withheld = tasks
        self.gained -= tasks

    def keep_at_once(self, task: TaskId) -> bool:
        """Move a gained task to the kept tasks; returns whether it was gained."""
        if task not in self.gained:
            return False
        self.gained.remove(task)
        self.kept.add(task)
        return True


class _Step:
    """The difference between a member's tasks and its target."""

    def __init__(self, member: StreamsMember, aim: TaskAim):
        self._member = member
        self._aim = aim
        self._owners = aim.owners
        self._epochs = flatten_epochs(member.assigned.active)
        self._target = flatten(aim.target.active)
        self._active = _Role(set(self._epochs), self._target)
        self._standby = _Role(flatten(member.assigned.standby), flatten(aim.target.standby))
        self._warmup = _Role(flatten(member.assigned.warmup), flatten(aim.target.warmup))
        self._withhold()
        self._change_roles()

    def next(self, reported: Tasks | None, epoch: int | None = None) -> StreamsMember:
        """Return the next state; `epoch` is the member's while it must revoke tasks."""
        active, standby, warmup = self._active, self._standby, self._warmup
        lost = _owned({task: self._epochs[task] for task in active.lost}, standby.lost, warmup.lost)
        must_revoke = any(lost) and _holds_any(reported, lost)
        self._keep_until_promoted(must_revoke)
        kept = {task: self._epochs[task] for task in active.kept}
        if must_revoke:
            return replace(
                self._member,
                state=TaskState.UNREVOKED_TASKS,
                epoch=self._member.epoch if epoch is None else epoch,
                previous_epoch=self._member.epoch,
                assigned=_owned(kept, standby.kept, warmup.kept),
                revoking=lost,
            )
        return replace(
            self._member,
            state=(
                TaskState.UNRELEASED_TASKS
                if active.withheld or standby.withheld or warmup.withheld
                else TaskState.STABLE
            ),
            epoch=self._aim.epoch,
            previous_epoch=self._member.epoch,
            assigned=_owned(
                kept | dict.fromkeys(active.gained, self._aim.epoch),
                standby.kept | standby.gained,
                warmup.kept | warmup.gained,
            ),
            revoking=NOTHING_OWNED,
        )

    # Tasks that are not free

    def _withhold(self) -> None:
        owners, process_id = self._owners, self._member.process_id
        self._active.withhold(
            {
                task
                for task in self._active.gained
                if owners.active(task) is not None
                or self._is_standby_elsewhere(task)
                or self._is_warmup_elsewhere(task)
            }
        )
        self._standby.withhold(
            {
                task
                for task in self._standby.gained
                if (self._runs_here(task) and task not in self._active.current)
                or owners.has_standby(task, process_id)
                or self._is_warmup_elsewhere(task)
            }
        )
        self._warmup.withhold(
            {
                task
                for task in self._warmup.gained
                if self._runs_here(task)
                or self._is_standby_elsewhere(task)
                or owners.has_warmup(task, process_id)
            }
        )

    def _runs_here(self, task: TaskId) -> bool:
        return self._owners.active(task) == self._member.process_id

    def _is_standby_elsewhere(self, task: TaskId) -> bool:
        """Whether another member of the same process has the standby copy."""
        return task not in self._standby.current and self._owners.has_standby(
            task, self._member.process_id
        )

    def _is_warmup_elsewhere(self, task: TaskId) -> bool:
        """Whether another member of the same process warms the task up."""
        return task not in self._warmup.current and self._owners.has_warmup(
            task, self._member.process_id
        )

    # Tasks that change roles

    def _change_roles(self) -> None:
        active, standby, warmup = self._active, self._standby, self._warmup
        for task in active.current:
            standby.keep_at_once(task)
        for task in standby.current:
            if warmup.keep_at_once(task):
                standby.lost.discard(task)
        for task in warmup.current:
            if standby.keep_at_once(task):
                warmup.lost.discard(task)
        for copies in (standby, warmup):
            copies.lost -= copies.current & self._target

    def _keep_until_promoted(self, must_revoke: bool) -> None:
        """Keep the copy of a task that is to become active until it does."""
        for copies in (self._standby, self._warmup):
            for task in copies.current & self._target:
                if must_revoke or task not in self._active.gained:
                    copies.kept.add(task)


def _owned(active: Mapping[TaskId, int], standby: set[TaskId], warmup: set[TaskId]) -> OwnedTasks:
    return OwnedTasks(grouped_epochs(active), grouped(standby), grouped(warmup))
