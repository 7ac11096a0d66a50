"""The `uniform` assignor for equal subscriptions: even shares, and as few moves as possible."""

from __future__ import annotations

import random

import pytest

from wirekafka.coordinator.groups.assignment import (
    NO_ASSIGNMENT,
    AssignedMember,
    Assignment,
    AssignmentTask,
    Target,
    read_assignment,
)
from wirekafka.coordinator.groups.consumer.uniform import assign_uniformly
from wirekafka.coordinator.groups.steps import finish

TOPICS = {bytes([number] * 16): count for number, count in ((1, 3), (2, 40), (3, 7))}


def assigned(members: list[str], targets: dict[str, Assignment]) -> dict[str, Assignment]:
    owners: dict[bytes, dict[int, str]] = {}
    for member_id, target in targets.items():
        for topic, partitions in target.items():
            owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    inputs = {
        member_id: AssignedMember(None, list(TOPICS), targets.get(member_id, NO_ASSIGNMENT))
        for member_id in members
    }
    return finish(assign_uniformly(AssignmentTask(inputs, True, TOPICS, owners)))


def places(target: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, each in target.items() for partition in each}


@pytest.mark.parametrize("seed", range(20))
def test_shares_stay_even_and_whoever_can_keeps_its_partitions(seed: int) -> None:
    source = random.Random(seed)
    members: list[str] = []
    targets: dict[str, Assignment] = {}
    total = sum(TOPICS.values())
    for number in range(30):
        if members and source.random() < 0.4:
            targets.pop(members.pop(source.randrange(len(members))), None)
        else:
            members.append(f"member-{number}")
        if not members:
            continue
        before, targets = targets, assigned(members, targets)
        owned = [places(targets[member_id]) for member_id in members]
        assert set().union(*owned) == {(t, p) for t, count in TOPICS.items() for p in range(count)}
        sizes = [len(each) for each in owned]
        assert sum(sizes) == total and max(sizes) - min(sizes) <= 1
        for member_id in members:
            kept = places(before.get(member_id, NO_ASSIGNMENT)) & places(targets[member_id])
            had = len(places(before.get(member_id, NO_ASSIGNMENT)))
            assert len(kept) >= min(had, total // len(members))


def test_a_member_without_a_change_keeps_its_target_object() -> None:
    first = assigned(["a"], {})
    assert assigned(["a"], first)["a"] is first["a"]


@pytest.mark.parametrize("seed", range(20))
def test_partitions_removed_together_leave_the_order_of_removing_each(seed: int) -> None:
    source = random.Random(seed)
    [topic, other, *_] = TOPICS
    stored = [(each, source.sample(range(500), source.randint(1, 100))) for each in (topic, other)]
    before = read_assignment(stored)
    kept = source.randrange(len(before[topic]))
    together, each = Target(before), Target(before)
    together.keep(topic, kept)
    for partition in before[topic][kept:]:
        each.remove(topic, partition)
    assert list(together.result().items()) == list(each.result().items())
    for target in (together, each):
        target.add(topic, 1_000)
    assert list(together.result().items()) == list(each.result().items())
    assert before == read_assignment(stored), "the old target is not changed"
