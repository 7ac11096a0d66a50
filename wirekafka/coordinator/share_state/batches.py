"""Combines the state batches of a share partition, as Kafka's share coordinator stores them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from operator import attrgetter, itemgetter

from wirekafka.coordinator.share_state.states import NO_OFFSET, StateBatch

Batches = tuple[StateBatch, ...]

_LARGEST_OFFSET = (1 << 63) - 2

_FIRST, _LAST = attrgetter("first_offset"), attrgetter("last_offset")

_Priority = tuple[int, int]
"""(delivery count, delivery state): of overlapping batches, the greatest wins."""


def combined(known: Batches, new: Batches, start_offset: int) -> Batches:
    """Merge `new` state batches, which may overlap, into `known` batches.

    `known` is a result of this function. Of overlapping batches, an offset takes the batch with the
    highest delivery count, and among equal counts the batch with the highest delivery state.
    Adjacent offsets in one state become one batch. Offsets below `start_offset` are dropped, unless
    it is `NO_OFFSET`. A single batch is kept as it is. In all other cases each batch must be
    `is_valid`.
    """
    if start_offset != NO_OFFSET:
        known = _known_from(known, start_offset)
        new = _from_offset(new, start_offset)
    if not new:
        return known
    # The batches before and behind the new ones, not even adjacent to them, stay as they are.
    first = bisect_left(known, min(map(_FIRST, new)) - 1, key=_LAST)
    end = bisect_right(known, max(map(_LAST, new)) + 1, key=_FIRST)
    if first >= end and len(new) == 1:
        return known[:first] + new + known[first:]
    return (*known[:first], *_swept((*known[first:end], *new)), *known[end:])


def is_valid(batch: StateBatch) -> bool:
    """Whether the batch has a range of offsets that can be combined with other batches."""
    return batch.first_offset <= batch.last_offset <= _LARGEST_OFFSET


def _known_from(known: Batches, start_offset: int) -> Batches:
    if not known or known[0].first_offset >= start_offset:
        return known
    first = bisect_left(known, start_offset, key=_LAST)
    return _from_offset(known[first : first + 1], start_offset) + known[first + 1 :]


def _from_offset(batches: Batches, start_offset: int) -> Batches:
    return tuple(
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    )


def _swept(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Go through the offsets at which batches begin or end, with the priorities that cover them."""
    events = sorted(
        [
            *((batch.first_offset, True, _priority(batch)) for batch in batches),
            *((batch.last_offset + 1, False, _priority(batch)) for batch in batches),
        ],
        key=itemgetter(0),
    )
    out: list[StateBatch] = []
    active: list[_Priority] = []
    covered_from = events[0][0]
    for offset, is_begin, priority in events:
        if offset > covered_from:
            if active:
                _append(out, covered_from, offset - 1, active[-1])
            covered_from = offset
        if is_begin:
            insort(active, priority)
        else:
            del active[bisect_right(active, priority) - 1]
    return out


def _append(
    out: list[StateBatch], first_offset: int, last_offset: int, priority: _Priority
) -> None:
    count, state = priority
    if out and out[-1][1:] == (first_offset - 1, state, count):
        out[-1] = out[-1]._replace(last_offset=last_offset)
    else:
        out.append(StateBatch(first_offset, last_offset, state, count))


def _priority(batch: StateBatch) -> _Priority:
    return batch.delivery_count, batch.delivery_state
