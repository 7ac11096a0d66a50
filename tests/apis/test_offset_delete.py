"""OffsetDelete."""

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import commit_request, join_and_sync
from wirekafka.errors import Error
from wirekafka.protocol.offset_delete import OffsetDeleteRequest

Topic = OffsetDeleteRequest.Topic


def request(*topics: tuple[str, list[int]], group_id: str = "g") -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            Topic(
                name=name, partitions=[Topic.Partition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ],
    )


def test_offsets_without_subscribers_are_deleted() -> None:
    broker = GroupBroker().ready()
    broker.ask(commit_request(("t", 0, 5), ("u", 0, 6)), 9)
    join_and_sync(broker)
    answer = broker.ask(request(("t", [0, 99]), ("u", [0]), ("nope", [0])), 0)
    assert answer.error_code == Error.NONE
    assert [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.topics
    ] == [
        ("t", [(99, Error.UNKNOWN_TOPIC_OR_PARTITION), (0, Error.GROUP_SUBSCRIBED_TO_TOPIC)]),
        ("u", [(0, Error.NONE)]),
        ("nope", [(0, Error.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    offsets = broker.groups.shard_for("g").machine.offsets
    assert offsets.get("g", "u", 0) is None
    assert offsets.get("g", "t", 0).offset == 5


def test_topics_without_partitions_are_not_reported() -> None:
    broker = GroupBroker().ready()
    broker.ask(commit_request(("t", 0, 5)), 9)
    answer = broker.ask(request(("u", []), ("t", [0])), 0)
    assert [topic.name for topic in answer.topics] == ["t"]


def test_an_unknown_group_is_a_top_level_error() -> None:
    broker = GroupBroker().ready()
    for topics in ([("t", [0])], [("nope", [0])], []):
        answer = broker.ask(request(*topics), 0)
        assert (answer.error_code, answer.topics) == (Error.GROUP_ID_NOT_FOUND, [])


def test_an_empty_group_id_is_refused() -> None:
    answer = GroupBroker().ready().ask(request(("t", [0]), group_id=""), 0)
    assert (answer.error_code, answer.topics) == (Error.INVALID_GROUP_ID, [])
