"""OffsetFetch, every version."""

import pytest

from tests.apis.group_broker import GroupBroker, topic_id
from tests.apis.group_requests import commit_request
from wirekafka.coordinator.groups.commands import CommitTransactionOffsets, OffsetToCommit
from wirekafka.errors import Error
from wirekafka.protocol.offset_fetch import OffsetFetchRequest

Topic = OffsetFetchRequest.Topic
Group = OffsetFetchRequest.Group
Topics = OffsetFetchRequest.Group.Topics


def ready() -> GroupBroker:
    broker = GroupBroker().ready()
    broker.ask(commit_request(("t", 0, 5), ("u", 0, 6)), 9)
    return broker


def committed(topics: object) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name, each.partition_index, each.committed_offset, each.error_code)
        for topic in topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_some_partitions_of_one_group(version: int) -> None:
    answer = ready().ask(
        OffsetFetchRequest(
            group_id="g",
            topics=[
                Topic(name="t", partition_indexes=[0, 1, 99]),
                Topic(name="nope", partition_indexes=[0]),
            ],
        ),
        version,
    )
    assert answer.error_code == Error.NONE
    assert committed(answer.topics) == [
        ("t", 0, 5, 0),
        ("t", 1, -1, 0),
        ("t", 99, -1, 0),
        ("nope", 0, -1, 0),
    ]
    first, none = answer.topics[0].partitions[:2]
    assert (first.metadata, none.metadata, none.committed_leader_epoch) == ("m", "", -1)


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_return_all_offsets_of_the_group(version: int) -> None:
    answer = ready().ask(OffsetFetchRequest(group_id="g", topics=None), version)
    assert sorted(committed(answer.topics)) == [("t", 0, 5, 0), ("u", 0, 6, 0)]


def test_an_empty_list_of_topics_returns_no_offsets() -> None:
    assert ready().ask(OffsetFetchRequest(group_id="g", topics=[]), 1).topics == []


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups(version: int) -> None:
    answer = ready().ask(
        OffsetFetchRequest(
            groups=[
                Group(group_id="g", topics=[Topics(name="t", partition_indexes=[0])]),
                Group(group_id="unknown", topics=[Topics(name="t", partition_indexes=[0])]),
                Group(group_id="g", topics=None),
                Group(group_id="unknown", topics=None),
                Group(group_id="g", topics=[], member_id="anybody", member_epoch=9),
            ]
        ),
        version,
    )
    assert [(group.group_id, group.error_code) for group in answer.groups] == [
        ("g", 0),
        ("unknown", 0),
        ("g", 0),
        ("unknown", 0),
        ("g", 0),
    ]
    assert [committed(group.topics) for group in answer.groups] == [
        [("t", 0, 5, 0)],
        [("t", 0, -1, 0)],
        [("u", 0, 6, 0), ("t", 0, 5, 0)],  # In the order of Kafka's hash map.
        [],
        [],
    ]


def test_version_10_refers_to_topics_by_id() -> None:
    answer = ready().ask(
        OffsetFetchRequest(
            groups=[
                Group(
                    group_id="g",
                    topics=[
                        Topics(topic_id=topic_id("nope"), partition_indexes=[0]),
                        Topics(topic_id=topic_id("t"), partition_indexes=[0, 1]),
                    ],
                ),
                Group(group_id="g", topics=None),
            ]
        ),
        10,
    )
    some, everything = answer.groups
    assert [topic.topic_id for topic in some.topics] == [topic_id("t"), topic_id("nope")]
    assert committed(some.topics) == [
        ("", 0, 5, 0),
        ("", 1, -1, 0),
        ("", 0, -1, Error.UNKNOWN_TOPIC_ID),
    ]
    assert {topic.topic_id for topic in everything.topics} == {topic_id("t"), topic_id("u")}


@pytest.mark.parametrize("version", range(1, 11))
def test_38_not_coordinator_before_the_offsets_topic_exists(version: int) -> None:
    topics = [Topic(name="t", partition_indexes=[0])]
    groups = [
        Group(
            group_id="g", topics=[Topics(name="t", topic_id=topic_id("t"), partition_indexes=[0])]
        )
    ]
    answer = GroupBroker().ask(
        OffsetFetchRequest(group_id="g", topics=topics, groups=groups), version
    )
    if version == 1:
        assert committed(answer.topics) == [("t", 0, -1, Error.NOT_COORDINATOR)]
        return
    error_code = answer.error_code if version < 8 else answer.groups[0].error_code
    assert error_code == Error.NOT_COORDINATOR
    assert answer.topics == []


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_45_require_stable_waits_for_open_transactions(version: int) -> None:
    broker = ready()
    broker.groups.shard_for("g").post(
        CommitTransactionOffsets(
            "g", -1, "", [OffsetToCommit("t", 0, 9)], producer_id=7, producer_epoch=0
        )
    )
    for require_stable, offset, error in (
        (False, 5, Error.NONE),
        (True, -1, Error.UNSTABLE_OFFSET_COMMIT),
    ):
        answer = broker.ask(
            OffsetFetchRequest(
                group_id="g",
                topics=[Topic(name="t", partition_indexes=[0])],
                groups=[
                    Group(
                        group_id="g",
                        topics=[Topics(name="t", topic_id=topic_id("t"), partition_indexes=[0])],
                    )
                ],
                require_stable=require_stable,
            ),
            version,
        )
        topics = answer.topics if version < 8 else answer.groups[0].topics
        (found,) = topics[0].partitions
        assert (found.committed_offset, found.error_code) == (offset, error)


def test_an_offset_of_a_recreated_topic_is_not_returned() -> None:
    broker = ready()
    shard = broker.groups.shard_for("g").machine
    old = shard.offsets.get("g", "t", 0)
    shard.offsets._committed["g"]["t"][0] = old._replace(topic_id=b"z" * 16)
    answer = broker.ask(
        OffsetFetchRequest(
            groups=[
                Group(group_id="g", topics=[Topics(topic_id=topic_id("t"), partition_indexes=[0])])
            ]
        ),
        10,
    )
    assert committed(answer.groups[0].topics) == [("", 0, -1, 0)]
