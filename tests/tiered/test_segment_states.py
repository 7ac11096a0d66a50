"""Which remote segments are known, readable, and part of a log's history."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.epochs import EpochEntry
from wirekafka.tiered.expiry import LocalLog, expired
from wirekafka.tiered.remote_segment import (
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)
from wirekafka.tiered.segment_states import Lineage, SegmentStates

PARTITION = TieredPartition("t", bytes(16), 0)
FINISHED, DELETING, DELETED = (
    SegmentState.COPY_FINISHED,
    SegmentState.DELETE_STARTED,
    SegmentState.DELETE_FINISHED,
)


def epochs(*pairs: tuple[int, int]) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(*pair) for pair in pairs)


def segment(name: str, start: int, end: int, *pairs: tuple[int, int]) -> RemoteSegment:
    return RemoteSegment(
        partition=PARTITION,
        id=name.encode().ljust(16),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=start,
        broker_id=1,
        event_ms=0,
        size_bytes=100,
        epochs=epochs(*(pairs or ((0, start),))),
    )


def update(name: str, state: SegmentState) -> SegmentUpdate:
    return SegmentUpdate(
        partition=PARTITION, id=name.encode().ljust(16), broker_id=1, event_ms=1, state=state
    )


def copied(*segments: RemoteSegment) -> SegmentStates:
    states = SegmentStates()
    for each in segments:
        assert states.add(each)
        assert states.update(update(name_of(each), FINISHED))
    return states


def name_of(found: RemoteSegment | None) -> str:
    return "" if found is None else found.id.decode().strip()


def test_a_segment_is_readable_once_it_has_been_copied() -> None:
    states = SegmentStates()
    states.add(segment("a", 0, 10))
    assert states.find(0, 5) is None
    assert states.end_offset(epochs((0, 0)), 20) == -1
    states.update(update("a", FINISHED))
    assert name_of(states.find(0, 5)) == "a"
    assert states.find(0, 10) is None
    assert states.find(1, 5) is None
    assert states.end_offset(epochs((0, 0)), 20) == 10


def test_a_segment_is_not_readable_while_it_is_deleted_and_then_forgotten() -> None:
    states = copied(segment("a", 0, 10), segment("b", 10, 20))
    states.update(update("a", DELETING))
    assert states.find(0, 5) is None
    assert len(states) == 2
    states.update(update("a", DELETED))
    assert len(states) == 1
    # What was copied stays known: the next copy begins behind it.
    assert states.end_offset(epochs((0, 0)), 30) == 20


def test_an_update_whose_segment_is_lost_or_whose_state_goes_backwards_is_dropped() -> None:
    states = copied(segment("a", 0, 10))
    assert not states.update(update("lost", FINISHED))
    assert not states.update(update("a", DELETED))
    assert states.update(update("a", FINISHED))
    assert not states.add(
        RemoteSegment(
            partition=PARTITION,
            id=bytes(16),
            start_offset=0,
            end_offset=1,
            max_timestamp_ms=0,
            broker_id=1,
            event_ms=0,
            size_bytes=1,
            epochs=epochs((0, 0)),
            state=FINISHED,
        )
    )


def test_a_segment_that_is_copied_again_supersedes_those_it_covers() -> None:
    states = copied(segment("a", 0, 10), segment("b", 10, 20), segment("c", 0, 20))
    assert name_of(states.find(0, 5)) == "c"
    assert name_of(states.find(0, 15)) == "c"
    assert len(states) == 3, "superseded segments have to be deleted some time"


def test_a_segment_with_two_epochs_is_found_in_either() -> None:
    states = copied(segment("a", 0, 10, (1, 0), (3, 6)))
    assert name_of(states.find(1, 5)) == "a"
    assert states.find(1, 6) is None
    assert name_of(states.find(3, 6)) == "a"
    following = copied(segment("a", 0, 10, (1, 0), (3, 6)), segment("b", 10, 12, (3, 10)))
    first = following.find(1, 0)
    assert first is not None
    assert name_of(following.following(first, epochs((1, 0), (3, 6)))) == "b"


def test_what_a_lost_leader_copied_counts_up_to_the_end_of_its_epoch() -> None:
    """An unclean election: the new leader's log has fewer records of epoch 1 than were copied."""
    states = copied(segment("a", 0, 10, (1, 0)), segment("b", 10, 20, (1, 10)))
    assert states.end_offset(epochs((1, 0), (2, 15)), 40) == 15


@pytest.mark.parametrize(
    ("of_segment", "of_log", "expected"),
    [
        (((0, 0),), ((0, 0),), True),
        (((0, 0),), ((1, 0),), False),
        (((0, 0), (1, 5)), ((0, 0), (1, 5)), True),
        (((0, 0), (1, 5)), ((0, 0), (1, 6)), False),
        (((0, 0), (1, 5)), ((0, 0), (2, 5)), False),
        (((0, 0),), ((0, 0), (1, 10)), True),
        (((0, 0),), ((0, 0), (1, 9)), False),
        (((0, 0), (1, 5)), ((1, 7),), True),
        (((0, 0), (1, 5)), ((2, 10),), False),
        (((0, 0), (1, 5), (2, 8)), ((0, 0), (2, 5)), False),
    ],
)
def test_a_segment_belongs_to_a_log_whose_epochs_it_shares(
    of_segment: Sequence[tuple[int, int]], of_log: Sequence[tuple[int, int]], expected: bool
) -> None:
    assert Lineage(epochs(*of_log), 30).has(segment("a", 0, 10, *of_segment)) is expected


def test_a_segment_that_ends_behind_the_log_does_not_belong_to_it() -> None:
    assert not Lineage(epochs((0, 0)), 9).has(segment("a", 0, 10))
    assert not Lineage((), 30).has(segment("a", 0, 10))


def test_two_copies_of_the_same_records_count_once_in_retention_by_size() -> None:
    states = copied(segment("a", 0, 10), segment("b", 0, 10), segment("c", 10, 20))
    local = LocalLog(epochs=epochs((0, 0)), start_offset=0, end_offset=20, newer_bytes=0)
    config = TopicConfig().changed(retention_bytes=200)
    assert expired(states, config, local, now_ms=0).start_offset == 0
    config = config.changed(retention_bytes=100)
    assert expired(states, config, local, now_ms=0).start_offset == 10


def test_what_is_readable_ends_where_the_log_does() -> None:
    """A replica that was left behind and is elected unclean writes other records from there on."""
    states = copied(segment("a", 0, 10, (1, 0)), segment("b", 10, 20, (1, 10)))
    assert states.readable_end(epochs((1, 0)), 0, 30) == 20
    assert states.readable_end(epochs((1, 0)), 0, 15) == 15
    assert states.readable_end(epochs((1, 0), (2, 15)), 0, 40) == 15
