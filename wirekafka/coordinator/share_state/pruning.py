"""Which records of a partition of `__share_group_state` are redundant and can be deleted."""

from __future__ import annotations

from wirekafka.coordinator.share_state.records import ShareRecord, ShareUpdate
from wirekafka.coordinator.share_state.states import ShareKey
from wirekafka.runtime.observation import Committed


class RedundantOffsets:
    """The offsets of the last snapshots, fed with the committed records of one shard.

    No record below the oldest of these offsets is needed to rebuild the shard.
    """

    def __init__(self) -> None:
        self._last_snapshots: dict[ShareKey, int] = {}  # Ordered: the oldest is first.
        self._last_tombstone = 0

    def note(self, committed: Committed) -> None:
        """Process a batch of committed records."""
        records: list[ShareRecord] = list(committed.records)
        base_offset = committed.end_offset - len(records)
        for index, (key, value, read_offset) in enumerate(records):
            if isinstance(value, ShareUpdate):
                continue
            offset = base_offset + index if read_offset < 0 else read_offset
            self._last_snapshots.pop(key, None)
            if value is None:
                self._last_tombstone = offset
            else:
                self._last_snapshots[key] = offset

    @property
    def needed_from(self) -> int:
        """The offset below which all records are redundant; 0 if there are none.

        Once all states are deleted, it is the offset of the last tombstone.
        """
        return next(iter(self._last_snapshots.values()), self._last_tombstone)
