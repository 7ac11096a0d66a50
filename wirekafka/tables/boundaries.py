"""Finds where the records of many batches begin: many at a time, each from the one before it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirekafka.codec.record import SMALLEST_RECORD_BYTES
from wirekafka.codec.varint import decode_varint
from wirekafka.tables.scan import Int64s
from wirekafka.tables.varints import BufferViews, Unusual, varints

_FEWEST_LANES = 24
"""The fewest lanes that go on together: for fewer, single steps in Python take less time than
numpy's calls."""
_LANES_PER_ROOT_BYTE = 0.03
"""The records in a lane, for the square root of the buffer's bytes. More lanes have fewer steps,
each of which calls numpy, and more guesses, each of which reads two records."""
_GUESSED_RECORDS = 2
_LARGEST_GUESSED_BYTES = 4096
"""The largest mean size of records whose starts are guessed: few large records are found soon."""
_CHAIN = 4
"""How many records in a row make a guess a good one."""
_TOO_FAR = 1 << 40


class _Lanes(NamedTuple):
    """Positions where records begin, and where the lane that begins there has to arrive."""

    positions: Int64s
    targets: Int64s


def record_positions(
    data: bytes | memoryview, views: BufferViews, starts: Int64s, stops: Int64s, counts: Int64s
) -> Int64s:
    """The position of each record's length, batch after batch.

    The records of each batch lie at `starts` to `stops`. Lanes go through the buffer in lock step,
    from the start of each batch and, in long batches, from guessed starts of records. A guess is
    right if the lane before it arrives exactly there; otherwise its batch is gone through alone.
    Raises Unusual unless each batch has as many records as it says.
    """
    filled = counts > 0
    if not filled.all():
        starts, stops, counts = starts[filled], stops[filled], counts[filled]
    lanes = _lanes(views, starts, stops, counts)
    found, missed = _lock_step(data, views, lanes)
    if len(missed):
        found = _walked_again(data, found, starts, stops, missed)
    firsts = np.searchsorted(found, starts)
    if (np.diff(firsts, append=len(found)) != counts).any():
        raise Unusual
    return found


def _lanes(views: BufferViews, starts: Int64s, stops: Int64s, counts: Int64s) -> _Lanes:
    guesses = _guesses(views, starts, stops, counts)
    if not len(guesses):
        return _Lanes(starts, stops)
    positions = np.unique(np.concatenate((starts, guesses)))
    batches = np.searchsorted(starts, positions, "right") - 1
    following = np.append(positions[1:], _TOO_FAR)
    return _Lanes(positions, np.minimum(following, stops[batches]))


def _guesses(views: BufferViews, starts: Int64s, stops: Int64s, counts: Int64s) -> Int64s:
    """Positions in long batches where records seem to begin, at about equal distances."""
    nothing = np.empty(0, np.int64)
    lengths = stops - starts
    total_bytes = int(lengths.sum())
    in_lane = max(8, int(total_bytes**0.5 * _LANES_PER_ROOT_BYTE))
    is_long = (counts >= 3 * in_lane) & (lengths < counts * _LARGEST_GUESSED_BYTES)
    if not is_long.any():
        return nothing
    starts, lengths, counts = starts[is_long], lengths[is_long], counts[is_long]
    mean_bytes = int(lengths.sum() / counts.sum()) + 1
    window_bytes = mean_bytes * _GUESSED_RECORDS + 32
    several = counts // in_lane
    number = np.arange(int(several.sum())) - np.repeat(several.cumsum() - several, several)
    distances = lengths // several
    near = np.repeat(starts, several) + number * np.repeat(distances, several)
    near = near[(number > 0) & (near < len(views.octets) - window_bytes)]
    if not len(near):
        return nothing
    return _plausible_starts(views, near, window_bytes)


def _plausible_starts(views: BufferViews, near: Int64s, window_bytes: int) -> Int64s:
    """The first plausible start of a record in the window after each position, if there is any.

    A record has a length of one or two bytes, then a zero byte, its attributes; and at its end
    another record begins.
    """
    octets, last = views.octets, len(views.octets) - 3
    every_window = np.ndarray(
        (len(octets) - window_bytes + 1, window_bytes), np.uint8, octets, 0, (1, 1)
    )
    # A tenth of the time of nonzero in two dimensions.
    (places,) = (every_window[near] == 0).ravel().nonzero()
    window = places // window_bytes
    zero = near[window] + (places - window * window_bytes)
    candidates = zero - 1 - (octets[zero - 2] >= 0x80)
    reached = candidates
    for _ in range(_CHAIN):
        step = _STEPS.take(views.pairs[reached])
        attributes_at = reached + 1 + (octets[reached] >= 0x80)
        is_good = (step > 0) & (octets[attributes_at] == 0)
        reached = reached + step
        is_good &= reached < last
        window, candidates, reached = window[is_good], candidates[is_good], reached[is_good]
    _, first = np.unique(window, return_index=True)
    chosen: Int64s = candidates[first]
    return chosen


def _lock_step(
    data: bytes | memoryview, views: BufferViews, lanes: _Lanes
) -> tuple[Int64s, Int64s]:
    """The records that the lanes pass, sorted, and the targets that lanes went past."""
    pairs, step_of = views.pairs, _STEPS
    positions, targets = lanes
    passed: list[Int64s] = []
    missed: list[Int64s] = []
    while len(positions) >= _FEWEST_LANES:
        passed.append(positions)
        step = step_of.take(pairs[positions])
        positions = positions + step
        if not step.all():
            _step_long(views, passed[-1], positions, step)
        is_going = positions < targets
        if not is_going.all():
            missed.append(targets[(positions > targets)])
            positions, targets = positions[is_going], targets[is_going]
    for position, target in zip(positions.tolist(), targets.tolist(), strict=True):
        found = _walk(bytes(data[position:target]))
        if found is None:
            missed.append(np.array([target]))
        else:
            passed.append(found + position)
    none = np.empty(0, np.int64)
    return np.sort(np.concatenate([none, *passed])), np.concatenate([none, *missed])


def _step_long(
    views: BufferViews, positions: Int64s, reached: Int64s, step: NDArray[np.int32]
) -> None:
    """Fill in where the lanes are behind records whose lengths take more than two bytes."""
    (where,) = (step == 0).nonzero()
    sizes, ends = varints(views, positions[where])
    reached[where] = np.where(sizes < SMALLEST_RECORD_BYTES - 1, _TOO_FAR, ends + sizes)


def _two_byte_steps() -> NDArray[np.int32]:
    """How far the next record is, for each pair of bytes a record may begin with.

    Zero stands for a length that takes more bytes, or is too small.
    """
    pair = np.arange(1 << 16, dtype=np.int32)
    low, high = pair & 0xFF, pair >> 8
    one = 1 + (low >> 1)
    two = 2 + ((low & 0x7F) >> 1 | high << 6)
    is_one = low < 0x80
    step = np.where(is_one, one, np.where(high < 0x80, two, 0))
    is_small = step - np.where(is_one, 1, 2) < SMALLEST_RECORD_BYTES - 1
    step[is_small | ((low & 1) == 1)] = 0
    return step.astype(np.int32)


_STEPS = _two_byte_steps()


def _walked_again(
    data: bytes | memoryview, found: Int64s, starts: Int64s, stops: Int64s, missed: Int64s
) -> Int64s:
    """The positions with the records of batches in which a lane has missed its target anew."""
    parts: list[Int64s] = []
    done = 0
    for batch in np.unique(np.searchsorted(starts, missed, "left") - 1).tolist():
        start, stop = int(starts[batch]), int(stops[batch])
        walked = _walk(bytes(data[start:stop]))
        if walked is None:
            raise Unusual
        first, after = np.searchsorted(found, (start, stop)).tolist()
        parts += (found[done:first], walked + start)
        done = after
    return np.concatenate([*parts, found[done:]])


def _walk(data: bytes) -> Int64s | None:
    """The positions of the records that follow one another; None unless the last ends the data."""
    found: list[int] = []
    append = found.append
    position, end = 0, len(data)
    try:
        while position < end:
            append(position)
            low = data[position]
            if low < 0x80:
                position += 1 + (low >> 1)
                continue
            high = data[position + 1]
            if high < 0x80:
                position += 2 + ((low & 0x7F) >> 1 | high << 6)
                continue
            size, position = decode_varint(data, position)
            if size < 0:
                return None
            position += size
    except (IndexError, ValueError):
        return None
    return np.array(found, np.int64) if position == end else None
