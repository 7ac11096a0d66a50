"""The partitions that Java's default partitioner gives a column of keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirekafka.client.partitioner import MULTIPLIER, POSITIVE, SEED, murmur2
from wirekafka.tables.scan import Int64s

_FEWEST_LANES = 32
"""The fewest keys whose next words are hashed together."""
_WORD_BYTES = 4
_FACTOR = np.uint32(MULTIPLIER)

Hashes = NDArray[np.uint32]


def partitions_of(
    keys: pa.Array | pa.ChunkedArray, count: int, *, first_without_key: int = 0
) -> Int64s:
    """The partition of `count` for each key, of a column of binary or text.

    Fast twin of `wirekafka.client.partitioner.partition_of`. Records without a key go to one
    partition after the other, from `first_without_key` on.
    """
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    whole = keys.cast(pa.large_binary())
    partitions = (_hashes(whole) & np.uint32(POSITIVE)).astype(np.int64) % count
    if whole.null_count:
        (missing,) = whole.is_null().to_numpy(zero_copy_only=False).nonzero()
        partitions[missing] = (first_without_key + np.arange(len(missing))) % count
    return partitions


def _hashes(keys: pa.Array) -> Hashes:
    """The murmur2 hash of each key: a word of all long enough keys at a time, longest first."""
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    sizes = np.diff(bounds)
    order = np.argsort(-sizes, kind="stable")
    sizes, at = sizes[order], bounds[:-1][order]
    mixed: Hashes = np.uint32(SEED) ^ sizes.astype(np.uint32)
    # Padded so that a word can be read at the last byte of the last key.
    octets = memoryview(data)[: bounds[-1]].tobytes() + bytes(_WORD_BYTES)
    words = np.ndarray((len(octets) - _WORD_BYTES + 1,), "<u4", octets, 0, (1,))
    ascending = sizes[::-1] // _WORD_BYTES
    done = 0
    while (lanes := len(keys) - int(np.searchsorted(ascending, done, "right"))) >= _FEWEST_LANES:
        word = words[at[:lanes] + done * _WORD_BYTES] * _FACTOR
        word = (word ^ word >> np.uint32(24)) * _FACTOR
        mixed[:lanes] = mixed[:lanes] * _FACTOR ^ word
        done += 1
    _mix_rest(mixed[lanes:], words, at[lanes:], sizes[lanes:])
    mixed ^= mixed >> 13
    mixed *= _FACTOR
    mixed ^= mixed >> 15
    hashes = np.empty_like(mixed)
    hashes[order] = mixed
    for lane in range(lanes):
        begin = int(at[lane])
        hashes[order[lane]] = murmur2(octets[begin : begin + int(sizes[lane])])
    return hashes


def _mix_rest(mixed: Hashes, words: Hashes, at: Int64s, sizes: Int64s) -> None:
    """Mix in the bytes after each key's last whole word."""
    rest = sizes % _WORD_BYTES
    (where,) = rest.nonzero()
    masks = (np.uint32(1) << (8 * rest[where]).astype(np.uint32)) - np.uint32(1)
    tails = words[at[where] + sizes[where] - rest[where]] & masks
    mixed[where] = (mixed[where] ^ tails) * _FACTOR
