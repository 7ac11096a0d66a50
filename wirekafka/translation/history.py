"""Whether a table's rows are of the log that is here now: by offsets and leader epochs."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.log.epochs import UNDEFINED, EpochEntry


def epoch_at(epochs: Sequence[EpochEntry], offset: int) -> int:
    """The leader epoch of the record at an offset; -1 if it is unknown."""
    found = UNDEFINED
    for entry in epochs:
        if entry.start_offset > offset:
            break
        found = entry.epoch
    return found


def divergence(
    epochs: Sequence[EpochEntry], start_offset: int, end_offset: int, epoch: int
) -> int | None:
    """Where the log and the table's records diverge; None if they do not.

    `end_offset` and `epoch` are the table's mark: the end of its rows, and the leader epoch of the
    last of these. A log that was truncated, or restored from a copy, and written again has records
    of another epoch there. `start_offset` is where the log begins.
    """
    if epoch == UNDEFINED or not epochs or end_offset <= start_offset:
        return None
    if epoch_at(epochs, end_offset - 1) == epoch:
        return None
    following = [entry.start_offset for entry in epochs if entry.epoch > epoch]
    if not following:
        return None  # The mark is beyond the log's end, which its caller knows better.
    return max(min(following), start_offset)
