"""The checker finds each kind of violation in a history, and none in a valid one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.histories.checker import Author, Kind, check, check_power_cut
from tests.histories.history import (
    Drained,
    History,
    OffsetCommit,
    OffsetFetch,
    Operation,
    Read,
    Send,
    Verdict,
)

P = ("t", 0)
Q = ("u", 0)


class Story:
    """A valid history: three plain writes, a committed and an aborted transaction, readers.

    P holds 0 1 2, then 10 11 of the transaction, its marker, the aborted 20 and its marker.
    """

    def __init__(self) -> None:
        history = self.history = History()
        self.plain = [self._plain(value) for value in range(3)]
        self.before = history.read("reader", Read(True, [(P, value, value) for value in range(3)]))
        self.kept = self._transaction(
            "t1",
            [Send(P, 10, 3), Send(P, 11, 4), Send(Q, 12, 0), OffsetCommit("g", P, 2)],
            Verdict.DONE,
        )
        self.dropped = self._transaction(
            "t2", [Send(P, 20, 6), OffsetCommit("g", P, 3)], Verdict.UNDONE
        )
        self.after = history.read("reader", Read(True, [(P, 3, 10), (P, 4, 11)]))
        self.dirty = history.read("dirty", Read(False, [(P, 4, 11), (P, 6, 20)]))
        committed = [(0, 0), (1, 1), (2, 2), (3, 10), (4, 11)]
        history.drained = {
            P: Drained(committed, [*committed, (6, 20)], 8),
            Q: Drained([(0, 12)], [(0, 12)], 2),
        }
        history.group_offsets = {("g", P): 2}

    def _plain(self, value: int) -> Operation:
        operation = self.history.begin("plain", Send(P, value, value))
        self.history.end(operation, Verdict.DONE)
        return operation

    def _transaction(
        self, process: str, steps: list[Send | OffsetCommit], verdict: Verdict
    ) -> Operation:
        operation = self.history.begin(process, *steps, is_transaction=True)
        if verdict is Verdict.DONE:
            operation.decided = self.history.tick()
        self.history.end(operation, verdict)
        return operation

    def kinds(self) -> set[Kind]:
        return {violation.kind for violation in check(self.history)}


def duplicate(story: Story) -> None:
    story.history.drained[P].uncommitted.append((7, 2))


def inconsistent_offsets(story: Story) -> None:
    next(story.plain[1].sends()).offset = 2


def lost_write(story: Story) -> None:
    story.history.drained[P].committed.remove((1, 1))


def lost_write_of_a_transaction(story: Story) -> None:
    story.history.drained[Q].committed.clear()


def unseen(story: Story) -> None:
    story.history.drained[P] = Drained([(0, 0), (1, 1)], [(0, 0), (1, 1)], 2)


def aborted_read(story: Story) -> None:
    next(story.after.reads()).records.append((P, 6, 20))


def aborted_read_of_a_refused_write(story: Story) -> None:
    story.plain[2].verdict = Verdict.UNDONE


def uncommitted_read(story: Story) -> None:
    next(story.before.reads()).records.append((P, 3, 10))


def own_uncommitted_read(story: Story) -> None:
    story.kept.steps.append(Read(True, [(P, 3, 10)], ended=story.history.tick()))


def unwritten_read(story: Story) -> None:
    next(story.dirty.reads()).records.append((P, 7, 99))


def non_monotonic_read(story: Story) -> None:
    next(story.after.reads()).records.insert(0, (P, 2, 2))


def non_monotonic_send(story: Story) -> None:
    first, second = next(story.plain[0].sends()), next(story.plain[1].sends())
    first.offset, second.offset = 1, 0


def poll_skip_inside_a_poll(story: Story) -> None:
    next(story.before.reads()).records.remove((P, 1, 1))


def poll_skip_between_polls(story: Story) -> None:
    next(story.after.reads()).records.remove((P, 3, 10))


def poll_skip_of_an_aborted_write(story: Story) -> None:
    story.history.drained[P].uncommitted.insert(5, (5, 21))
    story.dropped.steps.append(Send(P, 21, 5))


def torn_transaction(story: Story) -> None:
    story.kept.verdict = Verdict.UNKNOWN
    story.history.drained[Q].committed.clear()


def cycle(story: Story) -> None:
    other = story._transaction("t3", [Send(Q, 30, 2)], Verdict.DONE)
    other.steps.append(Read(True, [(Q, 0, 12)], ended=story.history.tick()))
    story.kept.steps.append(Read(True, [(Q, 2, 30)], ended=story.history.tick()))
    story.history.drained[Q] = Drained([(0, 12), (2, 30)], [(0, 12), (2, 30)], 4)


def lost_offsets(story: Story) -> None:
    story.history.group_offsets["g", P] = -1


def lost_offsets_on_the_way(story: Story) -> None:
    fetch = story.history.begin("member", OffsetFetch("g", P, -1))
    story.history.end(fetch, Verdict.DONE)


def aborted_offsets(story: Story) -> None:
    story.history.group_offsets["g", P] = 3


PLANTED: list[tuple[Callable[[Story], None], Kind]] = [
    (duplicate, Kind.DUPLICATE),
    (inconsistent_offsets, Kind.INCONSISTENT_OFFSETS),
    (lost_write, Kind.LOST_WRITE),
    (lost_write_of_a_transaction, Kind.LOST_WRITE),
    (unseen, Kind.UNSEEN),
    (aborted_read, Kind.ABORTED_READ),
    (aborted_read_of_a_refused_write, Kind.ABORTED_READ),
    (uncommitted_read, Kind.UNCOMMITTED_READ),
    (own_uncommitted_read, Kind.UNCOMMITTED_READ),
    (unwritten_read, Kind.UNWRITTEN_READ),
    (non_monotonic_read, Kind.NON_MONOTONIC_READ),
    (non_monotonic_send, Kind.NON_MONOTONIC_SEND),
    (poll_skip_inside_a_poll, Kind.POLL_SKIP),
    (poll_skip_between_polls, Kind.POLL_SKIP),
    (poll_skip_of_an_aborted_write, Kind.POLL_SKIP),
    (torn_transaction, Kind.TORN_TRANSACTION),
    (cycle, Kind.CYCLE),
    (lost_offsets, Kind.LOST_OFFSETS),
    (lost_offsets_on_the_way, Kind.LOST_OFFSETS),
    (aborted_offsets, Kind.ABORTED_OFFSETS),
]


def test_a_valid_history_has_no_violation() -> None:
    assert check(Story().history) == []


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=lambda each: getattr(each, "__name__", ""))
def test_each_kind_of_violation_is_found(plant: Callable[[Story], None], kind: Kind) -> None:
    story = Story()
    plant(story)
    assert kind in story.kinds()


def test_every_kind_of_violation_has_a_case() -> None:
    assert {kind for _, kind in PLANTED} == set(Kind)


def test_positions_may_go_back_and_skip_after_a_seek_or_an_assignment() -> None:
    story = Story()
    read = next(story.after.reads())
    read.records[:] = [(P, 1, 1)]
    read.is_fresh = True
    assert story.kinds() == set()


def test_writes_of_unknown_outcome_may_be_missing() -> None:
    story = Story()
    story.plain[2].verdict = Verdict.UNKNOWN
    assert story.kinds() == set()
    for pairs in (story.history.drained[P].committed, story.history.drained[P].uncommitted):
        pairs.remove((2, 2))
    next(story.before.reads()).records.pop()
    assert story.kinds() == set()


def test_offsets_of_a_transaction_of_unknown_outcome_may_be_committed() -> None:
    story = Story()
    story.dropped.verdict = Verdict.UNKNOWN
    story.dropped.decided = story.history.tick()
    assert story.kinds() == set()
    story.history.group_offsets["g", P] = 3
    assert story.kinds() == set()


def test_a_power_cut_may_remove_a_suffix_but_leave_no_hole_and_commit_nothing() -> None:
    before = Drained([(0, 0), (2, 2)], [(0, 0), (1, 1), (2, 2)], 3)
    assert check_power_cut(P, before, Drained([(0, 0)], [(0, 0), (1, 1)], 2), {}) == []
    assert check_power_cut(P, before, Drained([], [], 0), {}) == []
    for after, kind in (
        (Drained([(0, 0), (2, 2)], [(0, 0), (2, 2)], 3), Kind.LOST_WRITE),
        (Drained([(0, 0), (1, 1)], [(0, 0), (1, 1)], 2), Kind.ABORTED_READ),
    ):
        assert [each.kind for each in check_power_cut(P, before, after, {})] == [kind]


# Of the producer tx: 1 and 2 aborted, 3 committed, 5 aborted. 4 is plain.
ACKNOWLEDGED = Drained([(4, 3), (6, 4)], [(0, 1), (1, 2), (4, 3), (6, 4), (7, 5)], 9)
AUTHORS = {1: Author("tx", 1), 2: Author("tx", 1), 3: Author("tx", 2), 5: Author("tx", 3)}


@pytest.mark.parametrize(
    "after",
    [
        Drained([(0, 1), (1, 2)], [(0, 1), (1, 2)], 3, 3),
        Drained([], [(0, 1), (1, 2), (4, 3)], 6, 6),
        Drained([], [(0, 1), (1, 2), (4, 3), (6, 4)], 4, 7),
    ],
    ids=["committed by a later one's marker", "aborted by a timeout", "open for ever"],
)
def test_a_transaction_that_lost_its_marker_in_a_power_cut_may_end_again(after: Drained) -> None:
    assert check_power_cut(P, ACKNOWLEDGED, after, AUTHORS) == []


def test_a_marker_may_follow_open_records_of_another_producer() -> None:
    before = Drained([(0, 1), (1, 2)], [(0, 1), (1, 2)], 4)
    authors = {1: Author("tx", 1), 2: Author("other", 1)}
    aborted = Drained([], before.uncommitted, 1, 3)
    assert check_power_cut(P, before, aborted, authors) == []
    aborted.log_end = 2
    (found,) = check_power_cut(P, before, aborted, authors)
    assert found.kind is Kind.LOST_WRITE


@pytest.mark.parametrize(
    ("earlier", "has_first_protocol", "kinds"),
    [("tx", True, []), ("tx", False, [Kind.ABORTED_READ]), ("other", True, [Kind.ABORTED_READ])],
    ids=["its own, of the same epoch", "its own, of an older epoch", "another's"],
)
def test_a_repeated_marker_of_an_earlier_transaction_may_commit_the_last_one(
    earlier: str, has_first_protocol: bool, kinds: list[Kind]
) -> None:
    before = Drained([(0, 1)], [(0, 1), (2, 2)], 4)
    after = Drained([(0, 1), (2, 2)], before.uncommitted, 4, 4)
    authors = {
        value: Author(name, value, has_first_protocol) for value, name in ((1, earlier), (2, "tx"))
    }
    assert [each.kind for each in check_power_cut(P, before, after, authors)] == kinds


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        (Drained([(0, 1), (1, 2), (4, 3)], ACKNOWLEDGED.uncommitted[:3], 6, 6), Kind.ABORTED_READ),
        (Drained([(0, 1), (1, 2)], ACKNOWLEDGED.uncommitted[:2], 2, 2), Kind.ABORTED_READ),
        (
            Drained([*ACKNOWLEDGED.committed, (7, 5)], ACKNOWLEDGED.uncommitted, 9, 9),
            Kind.ABORTED_READ,
        ),
        (
            Drained([(4, 3), (6, 4), (9, 6)], [*ACKNOWLEDGED.uncommitted, (9, 6)], 10, 10),
            Kind.ABORTED_READ,
        ),
        (Drained([(1, 2)], ACKNOWLEDGED.uncommitted[:2], 3, 3), Kind.TORN_TRANSACTION),
        (Drained([(6, 4)], ACKNOWLEDGED.uncommitted, 9, 9), Kind.LOST_WRITE),
        (Drained([(4, 3)], ACKNOWLEDGED.uncommitted[:4], 7, 7), Kind.LOST_WRITE),
    ],
    ids=[
        "aborted, before another that is left",
        "aborted, without another marker",
        "aborted, the last of all",
        "never written",
        "half of a transaction",
        "committed, before another that is left",
        "plain, not seen",
    ],
)
def test_impossible_outcomes_of_a_power_cut_are_found(after: Drained, kind: Kind) -> None:
    assert kind in {each.kind for each in check_power_cut(P, ACKNOWLEDGED, after, AUTHORS)}
