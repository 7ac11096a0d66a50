"""The tasks of streams groups: target tasks of members, and owned tasks (KIP-1071).

A task processes one partition number of a subtopology: actively, as a standby copy of its state,
or to warm up its state before it becomes active there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

TaskId: TypeAlias = tuple[str, int]
"""A subtopology id and a partition number."""
TaskSet: TypeAlias = Mapping[str, frozenset[int]]
"""Partition numbers by subtopology id."""
TaskEpochs: TypeAlias = Mapping[str, Mapping[int, int]]
"""By subtopology id and partition number, the epoch at which the member got the task."""

NO_TASK_SET: TaskSet = MappingProxyType({})
_NO_EPOCHS: TaskEpochs = MappingProxyType({})


class Tasks(NamedTuple):
    """Tasks by role, without epochs: a target, or a member's report."""

    active: TaskSet = NO_TASK_SET
    standby: TaskSet = NO_TASK_SET
    warmup: TaskSet = NO_TASK_SET


class OwnedTasks(NamedTuple):
    """Tasks by role that a member owns or must revoke."""

    active: TaskEpochs = _NO_EPOCHS
    standby: TaskSet = NO_TASK_SET
    warmup: TaskSet = NO_TASK_SET

    def with_epochs_reset(self) -> OwnedTasks:
        """Return the tasks as assigned at epoch 0, as for a static member that is away."""
        return self._replace(
            active={
                subtopology: dict.fromkeys(epochs, 0) for subtopology, epochs in self.active.items()
            }
        )

    def includes(self, reported: Tasks) -> bool:
        """Whether all reported tasks are among these, in the same roles."""
        return (
            _covers({id: epochs.keys() for id, epochs in self.active.items()}, reported.active)
            and _covers(self.standby, reported.standby)
            and _covers(self.warmup, reported.warmup)
        )


NO_TASKS = Tasks()
NOTHING_OWNED = OwnedTasks()


class TaskIdsPart(Protocol):
    """The tasks of one subtopology in a message."""

    subtopology_id: str
    partitions: list[int]


def read_tasks(parts: Iterable[TaskIdsPart]) -> TaskSet:
    """Return the tasks of a message by subtopology."""
    return {part.subtopology_id: frozenset(part.partitions) for part in parts}


def flatten(tasks: Mapping[str, Iterable[int]]) -> set[TaskId]:
    """Return the ids of tasks given by subtopology."""
    return {(subtopology, partition) for subtopology in tasks for partition in tasks[subtopology]}


def grouped(ids: Iterable[TaskId]) -> TaskSet:
    """Return tasks by subtopology; the inverse of `flatten`."""
    tasks: dict[str, set[int]] = {}
    for subtopology, partition in ids:
        tasks.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(tasks[subtopology]) for subtopology in sorted(tasks)}


def flatten_epochs(tasks: TaskEpochs) -> dict[TaskId, int]:
    """Return the epochs by task id."""
    return {
        (subtopology, partition): epoch
        for subtopology, epochs in tasks.items()
        for partition, epoch in epochs.items()
    }


def grouped_epochs(epochs: Mapping[TaskId, int]) -> TaskEpochs:
    """Return epochs by subtopology and partition; the inverse of `flatten_epochs`."""
    tasks: dict[str, dict[int, int]] = {}
    for (subtopology, partition), epoch in sorted(epochs.items()):
        tasks.setdefault(subtopology, {})[partition] = epoch
    return tasks


def in_record_order(tasks: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, list[int]]]:
    """Yield the partitions of each subtopology, both sorted as records store them."""
    for subtopology in sorted(tasks, key=lambda id: id.encode("utf-16-be", "surrogatepass")):
        yield subtopology, sorted(tasks[subtopology])


class TaskOwners:
    """The processes in which the tasks of a group run, in each role.

    Tasks that a member still has to revoke count as running in its process.
    """

    def __init__(self) -> None:
        self._active: dict[TaskId, str] = {}
        self._standby: dict[TaskId, set[str]] = {}
        self._warmup: dict[TaskId, set[str]] = {}

    def active(self, task: TaskId) -> str | None:
        """Return the process of the active task; None if it runs nowhere."""
        return self._active.get(task)

    def has_standby(self, task: TaskId, process_id: str | None) -> bool:
        """Whether the process has a standby copy."""
        return process_id in self._standby.get(task, ())

    def has_warmup(self, task: TaskId, process_id: str | None) -> bool:
        """Whether the process warms the task up."""
        return process_id in self._warmup.get(task, ())

    def add(self, tasks: OwnedTasks, process_id: str) -> None:
        """Note that tasks run in a process."""
        for task in flatten(tasks.active):
            self._active[task] = process_id
        for role, owned in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in flatten(owned):
                role.setdefault(task, set()).add(process_id)

    def remove(self, tasks: OwnedTasks, process_id: str | None) -> None:
        """Note that tasks do not run in a process any more.

        In a compacted log, the record of an active task's next owner may precede this change.
        """
        for task in flatten(tasks.active):
            if self._active.get(task) == process_id:
                self._active.pop(task, None)
        for role, owned in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in flatten(owned):
                processes = role.get(task)
                if processes is None or process_id is None:
                    continue
                processes.discard(process_id)
                if not processes:
                    del role[task]


def _covers(owned: Mapping[str, Iterable[int]], reported: TaskSet) -> bool:
    return all(
        subtopology in owned and partitions <= set(owned[subtopology])
        for subtopology, partitions in reported.items()
    )
