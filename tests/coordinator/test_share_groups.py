"""Share groups at the group coordinator: members, assignments, states of share partitions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.group_machines import GroupMachines, topic_id
from wirekafka.coordinator.groups.kind_configs import KindConfigs
from wirekafka.coordinator.groups.share.config import ShareGroupConfig
from wirekafka.coordinator.groups.share.group import ShareGroup
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.coordinator.routing import NoLinks
from wirekafka.coordinator.share_state.states import NO_OFFSET, ShareKey
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.list_offsets import ListOffsetsResponse
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.replication.partition.replica import NO_LEADER

_SESSION_MS = 45_000


@pytest.fixture
def broker() -> GroupMachines:
    machines = GroupMachines(KindConfigs(share=ShareGroupConfig(max_size=3))).ready()
    machines.image.features["share.version"] = 1
    machines.share_options = GroupTimes(assignment_interval_ms=0)
    return machines


def beat(broker: GroupMachines, member: str, epoch: int, *topics: str, **fields: Any) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
        **fields,
    )
    return broker.ask(request, 1)


def group(broker: GroupMachines) -> ShareGroup:
    machine: Any = broker.groups.shard_for("g").machine
    found = machine.groups["g"]
    assert isinstance(found, ShareGroup)
    return found


def assigned(answer: Any) -> dict[bytes, list[int]]:
    return {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}


def describe(broker: GroupMachines, group_id: str = "g") -> Any:
    return broker.ask(ShareGroupDescribeRequest(group_ids=[group_id]), 1).groups[0]


def offsets(broker: GroupMachines, *topics: str) -> Any:
    kind = DescribeShareGroupOffsetsRequest.Group
    named = [kind.Topic(topic_name=name, partitions=[0]) for name in topics]
    request = DescribeShareGroupOffsetsRequest(
        groups=[kind(group_id="g", topics=named if topics else None)]
    )
    return broker.ask(request, 1).groups[0]


def alter(broker: GroupMachines, topic: str, **offsets: int) -> Any:
    kind = AlterShareGroupOffsetsRequest.Topic
    partitions = [
        kind.Partition(partition_index=int(name[1:]), start_offset=offset)
        for name, offset in offsets.items()
    ]
    request = AlterShareGroupOffsetsRequest(
        group_id="g", topics=[kind(topic_name=topic, partitions=partitions)]
    )
    return broker.ask(request, 0)


def delete(broker: GroupMachines, *topics: str) -> Any:
    kind = DeleteShareGroupOffsetsRequest.Topic
    request = DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[kind(topic_name=name) for name in topics]
    )
    return broker.ask(request, 0)


def test_partitions_are_assigned_once_their_state_is_initialized(broker: GroupMachines) -> None:
    first = beat(broker, "a", 0, "t")
    assert (first.member_epoch, assigned(first)) == (2, {})
    assert broker.share_states.states.keys() == {
        ShareKey("g", topic_id("t"), index) for index in range(3)
    }
    second = beat(broker, "a", 2)
    assert (second.member_epoch, assigned(second)) == (3, {topic_id("t"): [0, 1, 2]})
    third = beat(broker, "a", 3)
    assert (third.member_epoch, third.assignment) == (3, None)


def test_members_share_partitions_when_there_are_more_of_them(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "u")
    for member in "ab":
        beat(broker, member, 0, "u")
    assert {assigned(beat(broker, member, 0, "u"))[topic_id("u")][0] for member in "ab"} == {0}


def test_states_are_initialized_with_the_group_epoch_and_no_offset(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "u")
    state = broker.share_states.states[ShareKey("g", topic_id("u"), 0)]
    assert (state.state_epoch, state.start_offset) == (2, NO_OFFSET)


def test_new_partitions_of_a_known_topic_start_at_offset_zero(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "u")
    broker.grow_topic("u", 2)
    broker.clock.advance(0)
    beat(broker, "a", 2)
    assert broker.share_states.states[ShareKey("g", topic_id("u"), 1)].start_offset == 0


def test_failed_initialization_is_tried_again_by_the_next_heartbeat(broker: GroupMachines) -> None:
    broker.share_states.failures = [KafkaError(Error.COORDINATOR_NOT_AVAILABLE)]
    answer = beat(broker, "a", 0, "u")
    assert not broker.share_states.states
    beat(broker, "a", answer.member_epoch)
    assert broker.share_states.states


def test_interrupted_initialization_is_tried_again_after_the_retry_interval(
    broker: GroupMachines,
) -> None:
    beat(broker, "a", 0, "u")
    shard = broker.groups.shard_for("g")
    value = group(broker).stored
    assert value is not None
    interrupted = value._replace(initializing=value.initialized, initialized={})
    machine: Any = shard.machine
    machine.groups["g"].stored = interrupted
    calls = len(broker.share_states.calls)
    beat(broker, "a", 2)
    assert len(broker.share_states.calls) == calls
    broker.clock.advance(30_000)
    beat(broker, "a", group(broker).members["a"].epoch)
    assert len(broker.share_states.calls) > calls


def test_stale_and_future_epochs_are_fenced(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    beat(broker, "a", 2)
    assert beat(broker, "a", 2).error_code == 0, "the response may have been lost"
    assert beat(broker, "a", 1).error_code == Error.FENCED_MEMBER_EPOCH
    assert beat(broker, "a", 9).error_code == Error.FENCED_MEMBER_EPOCH
    assert beat(broker, "b", 3).error_code == Error.UNKNOWN_MEMBER_ID


def test_group_with_the_most_members_refuses_another(broker: GroupMachines) -> None:
    for member in "abc":
        assert beat(broker, member, 0, "t").error_code == 0
    assert beat(broker, "d", 0, "t").error_code == Error.GROUP_MAX_SIZE_REACHED
    assert beat(broker, "a", 0, "t").error_code == 0


def test_member_without_heartbeats_is_removed_when_its_session_ends(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    broker.clock.advance(_SESSION_MS - 1)
    assert describe(broker).group_state == "Stable"
    broker.clock.advance(1)
    assert (describe(broker).group_state, describe(broker).members) == ("Empty", [])


def test_member_that_leaves_gives_its_partitions_to_others(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    beat(broker, "b", 0, "t")
    assert beat(broker, "a", -1).member_epoch == -1
    assert assigned(beat(broker, "b", 0, "t")) == {topic_id("t"): [0, 1, 2]}


def test_first_heartbeat_without_topics_is_invalid(broker: GroupMachines) -> None:
    answer = beat(broker, "a", 0)
    assert answer.error_code == Error.INVALID_REQUEST
    assert answer.error_message == "SubscribedTopicNames must be set in first request."


def test_share_groups_need_their_feature(broker: GroupMachines) -> None:
    broker.image.features["share.version"] = 0
    for response in (
        beat(broker, "a", 0, "t"),
        describe(broker),
        offsets(broker),
        alter(broker, "t", p0=7),
        delete(broker, "t"),
    ):
        assert response.error_code == Error.UNSUPPORTED_VERSION


def test_offsets_show_the_lag_only_of_partitions_with_a_start_offset(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    state = broker.share_states.states[ShareKey("g", topic_id("t"), 1)]
    state.start_offset, state.delivery_complete_count = 10, 2
    broker.latest_offsets["t", 1] = 20
    [topic] = offsets(broker).topics
    assert [(each.start_offset, each.lag) for each in topic.partitions] == [
        (-1, -1),
        (10, 8),
        (-1, -1),
    ]


class Elsewhere(NoLinks):
    """Broker 2, which leads the second partition; broker 3 is not in service."""

    async def send(self, broker_id: int, client_id: str, request: Any) -> Any:
        [topic] = request.topics
        [partition] = topic.partitions
        assert (topic.name, partition.partition_index) == ("t", 1 if broker_id == 2 else 2)
        if broker_id == 3:
            raise KafkaError(Error.BROKER_NOT_AVAILABLE)
        found = ListOffsetsResponse.TopicResponse(name="t")
        found.partitions = [found.PartitionResponse(partition_index=1, error_code=0, offset=20)]
        return ListOffsetsResponse(topics=[found])


def test_the_lag_of_partitions_led_elsewhere_is_found_at_their_leaders(
    broker: GroupMachines,
) -> None:
    beat(broker, "a", 0, "t")
    broker.routing.links = Elsewhere()
    broker.routing.leader_of = lambda topic, index: index + 1
    broker.latest_offsets["t", 0] = 11
    for index in range(3):
        state = broker.share_states.states[ShareKey("g", topic_id("t"), index)]
        state.start_offset, state.delivery_complete_count = 10, 0
    [topic] = offsets(broker).topics
    assert [(each.start_offset, each.lag, each.error_code) for each in topic.partitions] == [
        (10, 1, 0),
        (10, 10, 0),
        (0, -1, Error.BROKER_NOT_AVAILABLE),
    ]
    broker.routing.leader_of = lambda topic, index: NO_LEADER
    [topic] = offsets(broker).topics
    assert {each.error_code for each in topic.partitions} == {Error.LEADER_NOT_AVAILABLE}


def test_offsets_are_altered_only_without_members(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    assert alter(broker, "t", p0=7).error_code == Error.NON_EMPTY_GROUP
    beat(broker, "a", -1)
    [topic] = alter(broker, "t", p0=7, p3=1).responses
    assert [each.error_code for each in topic.partitions] == [0, Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.share_states.states[ShareKey("g", topic_id("t"), 0)].start_offset == 7


def test_altering_offsets_creates_the_group(broker: GroupMachines) -> None:
    alter(broker, "t", p0=7)
    assert describe(broker).group_state == "Empty"
    stored = group(broker).stored
    assert stored is not None and list(stored.initialized[topic_id("t")].partitions) == [0]


def test_refused_alteration_is_reported_by_partition(broker: GroupMachines) -> None:
    broker.share_states.failures = [KafkaError(Error.FENCED_STATE_EPOCH, "old")]
    [topic] = alter(broker, "t", p0=7, p1=8).responses
    assert [each.error_code for each in topic.partitions] == [Error.FENCED_STATE_EPOCH, 0]


def test_deleted_offsets_are_initialized_again_by_the_next_member(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t", "u")
    assert delete(broker, "t").error_code == Error.NON_EMPTY_GROUP
    beat(broker, "a", -1)
    answer = delete(broker, "t", "nothing")
    assert [(each.topic_name, each.error_code) for each in answer.responses] == [
        ("t", 0),
        ("nothing", Error.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert {key.topic_id for key in broker.share_states.states} == {topic_id("u")}
    beat(broker, "a", 0, "t", "u")
    assert {key.topic_id for key in broker.share_states.states} == {topic_id("t"), topic_id("u")}


def test_deletion_that_failed_can_be_repeated(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "u")
    beat(broker, "a", -1)
    broker.share_states.failures = [KafkaError(Error.COORDINATOR_NOT_AVAILABLE)]
    [topic] = delete(broker, "u").responses
    assert topic.error_code == Error.COORDINATOR_NOT_AVAILABLE
    stored = group(broker).stored
    assert stored is not None and stored.deleting == (topic_id("u"),)
    [topic] = delete(broker, "u").responses
    assert topic.error_code == 0
    assert not broker.share_states.states


def test_group_is_deleted_with_the_states_of_its_partitions(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    remove = DeleteGroupsRequest(groups_names=["g"])
    assert broker.ask(remove, 2).results[0].error_code == Error.NON_EMPTY_GROUP
    beat(broker, "a", -1)
    broker.share_states.failures = [KafkaError(Error.COORDINATOR_NOT_AVAILABLE)]
    assert broker.ask(remove, 2).results[0].error_code == Error.COORDINATOR_NOT_AVAILABLE
    assert broker.ask(remove, 2).results[0].error_code == 0
    assert not broker.share_states.states
    assert describe(broker).error_code == Error.GROUP_ID_NOT_FOUND


def test_topic_without_partitions_fails_the_first_deletion_of_others(broker: GroupMachines) -> None:
    remove = DeleteGroupsRequest(groups_names=["g"])
    alter(broker, "u", p9=1)
    assert broker.ask(remove, 2).results[0].error_code == 0
    alter(broker, "u", p9=1)
    alter(broker, "t", p0=1)
    assert broker.ask(remove, 2).results[0].error_code == Error.UNKNOWN_SERVER_ERROR
    assert broker.ask(remove, 2).results[0].error_code == 0


def test_state_of_a_deleted_topic_is_forgotten(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t", "u")
    broker.remove_topic("t")
    stored = group(broker).stored
    assert stored is not None and list(stored.initialized) == [topic_id("u")]


def test_empty_share_group_does_not_expire(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    beat(broker, "a", -1)
    broker.clock.advance(8 * 24 * 3600 * 1000)
    assert describe(broker).group_state == "Empty"


def test_share_groups_are_listed_with_their_type(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    [listed] = broker.ask(ListGroupsRequest(states_filter=[], types_filter=["Share"]), 5).groups
    assert (listed.protocol_type, listed.group_state, listed.group_type) == (
        "share",
        "Stable",
        "share",
    )


def test_snapshot_rebuilds_the_group(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    beat(broker, "b", 0, "u")
    known = group(broker)
    rebuilt = known.copy()
    for name in ("epoch", "members", "targets", "stored", "assignment_epoch", "metadata_hash"):
        assert getattr(rebuilt, name) == getattr(known, name)


def test_loaded_group_continues_with_new_sessions(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    beat(broker, "a", 2)
    index = broker.groups.partition_for("g")
    broker.groups.lead(index, broker.logs[index])
    broker.clock.advance(_SESSION_MS - 1)
    assert beat(broker, "a", 3).error_code == 0


def test_refused_append_leaves_no_trace_of_a_member(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    index = broker.groups.partition_for("g")
    before = list(group(broker).members)
    broker.logs[index].failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    assert beat(broker, "b", 0, "t").error_code == Error.COORDINATOR_NOT_AVAILABLE
    broker.logs[index].failure = None
    assert list(group(broker).members) == before


def test_held_assignment_stays_until_it_is_released(broker: GroupMachines) -> None:
    beat(broker, "a", 0, "t")
    epoch = beat(broker, "a", 2).member_epoch
    broker.groups.held_assignments.add("g")
    assert assigned(beat(broker, "b", 0, "t")) == {}
    assert beat(broker, "a", epoch).member_epoch == epoch
    assert group(broker).epoch > group(broker).assignment_epoch
    broker.groups.held_assignments.clear()
    beat(broker, "b", group(broker).members["b"].epoch)
    assert group(broker).assignment_epoch == group(broker).epoch
    assert group(broker).target("b")
