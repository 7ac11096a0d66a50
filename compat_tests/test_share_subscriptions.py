"""The order of a share group's subscribed topics against Kafka's own class."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from compat_tests.test_assignors import KafkaAssignors
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.subscriptions import ShareSubscriptions

_SOURCE = Path(__file__).with_name("java") / "ShareSubscriptions.java"
_CHANGES = 60


class Group:
    """Members that subscribe to other topics, or leave, at random."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.topics = [
            f"{self.random.choice('abc')}{self.random.randrange(1000)}"
            for _ in range(self.random.choice((2, 4, 12, 40)))
        ]
        self.members: dict[str, ShareMember] = {}
        self.subscriptions = ShareSubscriptions()

    def change(self, kafka: KafkaAssignors) -> None:
        """Have a member subscribe or leave, here and there."""
        id = self.random.choice("xyz")
        if id in self.members and self.random.random() < 0.3:
            self.subscriptions.change(self.members.pop(id), None)
            assert kafka.assign(f"leave {id}\n") == {"then": self.then()}
            return
        count = self.random.randint(1, len(self.topics))
        listed = self.random.choices(self.topics, k=count)
        old = self.members.get(id, ShareMember(member_id=id))
        updated = _member(id, listed)
        following = ",".join(self.subscriptions.after(old, updated))
        stored = self.members[id] = _member(id, updated.sorted_topics())
        self.subscriptions.change(old, stored)
        assert kafka.assign(f"subscribe {id} {','.join(listed)}\n") == {
            "next": following,
            "then": self.then(),
        }

    def then(self) -> str:
        return ",".join(self.subscriptions.names())


def _member(id: str, listed: Sequence[str]) -> ShareMember:
    return ShareMember(member_id=id, topics=frozenset(listed), listed_topics=listed)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignors]:
    with KafkaAssignors.running(_SOURCE) as kafka:
        yield kafka


@pytest.mark.parametrize("seed", range(100))
def test_topics_are_in_the_order_of_kafka(kafka: KafkaAssignors, seed: int) -> None:
    kafka.send("group\n")
    group = Group(seed)
    for _ in range(_CHANGES):
        group.change(kafka)
