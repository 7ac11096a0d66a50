"""What a disk budget deletes: read before unread, old before new, and no more than needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from wirekafka.config.own import DiskLimit
from wirekafka.log.directories.disk_budget import (
    BudgetPartition,
    BudgetSegment,
    DeletionPlan,
    SpareRank,
    planning,
)

READ_FIRST = DiskLimit(1)
KEEP_UNREAD = DiskLimit(1, deletes_unread=False)


def partition(
    topic: str,
    *ages: int,
    read: dict[str, int] | None = None,
    keeps_unread: bool = False,
    is_remote: bool = False,
) -> BudgetPartition:
    """Segments of 10 records and 100 bytes, the last one active."""
    return BudgetPartition(
        topic=topic,
        partition=0,
        start_offset=0,
        segments=[
            BudgetSegment(10 * number + 10, 100, age, number == len(ages) - 1)
            for number, age in enumerate(ages)
        ],
        positions=read,
        keeps_unread=keeps_unread,
        is_remote=is_remote,
    )


def planned(
    partitions: Collection[BudgetPartition], excess_bytes: int, limit: DiskLimit
) -> DeletionPlan:
    return planned_in_steps(partitions, excess_bytes, limit)[0]


def planned_in_steps(
    partitions: Collection[BudgetPartition], excess_bytes: int, limit: DiskLimit
) -> tuple[DeletionPlan, int]:
    """The plan, and how often it was interrupted."""
    plans: list[DeletionPlan] = []

    def steps() -> Iterator[None]:
        plans.append((yield from planning(partitions, excess_bytes, limit)))

    count = sum(1 for _ in steps())
    return plans[0], count


def rank(partition: BudgetPartition, segment: BudgetSegment) -> SpareRank:
    end_offset = segment.end_offset
    if partition.is_remote or end_offset <= partition.start_offset:
        return SpareRank.READ
    if partition.positions is None:
        return SpareRank.UNREAD
    if not partition.positions:
        return SpareRank.UNCLAIMED
    is_read = all(position >= end_offset for position in partition.positions.values())
    return SpareRank.READ if is_read else SpareRank.UNREAD


def ends(plan: DeletionPlan) -> dict[str, int]:
    return {each.topic: each.end_offset for each in plan.deletions}


def test_nothing_goes_within_the_budget() -> None:
    plan = planned([partition("a", 1, 2, read={"g": 99})], 0, READ_FIRST)
    assert plan == DeletionPlan(excess_bytes=0) and plan.shortfall_bytes == 0


def test_the_oldest_read_segments_of_all_topics_go_first() -> None:
    topics = [
        partition("a", 1, 5, 9, read={"g": 20}),
        partition("b", 2, 3, 9, read={"g": 99}),
        partition("c", 0, 0, 9, read={"g": 0}),
    ]
    assert ends(planned(topics, 300, READ_FIRST)) == {"a": 10, "b": 20}
    assert ends(planned(topics, 301, READ_FIRST)) == {"a": 20, "b": 20}


def test_a_segment_is_read_when_the_slowest_group_has_read_all_of_it() -> None:
    topic = partition("a", 1, 2, 9, read={"fast": 99, "slow": 19})
    assert ends(planned([topic], 1000, KEEP_UNREAD)) == {"a": 10}


def test_read_segments_go_before_those_of_no_group_and_unread_ones_last() -> None:
    topics = [
        partition("unread", 1, 9, read={"g": 0}),
        partition("unclaimed", 2, 9, read={}),
        partition("read", 3, 9, read={"g": 99}),
    ]
    order = []
    for excess_bytes in (100, 200, 300, 400, 500, 600):
        plan = planned(topics, excess_bytes, READ_FIRST)
        order.append({each.topic: each.segments for each in plan.deletions})
    assert order == [
        {"read": 1},
        {"read": 2},
        {"read": 2, "unclaimed": 1},
        {"read": 2, "unclaimed": 2},
        {"read": 2, "unclaimed": 2, "unread": 1},
        {"read": 2, "unclaimed": 2, "unread": 2},
    ]


def test_active_segments_go_after_all_closed_segments_of_their_rank() -> None:
    topics = [partition("a", 1, read={"g": 99}), partition("b", 8, 9, read={"g": 99})]
    assert ends(planned(topics, 100, READ_FIRST)) == {"b": 10}
    assert ends(planned(topics, 200, READ_FIRST)) == {"a": 10, "b": 10}


def test_each_group_that_loses_records_is_named_with_their_number() -> None:
    topic = partition("a", 1, 2, 9, read={"all": 0, "some": 15, "none": 20})
    plan = planned([topic], 200, READ_FIRST)
    assert [(each.group, each.records, each.size_bytes) for each in plan.losses] == [
        ("all", 20, 200),
        ("some", 5, 50),
    ]
    assert plan.freed_by_topic() == {"a": 200}


def test_a_topic_that_keeps_unread_records_loses_only_what_is_read() -> None:
    topics = [
        partition("kept", 1, 2, 9, read={"g": 10}, keeps_unread=True),
        partition("other", 3, 9, read={"g": 0}),
    ]
    plan = planned(topics, 1000, READ_FIRST)
    assert ends(plan) == {"kept": 10, "other": 20}
    assert (plan.freed_bytes, plan.shortfall_bytes) == (300, 700)


@pytest.mark.parametrize("keeps_unread", [False, True])
def test_unknown_positions_count_as_unread(keeps_unread: bool) -> None:
    topic = partition("a", 1, 2, keeps_unread=keeps_unread)
    assert ends(planned([topic], 100, KEEP_UNREAD)) == {}
    plan = planned([topic], 100, READ_FIRST)
    assert [(each.group, each.records) for each in plan.losses] == (
        [] if keeps_unread else [(None, 10)]
    )


def test_nobody_loses_what_is_in_remote_storage_too() -> None:
    topic = partition("a", 1, 2, read={"g": 0}, keeps_unread=True, is_remote=True)
    plan = planned([topic], 200, KEEP_UNREAD)
    assert (plan.freed_bytes, plan.losses) == (200, ())


def test_what_is_below_the_log_start_offset_goes_first_and_nobody_loses_it() -> None:
    deleted = replace(partition("a", 5, 6, read={"g": 0}, keeps_unread=True), start_offset=13)
    plan = planned([deleted, partition("b", 1, 2, read={"g": 99})], 100, KEEP_UNREAD)
    assert ends(plan) == {"b": 10}
    plan = planned([deleted], 200, KEEP_UNREAD)
    assert (ends(plan), plan.losses) == ({"a": 10}, ())
    plan = planned([replace(deleted, keeps_unread=False)], 200, READ_FIRST)
    assert [(each.records, each.size_bytes) for each in plan.losses] == [(7, 100)]


segments = some.lists(
    some.tuples(some.integers(1, 9), some.integers(0, 99), some.integers(0, 50)), max_size=6
)
positions = some.none() | some.dictionaries(
    some.sampled_from(["g", "h", "i"]), some.integers(0, 40), max_size=3
)


@some.composite
def partitions(draw: some.DrawFn) -> list[BudgetPartition]:
    found = []
    for number, sizes in enumerate(draw(some.lists(segments, max_size=5))):
        end_offset, spare = 0, []
        for records, size_bytes, age in sizes:
            end_offset += records
            spare.append(BudgetSegment(end_offset, size_bytes, age))
        if spare and draw(some.booleans()):
            spare[-1] = spare[-1]._replace(is_active=True)
        found.append(
            BudgetPartition(
                topic=f"t{number}",
                partition=0,
                start_offset=draw(some.integers(0, 12)),
                segments=spare,
                positions=draw(positions),
                keeps_unread=draw(some.booleans()),
                is_remote=draw(some.integers(0, 9)) == 0,
            )
        )
    return found


@given(partitions(), some.integers(0, 1500), some.booleans())
def test_no_plan_deletes_too_much_or_out_of_order(
    found: list[BudgetPartition], excess_bytes: int, deletes_unread: bool
) -> None:
    limit = DiskLimit(1, deletes_unread)
    plan = planned(found, excess_bytes, limit)
    deleted = {each.topic: each for each in plan.deletions}
    gone, left, last = [], [], []
    for each in found:
        count = deleted[each.topic].segments if each.topic in deleted else 0
        gone += [(each, segment) for segment in each.segments[:count]]
        left += [(each, segment) for segment in each.segments[count : count + 1]]
        if count:
            last.append(each.segments[count - 1])
            assert deleted[each.topic].end_offset == last[-1].end_offset
    assert plan.freed_bytes == sum(segment.size_bytes for _, segment in gone)

    def may_go(one: tuple[BudgetPartition, BudgetSegment]) -> bool:
        is_kept = one[0].keeps_unread or not deletes_unread
        return rank(*one) is not SpareRank.UNREAD or not is_kept

    # Nothing unread that is kept, by the policy or by the topic.
    assert all(map(may_go, gone))
    if not deletes_unread:
        assert plan.losses == ()
    # Enough, or everything that may go.
    assert plan.freed_bytes >= excess_bytes or not any(map(may_go, left))
    # No more than enough: one of the last deletions is needed for it.
    if gone:
        assert any(plan.freed_bytes - each.size_bytes < excess_bytes for each in last)
    # Whatever could still go is at least as hard to spare as everything that has gone.
    hardest = max((rank(*each) for each in gone), default=SpareRank.READ)
    assert all(rank(*each) >= hardest for each in left if may_go(each))


@given(partitions(), some.lists(some.integers(0, 1500), min_size=2, max_size=4))
def test_more_to_free_never_spares_what_less_would_delete(
    found: list[BudgetPartition], excesses: list[int]
) -> None:
    plans = [ends(planned(found, excess, READ_FIRST)) for excess in sorted(excesses)]
    for less, more in pairwise(plans):
        assert all(more[topic] >= end_offset for topic, end_offset in less.items())


@given(
    ages=some.lists(some.integers(0, 9), min_size=1, max_size=5),
    read=some.dictionaries(some.text("gh", min_size=1), some.integers(0, 60), min_size=1),
    start_offset=some.integers(0, 60),
)
def test_a_loss_is_the_sum_of_what_is_unread_in_each_segment(
    ages: list[int], read: dict[str, int], start_offset: int
) -> None:
    topic = replace(partition("a", *ages, read=read), start_offset=start_offset)
    plan = planned([topic], 100 * len(ages), READ_FIRST)
    expected = {}
    for group, position in read.items():
        records = size_bytes = 0
        for each in topic.segments:
            begin = max(each.end_offset - 10, start_offset)
            unread = each.end_offset - max(begin, position)
            if unread > 0:
                records += unread
                size_bytes += each.size_bytes * unread // (each.end_offset - begin)
        if records:
            expected[group] = records, size_bytes
    assert {each.group: (each.records, each.size_bytes) for each in plan.losses} == expected
    assert plan.lost_bytes == sum(size_bytes for _, size_bytes in expected.values())


def test_a_plan_for_many_groups_is_made_in_steps_and_names_the_greatest_losses() -> None:
    read = {f"g{number}": number % 1_000 for number in range(6_000)}
    topic = partition("a", *range(100), read=read)
    plan, steps = planned_in_steps([topic], 10_000, READ_FIRST)
    assert steps >= 9
    assert len(plan.losses) == 5_000 and plan.losses[0].records == 1_000
    assert plan.losses[-1].records > 100
    assert plan.lost_bytes > sum(each.size_bytes for each in plan.losses)
