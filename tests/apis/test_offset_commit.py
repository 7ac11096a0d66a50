"""OffsetCommit, every version."""

import pytest

from tests.apis.group_broker import GroupBroker, topic_id
from tests.apis.group_requests import commit_request, join, join_and_sync
from wirekafka.coordinator.groups.commands import CommittedOffset
from wirekafka.errors import Error
from wirekafka.protocol.offset_commit import OffsetCommitRequest

Topic = OffsetCommitRequest.Topic
VERSIONS = range(2, 11)


def request(version: int, *places: tuple[str, int, int], **fields: object) -> OffsetCommitRequest:
    made = commit_request(*places, **fields)
    if version >= 10:
        for topic in made.topics:
            topic.topic_id = topic_id(topic.name)
    return made


def errors(answer: object) -> list[tuple[int, int]]:
    return [
        (each.partition_index, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]


def committed(broker: GroupBroker, group_id: str = "g") -> CommittedOffset:
    return broker.groups.shard_for(group_id).machine.offsets.get(group_id, "t", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_of_a_non_member_creates_a_group(version: int) -> None:
    broker = GroupBroker().ready()
    answer = broker.ask(request(version, ("t", 0, 5)), version)
    assert errors(answer) == [(0, Error.NONE)]
    assert committed(broker) == CommittedOffset(
        5, -1, "m", broker.clock.now_ms(), -1, topic_id("t")
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partitions_have_their_own_errors(version: int) -> None:
    broker = GroupBroker().ready()
    topics = [
        Topic(
            name="t",
            topic_id=topic_id("t"),
            partitions=[
                Topic.Partition(partition_index=0, committed_offset=1),
                Topic.Partition(partition_index=99, committed_offset=1),
            ],
        ),
        Topic(
            name="nope",
            topic_id=topic_id("nope"),
            partitions=[Topic.Partition(partition_index=0, committed_offset=1)],
        ),
    ]
    answer = broker.ask(commit_request(topics=topics), version)
    # In Kafka's order: partitions with an error come first.
    missing = Error.UNKNOWN_TOPIC_ID if version >= 10 else Error.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(answer) == [(99, Error.UNKNOWN_TOPIC_OR_PARTITION), (0, Error.NONE), (0, missing)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_error_does_not_replace_partition_errors(version: int) -> None:
    broker = GroupBroker().ready()
    made = request(version, ("t", 0, 5), ("nope", 0, 1), generation_id_or_member_epoch=4)
    missing = Error.UNKNOWN_TOPIC_ID if version >= 10 else Error.UNKNOWN_TOPIC_OR_PARTITION
    group = Error.GROUP_ID_NOT_FOUND if version >= 9 else Error.ILLEGAL_GENERATION
    assert errors(broker.ask(made, version)) == [(0, group), (0, missing)]


def test_43_wrong_generation_outsiders_and_unassigned_members_are_refused() -> None:
    broker = GroupBroker().ready()
    joined = join(broker)
    as_member = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
    for fields, error in (
        ({"generation_id_or_member_epoch": 0}, Error.ILLEGAL_GENERATION),
        ({}, Error.REBALANCE_IN_PROGRESS),
        ({"member_id": "stranger"}, Error.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id_or_member_epoch": -1}, Error.UNKNOWN_MEMBER_ID),
    ):
        answer = broker.ask(commit_request(("t", 0, 5), **(as_member | fields)), 8)
        assert errors(answer) == [(0, error)]


def test_43_generation_minus_one_commits_while_the_group_is_empty() -> None:
    broker = GroupBroker().ready()
    for fields in ({}, {"member_id": "anybody"}, {"group_instance_id": "i"}):
        answer = broker.ask(commit_request(("t", 0, 5), **fields), 9)
        assert errors(answer) == [(0, Error.NONE)]
    answer = broker.ask(commit_request(("t", 0, 5), generation_id_or_member_epoch=0), 9)
    assert errors(answer) == [(0, Error.UNKNOWN_MEMBER_ID)]


def test_a_member_commits_and_an_empty_group_id_is_a_group() -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker)
    answer = broker.ask(
        commit_request(("t", 0, 5), member_id=joined.member_id, generation_id_or_member_epoch=1), 9
    )
    assert errors(answer) == [(0, Error.NONE)]
    assert errors(broker.ask(commit_request(("t", 0, 7), group_id=""), 9)) == [(0, Error.NONE)]
    assert committed(broker, "").offset == 7


@pytest.mark.parametrize("version", [2, 4])
def test_a_retention_time_is_kept_with_the_offset(version: int) -> None:
    broker = GroupBroker().ready()
    broker.ask(commit_request(("t", 0, 5), retention_time_ms=1000), version)
    assert committed(broker).expire_ms == broker.clock.now_ms() + 1000


def test_a_leader_epoch_and_no_metadata_are_kept() -> None:
    broker = GroupBroker().ready()
    broker.ask(
        commit_request(
            topics=[
                Topic(
                    name="t",
                    partitions=[
                        Topic.Partition(
                            partition_index=0,
                            committed_offset=5,
                            committed_leader_epoch=3,
                            committed_metadata=None,
                        )
                    ],
                )
            ]
        ),
        9,
    )
    assert committed(broker)[:3] == (5, 3, "")


def test_an_empty_commit_creates_no_group() -> None:
    broker = GroupBroker().ready()
    for topics in ([], [Topic(name="t", partitions=[])]):
        assert broker.ask(commit_request(topics=topics), 9).topics == []
    assert broker.groups.shard_for("g").machine.groups == {}


def test_56_metadata_too_large_is_the_partitions_own_error() -> None:
    broker = GroupBroker().ready()
    answer = broker.ask(
        commit_request(
            topics=[
                Topic(
                    name="t",
                    partitions=[
                        Topic.Partition(
                            partition_index=0, committed_offset=5, committed_metadata="x" * 4097
                        ),
                        Topic.Partition(
                            partition_index=1, committed_offset=5, committed_metadata="x" * 4096
                        ),
                    ],
                )
            ]
        ),
        9,
    )
    assert errors(answer) == [(0, Error.OFFSET_METADATA_TOO_LARGE), (1, Error.NONE)]
