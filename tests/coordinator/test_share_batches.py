"""Combining state batches: every offset gets the state with the highest precedence."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirekafka.coordinator.share_state.batches import combined
from wirekafka.coordinator.share_state.states import NO_OFFSET, StateBatch


@st.composite
def state_batches(draw: st.DrawFn) -> list[StateBatch]:
    count = draw(st.integers(0, 8))
    batches = []
    for _ in range(count):
        first = draw(st.integers(0, 40))
        batches.append(
            StateBatch(
                first,
                first + draw(st.integers(0, 15)),
                draw(st.sampled_from((0, 2, 4))),
                draw(st.integers(0, 3)),
            )
        )
    return batches


@pytest.mark.long
@given(state_batches(), state_batches(), st.integers(-1, 60))
def test_each_offset_takes_the_highest_delivery_count_then_state(
    known: list[StateBatch], new: list[StateBatch], start_offset: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in [*known, *new]:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            if offset >= start_offset:
                priority = batch.delivery_count, batch.delivery_state
                expected[offset] = max(expected.get(offset, priority), priority)
    before = combined((), tuple(known), NO_OFFSET)
    found = combined(before, tuple(new), start_offset)
    assert {
        offset: (batch.delivery_count, batch.delivery_state)
        for batch in found
        for offset in range(batch.first_offset, batch.last_offset + 1)
    } == expected
    for before, after in pairwise(found):
        assert before.last_offset < after.first_offset
        assert before.last_offset + 1 < after.first_offset or before[2:] != after[2:], (
            "adjacent offsets in one state are one batch"
        )


@pytest.mark.parametrize(
    ("known", "new", "start_offset", "expected"),
    [
        ([], [], 0, []),
        ([], [(9, 3, 0, 1)], NO_OFFSET, [(9, 3, 0, 1)]),
        ([(0, 9, 0, 1)], [], 4, [(4, 9, 0, 1)]),
        ([(0, 9, 0, 1)], [], 10, []),
        ([(0, 9, 0, 1)], [(10, 19, 0, 1)], 0, [(0, 19, 0, 1)]),
        ([(0, 9, 0, 1)], [(3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 2, 1)], [(3, 5, 0, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 9, 4, 1)], [(3, 12, 0, 2)], 0, [(0, 2, 4, 1), (3, 12, 0, 2)]),
    ],
)
def test_batches_are_combined_as_by_kafka(
    known: list[tuple[int, int, int, int]],
    new: list[tuple[int, int, int, int]],
    start_offset: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    before = tuple(StateBatch(*each) for each in known)
    found = combined(before, tuple(StateBatch(*each) for each in new), start_offset)
    assert found == tuple(StateBatch(*each) for each in expected)
