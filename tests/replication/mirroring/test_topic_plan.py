"""Which topics of a source are created, grown, followed and refused."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.replication.mirroring.topic_plan import (
    LocalTopic,
    SourcePartition,
    SourceTopic,
    SourceView,
    TopicPlan,
    origin_of,
    topic_plan,
)

ID, OTHER_ID = b"1" * 16, b"2" * 16


def source(topics: Mapping[str, int], id: bytes = ID, epoch: int = 4) -> SourceView:
    """A source with topics of so many partitions."""
    return SourceView(
        "cluster",
        {
            name: SourceTopic(name, id, dict.fromkeys(range(count), SourcePartition(1, epoch)))
            for name, count in topics.items()
        },
    )


def mirror(name: str, count: int = 1, **values: object) -> LocalTopic:
    fields = {
        "origin": origin_of("cluster", ID),
        "is_promoted": False,
        "leader_epochs": dict.fromkeys(range(count), 5),
    }
    return LocalTopic(name, **{**fields, **values})


def plan(view: SourceView, *local: LocalTopic) -> TopicPlan:
    return topic_plan(view, {each.name: each for each in local}, lambda name: name != "unwanted")


def test_topics_that_are_missing_are_created_if_their_names_match() -> None:
    found = plan(source({"a": 1, "b": 2, "unwanted": 1}), mirror("a"))
    assert [topic.name for topic in found.create] == ["b"]
    assert list(found.follow) == [("a", 0)]


def test_partitions_that_are_missing_are_added_and_followed_once_they_exist() -> None:
    found = plan(source({"a": 3}), mirror("a", 1))
    assert found.grow == {"a": 3}
    assert list(found.follow) == [("a", 0)]


def test_leader_epochs_are_raised_above_the_sources() -> None:
    assert plan(source({"a": 1}, epoch=4), mirror("a")).epochs == {}
    assert plan(source({"a": 1}, epoch=5), mirror("a")).epochs == {("a", 0): 6}
    assert plan(source({"a": 1}, epoch=-1), mirror("a")).epochs == {}


def test_a_topic_of_this_cluster_is_never_written_to() -> None:
    found = plan(source({"a": 1}), mirror("a", origin=""))
    assert not found.follow and "no mirror" in found.refused["a"]


def test_a_topic_that_was_created_again_and_one_of_another_cluster_are_refused() -> None:
    found = plan(source({"a": 1}, OTHER_ID), mirror("a"))
    assert not found.follow and "created it again" in found.refused["a"]
    found = plan(source({"a": 1}), mirror("a", origin=origin_of("elsewhere", ID)))
    assert not found.follow and "cluster elsewhere" in found.refused["a"]


def test_sources_without_topic_ids_are_recognised_by_their_cluster() -> None:
    old = mirror("a", origin=origin_of("cluster", bytes(16)))
    assert old.origin == "cluster/-"
    assert plan(source({"a": 1}), old).follow
    assert plan(source({"a": 1}, bytes(16)), mirror("a")).follow


def test_a_deleted_topic_is_kept_and_reported() -> None:
    found = plan(source({}), mirror("a"))
    assert not found.follow and "no such topic" in found.refused["a"]


def test_fewer_partitions_are_reported() -> None:
    assert "fewer" in plan(source({"a": 1}), mirror("a", 2)).refused["a"]


def test_promoted_topics_are_left_alone_and_the_last_one_ends_the_mirror() -> None:
    found = plan(source({"a": 1, "b": 1, "c": 1}), mirror("a", is_promoted=True), mirror("b"))
    assert (found.promoted, found.is_over) == (["a"], False)
    assert list(found.follow) == [("b", 0)] and [each.name for each in found.create] == ["c"]
    found = plan(source({"a": 1, "c": 1}), mirror("a", is_promoted=True))
    assert (found.promoted, found.is_over) == (["a"], True)
    assert not found.follow and not found.create
