"""The sticky assignor of streams groups: tasks stay where their state is (KIP-1071).

Active tasks go to the member that had them, next to one with a copy of their state, last to the
process with the least load. Standby copies follow the same preferences, in other processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wirekafka.coordinator.groups.streams.java_queue import JavaQueue
from wirekafka.coordinator.groups.streams.tasks import TaskId, Tasks, TaskSet, flatten, grouped
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.coordinator.java_order import HashOrder, grown_capacity, strings_in_order


class SubtopologyTasks(NamedTuple):
    """How many tasks a subtopology has, and whether they have state."""

    task_count: int
    is_stateful: bool


class TaskHolder(NamedTuple):
    """A member as input of the assignor: its process, and the tasks it has.

    `offsets` are the positions of states on its disk, by task, as it reports them.
    """

    process_id: str
    active: TaskSet
    standby: TaskSet
    offsets: Mapping[TaskId, int]


class TaskProblem(NamedTuple):
    """The input of the assignor.

    `members` are in Kafka's iteration order; `subtopologies` are sorted by id.
    """

    members: Mapping[str, TaskHolder]
    subtopologies: Mapping[str, SubtopologyTasks]
    standby_replicas: int


def assign_sticky(problem: TaskProblem) -> dict[str, Tasks]:
    """Return the target of each member."""
    return _Assignment(problem).assign()


class _Process:
    """A process: its members, and the tasks given to them so far."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.active: dict[str, list[TaskId]] = {}
        self.standby: dict[str, list[TaskId]] = {}
        self.tasks: set[TaskId] = set()
        self.load = 0.0
        self._total = 0
        self._idlest: JavaQueue[str] | None = None

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0
        self.load = self._total / len(self.counts)

    def give(self, member_id: str, task: TaskId, role: dict[str, list[TaskId]]) -> int:
        """Give a task to a member; returns how many tasks it has."""
        self._idlest = None
        return self._add(member_id, task, role)

    def give_to_idlest(self, task: TaskId, role: dict[str, list[TaskId]]) -> int:
        """Give a task to the member with the fewest; returns how many it has then."""
        if len(self.counts) == 1:
            (only,) = self.counts
            return self._add(only, task, role)
        if self._idlest is None:
            order = strings_in_order(self.counts, grown_capacity(len(self.counts)))
            self._idlest = JavaQueue(order, self.counts.__getitem__)
        member_id = self._idlest.poll()
        count = self._add(member_id, task, role)
        self._idlest.add(member_id)
        return count

    def _add(self, member_id: str, task: TaskId, role: dict[str, list[TaskId]]) -> int:
        self._total += 1
        self.tasks.add(task)
        role.setdefault(member_id, []).append(task)
        self.counts[member_id] += 1
        self.load = self._total / len(self.counts)
        return self.counts[member_id]


class _Quota:
    """How many tasks a member may have, so that all get about the same number."""

    def __init__(self, tasks: int, members: int):
        self._tasks = tasks
        self._members = members
        self._set()

    def _set(self) -> None:
        self.per_member = -(-self._tasks // self._members) if self._members else 0

    def count(self, tasks_of_member: int) -> None:
        """Note that a member got a task; one with its full share is not counted any more."""
        if tasks_of_member == self.per_member:
            self._members -= 1
            self._tasks -= tasks_of_member
            self._set()


class _Candidate(NamedTuple):
    """A member with the state of a task; `rank` sorts the best first."""

    member_id: str
    rank: tuple[bool, int]


class _Assignment:
    def __init__(self, problem: TaskProblem):
        self._problem = problem
        self._members = problem.members
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[TaskId, str] = {}
        self._candidates: dict[TaskId, list[_Candidate]] = {}
        all_tasks = problem.subtopologies.items()
        active = sum(tasks.task_count for _, tasks in all_tasks)
        stateful = sum(tasks.task_count for _, tasks in all_tasks if tasks.is_stateful)
        self._active_quota = _Quota(active, len(self._members))
        self._quota = _Quota(active + stateful * problem.standby_replicas, len(self._members))
        self._read_members()

    def assign(self) -> dict[str, Tasks]:
        self._assign_active(list(self._tasks(self._problem.subtopologies)))
        if self._problem.standby_replicas > 0:
            stateful = [
                id for id, tasks in self._problem.subtopologies.items() if tasks.is_stateful
            ]
            self._assign_standbys(list(self._tasks(stateful)))
        return {
            member_id: Tasks(
                grouped(self._processes[member.process_id].active.get(member_id, ())),
                grouped(self._processes[member.process_id].standby.get(member_id, ())),
            )
            for member_id, member in self._members.items()
        }

    def _tasks(self, subtopologies: Iterable[str]) -> Iterable[TaskId]:
        for subtopology in subtopologies:
            for partition in range(self._problem.subtopologies[subtopology].task_count):
                yield subtopology, partition

    # Where tasks were

    def _read_members(self) -> None:
        order = HashOrder(java_hash_code, grown_capacity(0, _power_of_two(len(self._members))))
        for member_id, member in self._members.items():
            order.compute(member.process_id)
            self._processes.setdefault(member.process_id, _Process()).add_member(member_id)
            for task in flatten(member.active):
                self._had_active[task] = member_id
            standby = flatten(member.standby)
            for task in standby:
                self._add_candidate(task, member_id, True, member.offsets.get(task, 0))
            for task, offset in member.offsets.items():
                if task not in standby:
                    self._add_candidate(task, member_id, False, offset)
        self._processes = {id: self._processes[id] for id in order.walk()}
        for candidates in self._candidates.values():
            candidates.sort(key=lambda candidate: candidate.rank)

    def _add_candidate(self, task: TaskId, member_id: str, had_standby: bool, offset: int) -> None:
        self._candidates.setdefault(task, []).append(
            _Candidate(member_id, (not had_standby, -offset))
        )

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _has_room(self, member_id: str, quota: _Quota) -> bool:
        return self._process_of(member_id).counts[member_id] < quota.per_member

    def _best_candidate(self, task: TaskId, *, is_standby: bool) -> str | None:
        """Return the first candidate that no later candidate undercuts in both loads."""
        best = None
        least = (0.0, 0)
        for candidate in self._candidates.get(task, ()):
            process = self._process_of(candidate.member_id)
            if is_standby and task in process.tasks:
                continue
            load = (process.load, process.counts[candidate.member_id])
            if best is None or (load[0] < least[0] and load[1] < least[1]):
                best, least = candidate.member_id, load
        return best

    # Active tasks

    def _assign_active(self, tasks: list[TaskId]) -> None:
        tasks.sort(key=_by_partition)
        left = [task for task in tasks if not self._give_active(self._had_active.get(task), task)]
        left = [
            task
            for task in left
            if not self._give_active(self._best_candidate(task, is_standby=False), task)
        ]
        left.sort()
        idlest = JavaQueue(self._processes.values(), _load_of)
        for task in left:
            process = idlest.poll()
            self._count_active(process.give_to_idlest(task, process.active))
            idlest.add(process)

    def _give_active(self, member_id: str | None, task: TaskId) -> bool:
        """Give the task to a member with room; returns whether there was such a member."""
        if member_id is None or not self._has_room(member_id, self._active_quota):
            return False
        process = self._process_of(member_id)
        self._count_active(process.give(member_id, task, process.active))
        return True

    def _count_active(self, tasks_of_member: int) -> None:
        self._active_quota.count(tasks_of_member)
        self._quota.count(tasks_of_member)

    # Standby tasks

    def _assign_standbys(self, tasks: list[TaskId]) -> None:
        tasks.sort(key=_by_partition, reverse=True)
        left: list[tuple[TaskId, int]] = []
        for task in tasks:
            for placed in range(self._problem.standby_replicas):
                if not self._give_standby_back(task):
                    left.append((task, self._problem.standby_replicas - placed))
                    break
        left.sort(key=lambda each: each[0], reverse=True)
        idlest = JavaQueue(self._processes.values(), _load_of)
        for task, count in left:
            for _ in range(count):
                if not self._give_standby_to_idlest(task, idlest):
                    break

    def _give_standby_back(self, task: TaskId) -> bool:
        """Give the copy to a member that has the state; whether there is one."""
        had_active = self._had_active.get(task)
        if (
            had_active is not None
            and task not in self._process_of(had_active).tasks
            and self._give_standby(had_active, task)
        ):
            return True
        return self._give_standby(self._best_candidate(task, is_standby=True), task)

    def _give_standby(self, member_id: str | None, task: TaskId) -> bool:
        if member_id is None or not self._has_room(member_id, self._quota):
            return False
        process = self._process_of(member_id)
        self._quota.count(process.give(member_id, task, process.standby))
        return True

    def _give_standby_to_idlest(self, task: TaskId, idlest: JavaQueue[_Process]) -> bool:
        """Give the copy to the idlest process that does not have the task; whether there is one."""
        polled: list[_Process] = []
        is_given = False
        while idlest and not is_given:
            process = idlest.poll()
            polled.append(process)
            if task not in process.tasks:
                self._quota.count(process.give_to_idlest(task, process.standby))
                is_given = True
        for process in reversed(polled):
            idlest.add(process)
        return is_given


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task[1], task[0]


def _load_of(process: _Process) -> float:
    return process.load


def _power_of_two(least: int) -> int:
    return 1 << (max(least, 1) - 1).bit_length()
