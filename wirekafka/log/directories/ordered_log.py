"""A log whose segments reach the medium in order, so that a power cut leaves no hole in it."""

from __future__ import annotations

from wirekafka.log.log import Log

_MOST_SEGMENTS = 2
"""How many times its size a segment may grow while it waits for a sync."""


class OrderedLog(Log):
    """A `Log` that begins a new segment only once everything before it is synced.

    Otherwise a power cut could keep batches of the new segment and lose the end of the previous
    segment: recovery refuses such a log, since the missing batches may have been acknowledged. For
    logs whose owner syncs every append.
    """

    __slots__ = ()

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Begin a new segment, or continue the present one until the sync in progress is over."""
        if self.recovery_point < self.end_offset:
            if self.segments.active.size_bytes < _MOST_SEGMENTS * self.config.segment_bytes:
                return
            # Rare: no append found all synced while a whole segment was written.
            self.flush()
        super()._roll(base_offset, now_ms)
