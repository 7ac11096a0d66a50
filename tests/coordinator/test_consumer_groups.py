"""Consumer groups (KIP-848) on the state machine: joins, assignments, epochs, fencing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.consumer_story import Story
from tests.coordinator.group_machines import GroupMachines
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupConfig
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.kind_configs import KindConfigs
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.errors import Error


@pytest.fixture
def story() -> Story:
    return Story(GroupMachines().ready())


def test_first_member_is_assigned_every_partition(story: Story) -> None:
    story.join("a", ["t", "u"])
    story.has("a", epoch=2, t=[0, 1, 2], u=[0])
    assert story.state() == "Stable"


def test_partition_is_withheld_until_its_owner_has_revoked_it(story: Story) -> None:
    story.join("a", ["t"])
    story.later(1000)
    story.join("b", ["t"])
    story.has("b", epoch=3)
    story.beat("a")
    story.has("a", epoch=2, t=[0, 1])
    assert story.state() == "Reconciling"
    story.beat("b")
    story.has("b", epoch=3)
    story.acknowledge("a")
    story.has("a", epoch=3, t=[0, 1])
    story.beat("b")
    story.has("b", epoch=3, t=[2])
    assert story.state() == "Stable"


def test_assignments_are_not_computed_more_often_than_the_interval(story: Story) -> None:
    story.join("a", ["t"])
    story.join("b", ["t"])
    story.has("b", epoch=2)
    assert story.state() == "Assigning"
    story.later(1000)
    story.beat("b")
    story.has("b", epoch=3)


def test_member_that_is_silent_for_a_session_is_removed(story: Story) -> None:
    story.join("a", ["t"])
    story.later(20_000)
    story.join("b", ["t"])
    story.acknowledge("a")
    story.later(44_000)
    story.beat("b")
    story.later(1_000)
    story.gets("a", Error.UNKNOWN_MEMBER_ID, "Member a is not a member of group g.")
    story.beat("b")
    story.has("b", epoch=4, t=[0, 1, 2])


def test_member_that_does_not_revoke_partitions_in_time_is_removed(story: Story) -> None:
    story.join("a", ["t"], rebalance_timeout_ms=5_000)
    story.later(1_000)
    story.join("b", ["t"])
    story.beat("a")
    story.later(5_000)
    story.gets("a", Error.UNKNOWN_MEMBER_ID)
    story.beat("b")
    story.has("b", epoch=4, t=[0, 1, 2])


def test_sessions_restart_when_the_group_is_loaded(story: Story) -> None:
    story.join("a", ["t"])
    story.later(40_000)
    story.restart()
    story.later(44_000)
    story.beat("a")
    story.has("a", epoch=2, t=[0, 1, 2])
    story.later(45_000)
    story.gets("a", Error.UNKNOWN_MEMBER_ID)


def test_rebalance_continues_after_the_group_is_loaded(story: Story) -> None:
    story.join("a", ["t"], rebalance_timeout_ms=5_000)
    story.later(1_000)
    story.join("b", ["t"])
    story.beat("a")
    story.restart()
    story.acknowledge("a")
    story.beat("b")
    story.has("b", epoch=3, t=[2])


def test_static_member_returns_under_another_member_id(story: Story) -> None:
    story.join("a", ["t"], instance_id="i")
    story.gets("a", Error.NONE, epoch=-2)
    story.join("a2", ["t"], instance_id="i")
    story.has("a2", epoch=2, t=[0, 1, 2])
    story.gets(
        "a", Error.FENCED_INSTANCE_ID, "Static member a with instance id i was fenced by member a2."
    )


def test_instance_id_in_use_is_refused(story: Story) -> None:
    story.join("a", ["t"], instance_id="i")
    refusal = story.ask(
        "b", epoch=0, topics=["t"], instance_id="i", owned=[], rebalance_timeout_ms=9
    )
    assert refusal.error_code == Error.UNRELEASED_INSTANCE_ID
    assert refusal.error_message == (
        "Static member b with instance id i cannot join the group because the instance id is "
        "owned by a member."
    )


def test_static_member_that_does_not_return_is_removed(story: Story) -> None:
    story.join("a", ["t"], instance_id="i")
    story.gets("a", Error.NONE, epoch=-2)
    story.later(45_000)
    assert story.group().is_empty


@pytest.mark.parametrize(("epoch", "size"), [(5, "greater"), (1, "smaller")])
def test_member_in_another_epoch_is_fenced(story: Story, epoch: int, size: str) -> None:
    story.join("a", ["t"])
    story.gets(
        "a",
        Error.FENCED_MEMBER_EPOCH,
        (
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by "
            "the group coordinator (2). The member must abandon all its partitions and rejoin."
        ),
        epoch=epoch,
    )


def test_member_may_repeat_a_heartbeat_whose_response_was_lost(story: Story) -> None:
    story.join("a", ["t"])
    story.later(1_000)
    story.ask("a", epoch=2, topics=["t", "u"])
    answer = story.ask("a", epoch=2, owned=[("t", [0, 1, 2])])
    assert (answer.error_code, answer.member_epoch) == (0, 3)


def test_group_is_full(story: Story) -> None:
    full = Story(GroupMachines(KindConfigs(consumer=ConsumerGroupConfig(max_size=1))).ready())
    full.join("a", ["t"])
    refusal = full.ask("b", epoch=0, topics=["t"], owned=[], rebalance_timeout_ms=9)
    assert refusal.error_code == Error.GROUP_MAX_SIZE_REACHED
    assert refusal.error_message == (
        "The consumer group has reached its maximum capacity of 1 members."
    )


def test_regular_expression_matches_topics_created_later(story: Story) -> None:
    story.join("a", [], regex="new-.*|t")
    story.has("a", epoch=1)
    story.beat("a")
    story.has("a", epoch=2, t=[0, 1, 2])
    story.later(11_000)
    story.broker.add_topic("new-1", 2)
    story.beat("a")
    story.later(1_000)
    story.beat("a")
    story.has("a", epoch=3, t=[0, 1, 2], **{"new-1": [0, 1]})


def test_malformed_regular_expression_is_refused(story: Story) -> None:
    refusal = story.ask("a", epoch=0, regex="(", owned=[], rebalance_timeout_ms=9)
    assert refusal.error_code == Error.INVALID_REGULAR_EXPRESSION
    assert refusal.error_message == (
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    )
    assert "g" not in story.shard().groups


def test_new_partitions_are_assigned_at_the_next_heartbeat(story: Story) -> None:
    story.join("a", ["u"])
    story.later(1_000)
    story.broker.grow_topic("u", 3)
    story.later(10)
    story.beat("a")
    story.has("a", epoch=3, u=[0, 1, 2])


def test_options_of_the_group_override_the_brokers(story: Story) -> None:
    story.broker.consumer_options = GroupTimes(2_000, 300, 0)
    assert story.join("a", ["t"]).heartbeat_interval_ms == 300
    story.join("b", ["t"])
    story.has("b", epoch=3)
    story.later(2_000)
    assert story.group().is_empty


def test_refused_append_leaves_the_group_as_it_was(story: Story) -> None:
    story.join("a", ["t"])
    story.later(1_000)
    log = story.log()
    log.refuses = lambda batch: True
    refusal = story.ask("b", epoch=0, topics=["t"], owned=[], rebalance_timeout_ms=9)
    assert refusal.error_code == Error.COORDINATOR_NOT_AVAILABLE
    assert list(story.group().members) == ["a"]
    log.refuses = None
    story.join("b", ["t"])
    story.has("b", epoch=3)


def test_snapshot_and_log_rebuild_the_same_group(story: Story) -> None:
    story.join("a", ["t"], instance_id="i")
    story.join("b", ["t"], regex="u|t")
    story.later(1_000)
    story.beat("b")
    story.acknowledge("a")
    before = facts(story.group())
    assert facts(story.group().copy()) == before
    story.restart()
    assert facts(story.group()) == before


def test_empty_group_is_deleted_with_all_its_records(story: Story) -> None:
    story.join("a", ["t"], regex="u")
    story.gets("a", Error.NONE, epoch=-1)
    assert story.delete() == Error.NONE
    story.restart()
    assert "g" not in story.shard().groups


def test_group_with_members_is_not_deleted(story: Story) -> None:
    story.join("a", ["t"])
    assert story.delete() == Error.NON_EMPTY_GROUP


def facts(group: ConsumerGroup) -> Any:
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.members,
        group.targets,
        group.target_owners,
        group.subscriptions.topics,
        group.subscriptions.regexes,
        group.subscriptions.resolved,
        group.static_member_ids,
        group.state,
    )


def test_topics_are_assigned_in_the_order_of_the_request_until_they_are_stored() -> None:
    """As in Kafka: "t1" and "t19" share a bucket of its hash sets, so their order is kept."""
    story = Story(GroupMachines().ready())
    members = ["3sl0JrMeSHqyWDTmTVpFJA", "Tf7VYcQzQyKDcnTzrHyTdg"]
    for member in members:
        story.join(member, ["t1", "t19"])
    story.broker.add_topic("t1", 1)
    story.broker.add_topic("t19", 1)
    first = members[1]
    story.later(10_000)
    answer = story.ask(
        first, story.epochs[first], topics=["t19", "t1"], owned=[], rebalance_timeout_ms=9_000
    )
    [assigned] = answer.assignment.topic_partitions
    assert assigned.topic_id == story.broker.image.topics["t19"].id
