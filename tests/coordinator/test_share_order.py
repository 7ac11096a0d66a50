"""The order of a share group's topics where hashes collide: that of Kafka's collections."""

from __future__ import annotations

from collections.abc import Iterable

from tests.counted import Comparisons, CountedText
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.subscriptions import ShareSubscriptions
from wirekafka.coordinator.groups.share.topics import (
    StoredTopic,
    StoredTopics,
    Topics,
    as_computed,
    by_topic,
    in_order,
)
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.coordinator.java_order import HashOrder
from wirekafka.coordinator.topics import NO_TOPICS

IDS = [(each * 16 + each % 3).to_bytes(16, "big") for each in range(13)]
"""Topic ids in three of the first 16 buckets; one id more than a map of 16 buckets takes."""


def numbers(ids: Iterable[bytes]) -> list[int]:
    return [int.from_bytes(id, "big") for id in ids]


def topics(ids: Iterable[bytes]) -> Topics:
    return in_order((id, StoredTopic("topic", (0,))) for id in ids)


def subscribed(id: str, *names: str) -> ShareMember:
    return ShareMember(member_id=id, topics=frozenset(names), listed_topics=names)


# Subscriptions


def test_topics_are_counted_in_the_order_of_a_members_set() -> None:
    subscriptions = ShareSubscriptions()
    subscriptions.change(None, subscribed("x", "t0", "t5"))
    assert subscriptions.names() == ["t0", "t5"]


def test_map_of_topics_grows_when_a_count_is_lowered() -> None:
    subscriptions = ShareSubscriptions()
    one, other, more = subscribed("x", "t0"), subscribed("y", "t0"), subscribed("x", "t0", "t2")
    subscriptions.change(None, one)
    subscriptions.change(None, other)
    subscriptions.change(one, more)
    assert subscriptions.names() == ["t2", "t0"]
    subscriptions.change(other, None)
    assert subscriptions.names() == ["t0", "t2"]


def test_order_in_the_request_decides_between_names_with_equal_hashes() -> None:
    subscriptions, new = ShareSubscriptions(), ShareMember(member_id="x")
    assert list(subscriptions.after(new, subscribed("x", "t1", "t19"))) == ["t19", "t1"]
    assert list(subscriptions.after(new, subscribed("x", "t19", "t1"))) == ["t1", "t19"]


# Maps of topic ids


def test_results_are_in_the_reverse_order_within_a_bucket() -> None:
    found = by_topic((id, partition) for id in IDS[:4] for partition in (40, 8, 24))
    assert numbers(found) == [48, 0, 17, 34]
    assert list(found.values()) == [[24, 8, 40]] * 4


def test_map_grows_with_the_second_partition_of_the_last_topic() -> None:
    ids = [(3 + 16 * (each % 2) + each // 2).to_bytes(16, "big") for each in range(13)]
    by_bucket = [19, 3, 20, 4, 21, 5, 22, 6, 23, 7, 24, 8, 9]
    assert numbers(by_topic((id, 0) for id in ids)) == by_bucket
    assert numbers(as_computed(ids)) == by_bucket
    assert numbers(by_topic((id, each) for id in ids for each in (0, 1))) == sorted(by_bucket)


def test_map_stays_as_large_as_it_was_when_topics_are_removed() -> None:
    stored = StoredTopics(initialized=topics(IDS))
    assert numbers(stored.initialized) == [
        *(0, 96, 192, 65, 161, 34, 130),
        *(48, 144, 17, 113, 82, 178),
    ]
    after = stored.with_deleting([IDS[0], IDS[4]])
    assert numbers(after.initialized) == [96, 192, 161, 34, 130, 48, 144, 17, 113, 82, 178]
    assert numbers(after.deleting) == [0, 65]
    begun = StoredTopics(topics(IDS)).with_initialized({IDS[0]: [0], IDS[4]: [0]}, NO_TOPICS)
    assert numbers(begun.initializing) == numbers(after.initialized)


def test_copy_of_a_full_set_is_larger_than_the_set() -> None:
    stored = StoredTopics(deleting=tuple(topics(IDS[:12])))
    assert numbers(stored.deleting) == [0, 48, 96, 144, 17, 65, 113, 161, 34, 82, 130, 178]
    after = stored.without_deleting([IDS[2]])
    assert numbers(after.deleting) == [0, 96, 48, 144, 65, 161, 17, 113, 130, 82, 178]


def test_a_member_with_very_many_topics_can_change_all_of_them() -> None:
    order: HashOrder[CountedText] = HashOrder(java_hash_code)
    old = [CountedText(f"old-{number}") for number in range(400)]
    for name in old:
        order.put(name)
    Comparisons.begin()
    for name in reversed(old):
        order.remove(name)
        order.compute(CountedText(name.replace("old", "new")))
    assert sorted(order.walk()) == sorted(name.replace("old", "new") for name in old)
    assert Comparisons.made < 20 * len(old)
