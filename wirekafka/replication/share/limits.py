"""The limits of a share group that the leaders of its partitions apply."""

from __future__ import annotations

from typing import NamedTuple

_LEAST_THROTTLED_DELIVERIES = 2


class ShareLimits(NamedTuple):
    """The options of a share group that concern acquisition, with Kafka's defaults."""

    max_locked_records: int = 2000
    max_deliveries: int = 5
    """How often a record is delivered at most before it is archived."""
    lock_duration_ms: int = 30_000
    may_renew: bool = True
    """Whether members may renew the locks of records they acquired (KIP-1222)."""
    keeps_dead_letters: bool = False
    """Whether rejected and exhausted records are copied before they are archived (KIP-1191)."""

    @property
    def throttled_deliveries(self) -> int:
        """From this delivery count on, records are delivered in ever smaller portions.

        A record that makes its consumer fail then exhausts the deliveries of few other records.
        """
        return max(_LEAST_THROTTLED_DELIVERIES, (self.max_deliveries + 1) // 2)
