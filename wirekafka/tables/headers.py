"""Decodes the headers of many records at once: in lock step, then record by record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wirekafka.codec.varint import decode_varint
from wirekafka.tables.fields import Places
from wirekafka.tables.scan import Int64s
from wirekafka.tables.varints import BufferViews, Unusual, varints

_FEWEST_LANES = 32
"""The fewest records whose next headers are decoded together."""


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """How many headers each record has, and the places of all names and values, in order."""

    counts: Int64s
    names: Places
    values: Places


def decode_headers(views: BufferViews, at: Int64s, ends: Int64s) -> Headers:
    """Decode the headers of records from the positions of their counts to the records' ends.

    Raises Unusual unless they are well-formed.
    """
    counts, positions = varints(views, at)
    if (counts < 0).any() or (counts > (ends - positions) // 2).any():
        raise Unusual
    total = int(counts.sum())
    names = Places(np.empty(total, np.int64), np.empty(total, np.int64))
    values = Places(np.empty(total, np.int64), np.empty(total, np.int64))
    firsts = counts.cumsum() - counts
    order = np.argsort(-counts, kind="stable")
    ascending = counts[order[::-1]]
    reached, targets = positions[order], firsts[order]
    done = 0
    while (lanes := _with_more(ascending, done)) >= _FEWEST_LANES:
        now, slots = reached[:lanes], targets[:lanes] + done
        now = _next_field(views, now, names, slots)
        now = _next_field(views, now, values, slots)
        reached[:lanes] = now
        done += 1
    for lane in range(lanes):
        slot = int(targets[lane])
        end = slot + int(counts[order[lane]])
        reached[lane] = _walk(views, int(reached[lane]), range(slot + done, end), names, values)
    if (reached != ends[order]).any() or (total and names.sizes.min() < 0):
        raise Unusual
    return Headers(counts, names, values)


def _with_more(ascending: Int64s, done: int) -> int:
    return len(ascending) - int(np.searchsorted(ascending, done, "right"))


def _next_field(views: BufferViews, at: Int64s, places: Places, slots: Int64s) -> Int64s:
    sizes, at = varints(views, at)
    places.positions[slots] = at
    places.sizes[slots] = sizes
    return at + np.maximum(sizes, 0)


def _walk(views: BufferViews, at: int, slots: range, names: Places, values: Places) -> int:
    """Decode the headers of one record into their slots; returns the position after them."""
    data = views.octets.data
    try:
        for slot in slots:
            for places in (names, values):
                size, at = decode_varint(data, at)
                places.positions[slot] = at
                places.sizes[slot] = size
                at += max(size, 0)
    except (IndexError, ValueError) as error:
        raise Unusual from error
    return at
