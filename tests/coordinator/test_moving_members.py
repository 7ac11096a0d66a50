"""Members on their way to new targets: their state is the same as after a replay of the log."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.coordinator.consumer_story import Story
from tests.coordinator.group_machines import GroupMachines
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.times import GroupTimes

_STEPS = 150


def ordered(group: ConsumerGroup) -> Any:
    """All state of members and targets, with the order of partitions."""
    return (
        group.epoch,
        group.assignment_epoch,
        {
            member_id: (
                member,
                [(topic, list(each.items())) for topic, each in member.assigned.items()],
                [(topic, list(each.items())) for topic, each in member.revoking.items()],
            )
            for member_id, member in group.members.items()
        },
        {member_id: list(target.items()) for member_id, target in group.targets.items()},
        {topic: dict(group.owner_epochs(topic)) for topic in group.target_owners},
        group.state,
    )


@pytest.mark.long
@pytest.mark.parametrize("topics", (["many"], ["many", "few"]), ids=("a topic", "two topics"))
@pytest.mark.parametrize("seed", range(3))
def test_members_that_move_are_as_after_a_restart(seed: int, topics: list[str]) -> None:
    chance = random.Random(seed)
    broker = GroupMachines().ready()
    broker.consumer_options = GroupTimes(assignment_interval_ms=0)
    broker.add_topic("many", 300)
    broker.add_topic("few", 40)
    story = Story(broker)
    members: list[str] = []
    for number in range(_STEPS):
        if len(members) < 2 or chance.random() < 0.15:
            members.append(f"member-{number}")
            story.join(members[-1], topics)
        elif chance.random() < 0.1:
            story.ask(members.pop(chance.randrange(len(members))), -1)
        elif chance.random() < 0.3:
            story.beat(chance.choice(members))
        else:
            story.acknowledge(chance.choice(members))
        if not number % 5:
            before = ordered(story.group())
            story.restart()
            assert ordered(story.group()) == before
    for _ in range(4):
        for member in members:
            story.acknowledge(member)
    assert story.state() == "Stable"
    before = ordered(story.group())
    story.restart()
    assert ordered(story.group()) == before


def test_a_member_keeps_its_partitions_in_the_epoch_after_another_has_left() -> None:
    broker = GroupMachines().ready()
    broker.consumer_options = GroupTimes(assignment_interval_ms=0)
    story = Story(broker)
    for member in ("a", "b", "c", "d"):
        story.join(member, ["t"])
    for _ in range(3):
        for member in ("a", "b", "c", "d"):
            story.acknowledge(member)
    [idle] = [member for member, each in story.assigned.items() if not each]
    story.ask(idle, -1)
    others = [member for member in story.assigned if member != idle]
    owned = {member: story.assigned[member] for member in others}
    epoch = story.group().epoch
    for member in others:
        story.acknowledge(member)
        assert story.epochs[member] == epoch
    assert {member: story.assigned[member] for member in others} == owned
    assert story.state() == "Stable"
    before = ordered(story.group())
    story.restart()
    assert ordered(story.group()) == before
