"""The server-side assignors against Kafka's own classes, over random histories of groups."""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compat_tests.java_lines import JavaLines
from wirekafka.coordinator.groups.assignment import (
    AssignedMember,
    Assignment,
    AssignmentTask,
    read_assignment,
)
from wirekafka.coordinator.groups.consumer.range import assign_ranges
from wirekafka.coordinator.groups.consumer.uniform import assign_uniformly
from wirekafka.coordinator.groups.share.assignor import ShareTask, SharingMember, assign_simply
from wirekafka.coordinator.groups.steps import finish
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order

_SOURCE = Path(__file__).with_name("java") / "Assign.java"
_ASSIGNORS = {"uniform": assign_uniformly, "range": assign_ranges}


class KafkaAssignors(JavaLines):
    """Kafka's assignors in a JVM that computes one group after the other."""

    def assign(self, text: str) -> dict[str, str]:
        """The words of the answer to this text, by the first of each line."""
        self.send(text)
        assigned = {}
        while (line := self.next_line().strip()) != "end":
            member_id, _, target = line.partition(" ")
            assigned[member_id] = target
        return assigned


@dataclass
class Member:
    instance_id: str | None
    topics: list[bytes]
    target: Assignment = field(default_factory=dict)


class History:
    """A group whose members, subscriptions and topics change at random between assignments."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.assignor = self.random.choice(sorted(_ASSIGNORS))
        self.is_alike = self.random.random() < 0.5
        self.largest = self.random.choice((3, 12, 80))
        self.topics = {
            self.random.randbytes(16): self.partitions()
            for _ in range(self.random.choice((1, 2, 5, 20)))
        }
        self.members: dict[str, Member] = {}
        for _ in range(self.random.choice((1, 2, 4, 15, 60))):
            self.join()

    def partitions(self) -> int:
        return self.random.randint(1, self.largest)

    def subscription(self) -> list[bytes]:
        if self.is_alike:
            return list(self.topics)
        return self.random.sample(list(self.topics), self.random.randint(0, len(self.topics)))

    def join(self) -> None:
        member_id = base64.urlsafe_b64encode(self.random.randbytes(16)).decode().rstrip("=")
        instance_id = self.random.choice((None, None, f"instance-{len(self.members)}"))
        self.members[member_id] = Member(instance_id, self.subscription())

    def change(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            match self.random.choice(("join", "leave", "subscribe", "grow", "create")):
                case "join":
                    self.join()
                case "leave" if len(self.members) > 1:
                    del self.members[self.random.choice(list(self.members))]
                case "subscribe":
                    self.random.choice(list(self.members.values())).topics = self.subscription()
                case "grow":
                    self.topics[self.random.choice(list(self.topics))] += self.random.randint(0, 9)
                case _:
                    self.topics[self.random.randbytes(16)] = self.partitions()
        if self.is_alike:
            for member in self.members.values():
                member.topics = list(self.topics)

    def task(self) -> AssignmentTask:
        assigned: dict[bytes, set[int]] = {}
        for member in self.members.values():
            for topic, partitions in member.target.items():
                assigned.setdefault(topic, set()).update(partitions)
        order = strings_in_order(self.members, grown_capacity(len(self.members)))
        return AssignmentTask(
            {
                member_id: AssignedMember(
                    self.members[member_id].instance_id,
                    self.members[member_id].topics,
                    self.members[member_id].target,
                )
                for member_id in order
            },
            self.is_alike,
            self.topics,
            assigned,
        )

    def question(self) -> str:
        kind = "HOMOGENEOUS" if self.is_alike else "HETEROGENEOUS"
        lines = [f"assign {self.assignor} {kind}"]
        lines += [f"topic {_text(topic)} {count}" for topic, count in self.topics.items()]
        for member_id, member in self.members.items():
            subscribed = ",".join(map(_text, member.topics)) or "-"
            lines.append(
                f"member {member_id} {member.instance_id or '-'} {subscribed} "
                f"{_described(member.target)}"
            )
        return "\n".join([*lines, "end", ""])

    def take(self, targets: dict[str, Assignment]) -> None:
        for member_id, member in self.members.items():
            member.target = read_assignment(
                (topic, list(partitions))
                for topic, partitions in targets.get(member_id, {}).items()
            )


class ShareHistory(History):
    """A share group, in which more and more partitions may be assigned."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.assignor = "simple"
        self.assignable: dict[bytes, set[int]] = {}
        self.initialize()

    def change(self) -> None:
        super().change()
        self.initialize()

    def initialize(self) -> None:
        for topic, count in self.topics.items():
            known = self.assignable.setdefault(topic, set())
            if self.random.random() < 0.6:
                known.update(self.random.sample(range(count), self.random.randint(0, count)))

    def share_task(self) -> ShareTask:
        task = self.task()
        return ShareTask(
            {
                member_id: SharingMember(
                    list(member.topic_ids), member.target, bool(member.topic_ids)
                )
                for member_id, member in task.members.items()
            },
            task.is_homogeneous,
            task.partition_counts,
            self.assignable,
        )

    def question(self) -> str:
        lines = [
            f"assignable {_text(topic)}={'.'.join(map(str, sorted(partitions)))}"
            for topic, partitions in self.assignable.items()
        ]
        return "\n".join([*lines, super().question()])


def _text(topic: bytes) -> str:
    return base64.urlsafe_b64encode(topic).decode().rstrip("=")


def _described(target: Assignment) -> str:
    return (
        ";".join(
            f"{_text(topic)}={'.'.join(map(str, partitions))}"
            for topic, partitions in target.items()
        )
        or "-"
    )


@pytest.mark.parametrize("seeds", [range(120)], ids=["seeds"])
def test_assignments_equal_kafkas_including_the_order_of_partitions(seeds: range) -> None:
    with KafkaAssignors.running(_SOURCE) as kafka:
        for seed in seeds:
            history = History(seed)
            for step in range(5):
                ours = finish(_ASSIGNORS[history.assignor](history.task()))
                assigned = {
                    member_id: _described(ours.get(member_id, {})) for member_id in history.members
                }
                assert assigned == kafka.assign(history.question()), (seed, step)
                history.take(ours)
                history.change()


@pytest.mark.parametrize("seeds", [range(120)], ids=["seeds"])
def test_share_assignments_equal_kafkas_including_the_order_of_partitions(seeds: range) -> None:
    with KafkaAssignors.running(_SOURCE) as kafka:
        for seed in seeds:
            history = ShareHistory(seed)
            for step in range(6):
                ours = assign_simply(history.share_task())
                assigned = {
                    member_id: _described(ours.get(member_id, {})) for member_id in history.members
                }
                assert assigned == kafka.assign(history.question()), (seed, step)
                history.take(ours)
                history.change()
