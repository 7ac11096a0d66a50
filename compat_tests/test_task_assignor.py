"""The sticky assignor of streams groups against Kafka's own class, over random histories."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.test_assignors import KafkaAssignors
from tests.repetitions import repetitions
from wirekafka.coordinator.groups.streams.sticky import (
    SubtopologyTasks,
    TaskHolder,
    TaskProblem,
    assign_sticky,
)
from wirekafka.coordinator.groups.streams.tasks import (
    NO_TASKS,
    TaskId,
    Tasks,
    TaskSet,
    flatten,
    grouped,
)
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order

_SOURCE = Path(__file__).with_name("java") / "AssignTasks.java"
_HISTORIES = repetitions("WIREKAFKA_TASK_HISTORIES", usual=40, thorough=150)


@dataclass
class Member:
    process_id: str
    tasks: Tasks = NO_TASKS
    offsets: dict[TaskId, int] = field(default_factory=dict)


class History:
    """An application whose members and topology change at random between assignments."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.replicas = self.random.choice((0, 0, 1, 1, 2, 3))
        largest = self.random.choice((2, 5, 16, 50))
        self.subtopologies = {
            str(number): SubtopologyTasks(
                self.random.randint(1, largest), self.random.random() < 0.6
            )
            for number in sorted(range(self.random.choice((1, 1, 2, 5, 12))), key=str)
        }
        self.processes = self.random.choice((1, 2, 5, 20))
        self.members: dict[str, Member] = {}
        for _ in range(self.random.choice((1, 2, 4, 15, 40))):
            self.join()

    def join(self) -> None:
        process = self.random.randrange(self.processes)
        member = Member(f"process-{process * 7919}")
        self.members[f"member-{self.random.getrandbits(64):x}"] = member
        if self.random.random() < 0.4:
            member.offsets = self.some_offsets()

    def some_offsets(self) -> dict[TaskId, int]:
        return {
            (id, self.random.randrange(tasks.task_count)): self.random.choice((0, 5, 5, 1000))
            for id, tasks in self.subtopologies.items()
            for _ in range(self.random.randint(0, 3))
        }

    def change(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            somebody = self.random.choice(list(self.members))
            match self.random.choice(("join", "leave", "report", "grow", "lag")):
                case "join":
                    self.join()
                case "leave" if len(self.members) > 1:
                    del self.members[somebody]
                case "grow":
                    id = self.random.choice(list(self.subtopologies))
                    count, is_stateful = self.subtopologies[id]
                    self.subtopologies[id] = SubtopologyTasks(count + 1, is_stateful)
                case "lag":
                    # The member still has only some of its tasks.
                    member = self.members[somebody]
                    member.tasks = Tasks(
                        self.part_of(member.tasks.active), self.part_of(member.tasks.standby)
                    )
                case _:
                    self.members[somebody].offsets = self.some_offsets()

    def part_of(self, tasks: TaskSet) -> TaskSet:
        return grouped(task for task in sorted(flatten(tasks)) if self.random.random() < 0.5)

    def problem(self) -> TaskProblem:
        order = strings_in_order(self.members, grown_capacity(len(self.members)))
        return TaskProblem(
            {
                id: TaskHolder(
                    self.members[id].process_id,
                    self.members[id].tasks.active,
                    self.members[id].tasks.standby,
                    self.members[id].offsets,
                )
                for id in order
            },
            self.subtopologies,
            self.replicas,
        )

    def question(self) -> str:
        lines = [f"assign {self.replicas}"]
        lines += [
            f"subtopology {id} {count} {'stateful' if is_stateful else 'stateless'}"
            for id, (count, is_stateful) in self.subtopologies.items()
        ]
        lines += [
            f"member {id} {member.process_id} {_text(member.tasks.active)} "
            f"{_text(member.tasks.standby)} {_offsets_text(member.offsets)}"
            for id, member in self.members.items()
        ]
        return "\n".join([*lines, "end", ""])


def _text(tasks: Mapping[str, frozenset[int]]) -> str:
    return ";".join(f"{id}={'.'.join(map(str, sorted(tasks[id])))}" for id in sorted(tasks)) or "-"


def _offsets_text(offsets: dict[TaskId, int]) -> str:
    by_id: dict[str, list[str]] = {}
    for (id, partition), offset in offsets.items():
        by_id.setdefault(id, []).append(f"{partition}:{offset}")
    return ";".join(f"{id}={'.'.join(tasks)}" for id, tasks in by_id.items()) or "-"


def test_tasks_go_to_the_members_that_kafka_chooses() -> None:
    with KafkaAssignors.running(_SOURCE) as kafka:
        for seed in range(_HISTORIES):
            history = History(seed)
            for step in range(5):
                _compare(history, kafka, f"seed {seed}, step {step}")
                history.change()


def _compare(history: History, kafka: KafkaAssignors, where: str) -> None:
    targets = assign_sticky(history.problem())
    ours = {
        id: f"{_text(targets[id].active)} {_text(targets[id].standby)}" for id in history.members
    }
    assert ours == kafka.assign(history.question()), where
    for id, member in history.members.items():
        member.tasks = targets[id]
