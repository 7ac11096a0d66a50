"""Streams groups (KIP-1071) on the state machine: joins, tasks, topologies, epochs."""

from __future__ import annotations

import pytest

from tests.coordinator.group_machines import GroupMachines
from tests.coordinator.streams_story import GROUP, StreamsStory, topology
from wirekafka.coordinator.groups.streams.config import StreamsGroupOptions
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.status import StatusCode
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import Endpoint


@pytest.fixture
def story() -> StreamsStory:
    return StreamsStory(GroupMachines().ready())


def test_first_member_is_assigned_every_task(story: StreamsStory) -> None:
    story.join("a")
    story.has("a", epoch=2, active=[0, 1, 2])
    assert story.group().state.value == "Stable"


def test_task_is_withheld_until_its_process_has_revoked_it(story: StreamsStory) -> None:
    story.join("a")
    story.later(1000)
    story.join("b")
    story.has("b", epoch=3, active=[])
    story.beat("a")
    story.has("a", epoch=2, active=[0, 1])
    assert story.group().state.value == "Reconciling"
    story.acknowledge("a")
    story.has("a", epoch=3, active=[0, 1])
    story.beat("b")
    story.has("b", epoch=3, active=[2])
    assert story.group().state.value == "Stable"


def test_empty_group_waits_for_more_members(story: StreamsStory) -> None:
    story.broker.streams_options = StreamsGroupOptions(initial_rebalance_delay_ms=3000)
    story.join("a")
    delayed = "Assignment delayed due to the configured initial rebalance delay."
    assert story.status() == [(StatusCode.ASSIGNMENT_DELAYED, delayed)]
    story.join("b")
    story.has("b", epoch=1, active=[])
    story.later(3000)
    story.beat("a")
    story.beat("b")
    story.has("a", epoch=3, active=[1])
    story.has("b", epoch=3, active=[0, 2])


def test_assignments_are_not_computed_more_often_than_the_interval(story: StreamsStory) -> None:
    story.join("a")
    story.join("b")
    delayed = "Assignment delayed due to the configured assignment interval."
    assert story.status() == [(StatusCode.ASSIGNMENT_DELAYED, delayed)]
    story.later(1000)
    story.beat("b")
    story.has("b", epoch=3, active=[])


def test_missing_changelog_is_created_before_tasks_are_assigned(story: StreamsStory) -> None:
    story.join("a", topology=topology(changelog="log"))
    story.has("a", epoch=2, active=[])
    assert story.status() == [
        (StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: log")
    ]
    assert story.broker.auto_creation.topics["log"].num_partitions == 3
    story.broker.add_topic("log", 3)
    story.later(1000)
    story.beat("a")
    story.has("a", epoch=3, active=[0, 1, 2])
    assert story.status() == []


def test_failed_creation_is_reported(story: StreamsStory) -> None:
    story.broker.auto_creation.failures["log"] = "no space"
    story.join("a", topology=topology(changelog="log"))
    assert story.status() == [
        (
            StatusCode.MISSING_INTERNAL_TOPICS,
            "Internal topics are missing: log; Creation failed: log (no space).",
        )
    ]


def test_missing_source_topic_is_reported(story: StreamsStory) -> None:
    other = topology()
    other.subtopologies[0].source_topics = ["not-there"]
    story.join("a", topology=other)
    assert story.status() == [
        (StatusCode.MISSING_SOURCE_TOPICS, "Source topics not-there are missing.")
    ]
    assert story.group().state.value == "NotReady"


def test_extended_source_topic_begins_a_new_epoch(story: StreamsStory) -> None:
    story.join("a")
    story.broker.grow_topic("t", 5)
    story.later(1000)
    story.beat("a")
    story.has("a", epoch=3, active=[0, 1, 2, 3, 4])


def test_member_with_an_older_topology_is_stale(story: StreamsStory) -> None:
    story.join("a", topology=topology(epoch=2))
    story.later(1000)
    story.join("b", topology=topology(epoch=1))
    assert story.status() == [
        (
            StatusCode.STALE_TOPOLOGY,
            "The member's topology epoch 1 is behind the group's topology epoch 2.",
        )
    ]


def test_another_topology_is_refused(story: StreamsStory) -> None:
    story.join("a")
    refusal = story.ask(
        "b", 0, topology=topology(epoch=1), rebalance_timeout_ms=9, process_id="b", owned=[]
    )
    assert refusal.error_code == Error.INVALID_REQUEST
    assert refusal.error_message == "Topology updates are not supported yet."


def test_shutdown_is_reported_to_all_members(story: StreamsStory) -> None:
    story.join("a")
    story.join("b")
    story.beat("a", shutdown_application=True)
    story.beat("b")
    assert (StatusCode.SHUTDOWN_APPLICATION) in [code for code, _ in story.status()]


def test_member_that_is_silent_for_a_session_is_removed(story: StreamsStory) -> None:
    story.join("a")
    story.later(20_000)
    story.join("b")
    story.acknowledge("a")
    story.later(44_000)
    story.beat("b")
    story.later(1_000)
    assert story.ask("a", 2).error_code == Error.UNKNOWN_MEMBER_ID
    story.beat("b")
    story.has("b", epoch=4, active=[0, 1, 2])


def test_member_that_does_not_revoke_tasks_in_time_is_removed(story: StreamsStory) -> None:
    story.join("a", rebalance_timeout_ms=5_000)
    story.later(1_000)
    story.join("b")
    story.beat("a")
    story.later(5_000)
    assert story.ask("a", 2).error_code == Error.UNKNOWN_MEMBER_ID


def test_static_member_returns_under_another_member_id(story: StreamsStory) -> None:
    story.join("a", instance_id="i")
    assert story.ask("a", -2, instance_id="i").error_code == 0
    story.join("a2", instance_id="i", process_id="a")
    story.has("a2", epoch=2, active=[0, 1, 2])
    assert story.ask("a", 2, instance_id="i").error_code == Error.FENCED_INSTANCE_ID


def test_refused_static_member_leaves_the_owner_its_tasks(story: StreamsStory) -> None:
    story.join("a", instance_id="i")
    assert story.ask("b", 2, instance_id="i").error_code == Error.FENCED_INSTANCE_ID
    story.ask("a", -2, instance_id="i")
    story.join("a", instance_id="i")
    story.has("a", epoch=2, active=[0, 1, 2])


def test_standby_tasks_are_in_other_processes(story: StreamsStory) -> None:
    story.broker.streams_options = StreamsGroupOptions(
        initial_rebalance_delay_ms=0, assignment_interval_ms=0, standby_replicas=1
    )
    story.broker.add_topic("log", 3)
    story.join("a", topology=topology(changelog="log"))
    story.join("b", topology=topology(changelog="log"))
    story.beat("a")
    story.acknowledge("a")
    story.beat("b")
    targets = story.group().targets
    assert targets["a"].active["0"] == targets["b"].standby["0"]
    assert targets["b"].active["0"] == targets["a"].standby["0"]


def test_loaded_group_is_the_same(story: StreamsStory) -> None:
    story.join("a", instance_id="i", rack_id="r")
    story.later(1000)
    story.join("b")
    story.beat("a", instance_id="i")
    before = list(story.group().snapshot())
    story.restart()
    assert list(story.group().snapshot()) == before
    assert list(story.group().copy().snapshot()) == before
    story.beat("a", owned=[0, 1], instance_id="i")
    story.beat("b")
    story.has("b", epoch=3, active=[2])


def test_deleted_group_leaves_nothing_behind(story: StreamsStory) -> None:
    story.join("a")
    delete = DeleteGroupsRequest(groups_names=[GROUP])
    assert story.broker.ask(delete, 2).results[0].error_code == Error.NON_EMPTY_GROUP
    story.ask("a", -1)
    assert story.broker.ask(delete, 2).results[0].error_code == 0
    story.restart()
    assert GROUP not in story.shard().groups
    described = story.broker.ask(StreamsGroupDescribeRequest(group_ids=[GROUP]), 1)
    assert described.groups[0].error_code == Error.GROUP_ID_NOT_FOUND


def test_group_that_was_a_classic_one_in_between_starts_again(story: StreamsStory) -> None:
    story.join("a")
    story.beat("a", user_endpoint=Endpoint(host="host", port=80))
    assert story.last.endpoint_information_epoch == 1
    story.ask("a", -1)
    classic = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range")],
    )
    assert story.broker.ask(classic, 9).error_code == Error.MEMBER_ID_REQUIRED
    assert story.shard().groups[GROUP].type_name == "classic"
    story.join("b")
    story.has("b", epoch=2, active=[0, 1, 2])
    story.acknowledge("b")
    assert story.last.endpoint_information_epoch == 0


def test_offsets_before_a_converted_groups_records_do_not_hide_it(story: StreamsStory) -> None:
    """Compaction may remove the tombstone of a classic group before its offsets (KAFKA-20254)."""
    offsets = OffsetCommitRequest.Topic
    commit = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        topics=[
            offsets(name="t", partitions=[offsets.Partition(partition_index=0, committed_offset=7)])
        ],
    )
    story.broker.ask(commit, 8)
    converted = StreamsStory(GroupMachines().ready())
    converted.join("a")
    for log, later in zip(story.broker.logs, converted.broker.logs, strict=True):
        for batch in later.batches:
            log.append(batch)
    story.restart()
    story.epochs, story.active = converted.epochs, converted.active
    story.acknowledge("a")
    story.has("a", epoch=2, active=[0, 1, 2])
    fetch = OffsetFetchRequest.Group(group_id=GROUP, topics=None)
    [group] = story.broker.ask(OffsetFetchRequest(groups=[fetch]), 8).groups
    assert [each.committed_offset for each in group.topics[0].partitions] == [7]


def test_refused_append_leaves_the_group_as_it_was(story: StreamsStory) -> None:
    story.join("a")
    log = story.broker.logs[story.broker.groups.partition_for(GROUP)]
    log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    answer = story.ask(
        "b", 0, owned=[], topology=topology(), rebalance_timeout_ms=9, process_id="b"
    )
    assert answer.error_code == Error.COORDINATOR_NOT_AVAILABLE
    assert isinstance(story.group(), StreamsGroup)
    assert list(story.group().members) == ["a"]


def test_held_assignment_stays_until_it_is_released(story: StreamsStory) -> None:
    story.join("a")
    story.broker.groups.held_assignments.add(GROUP)
    story.later(1000)
    story.join("b")
    story.has("b", epoch=2, active=[])
    story.beat("a")
    story.has("a", epoch=2, active=[0, 1, 2])
    story.broker.groups.held_assignments.clear()
    story.beat("b")
    story.beat("a")
    story.has("a", epoch=2, active=[0, 1])


def test_end_of_the_initial_delay_computes_no_held_assignment(story: StreamsStory) -> None:
    story.broker.streams_options = StreamsGroupOptions(initial_rebalance_delay_ms=3000)
    story.broker.groups.held_assignments.add(GROUP)
    story.join("a")
    story.later(3000)
    assert story.group().assignment_epoch < story.group().epoch
    story.broker.groups.held_assignments.clear()
    story.beat("a")
    assert story.group().assignment_epoch == story.group().epoch


def refused_heartbeat(story: StreamsStory) -> int:
    """Have a heartbeat fail whose topics do not fit any more; returns the hash of the topics."""
    story.broker.add_topic("changelog", 3)
    story.join("a", topology=topology(changelog="changelog"))
    story.beat("a", user_endpoint=Endpoint(host="host", port=80))
    before = story.group().version.metadata_hash
    story.broker.grow_topic("t", 4)
    answer = story.ask("a", story.epochs["a"], user_endpoint=Endpoint(host="other", port=80))
    assert answer.error_code == Error.UNKNOWN_SERVER_ERROR
    return before


def test_topics_are_checked_again_after_a_refused_heartbeat(story: StreamsStory) -> None:
    before = refused_heartbeat(story)
    story.beat("a", endpoint_information_epoch=2)
    assert story.group().version.metadata_hash != before
    assert story.group().version.validated_epoch == -1


def test_topics_are_not_checked_again_in_the_epoch_that_a_refused_heartbeat_began(
    story: StreamsStory,
) -> None:
    """As in Kafka, which keeps what that heartbeat has found out for that epoch."""
    before = refused_heartbeat(story)
    story.ask("a", -1)
    story.join("b", topology=topology(changelog="changelog"))
    assert story.group().version.metadata_hash == before
    assert story.group().version.validated_epoch == -1
