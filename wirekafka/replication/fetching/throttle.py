"""The rate limits on replication (KIP-73): which replicas they apply to, and whether to wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

ALL_REPLICAS = "*"


class ReplicationThrottle:
    """Limits the rate at which throttled partitions are replicated, for one broker and direction.

    The rate is the average over some windows, as in Kafka: `replication.quota.window.num` of them,
    each of `replication.quota.window.size.seconds`. `limit_bytes_per_s` returns the current limit,
    None for none.
    """

    def __init__(
        self,
        node_id: int,
        limit_bytes_per_s: Callable[[], int | None],
        window_count: int,
        window_ms: int,
    ):
        self._node_id = node_id
        self._limit = limit_bytes_per_s
        self._window_count = window_count
        self._window_ms = window_ms
        self._windows: deque[tuple[int, int]] = deque()
        """(start in ms, bytes) of each window in which bytes were recorded, oldest first."""

    def applies_to(self, index: int, throttled: Sequence[str]) -> bool:
        """Whether a partition is in its topic's list of throttled replicas.

        The list is `leader.replication.throttled.replicas` or
        `follower.replication.throttled.replicas`: `*`, or pairs of partition and broker, joined by
        a colon.
        """
        if not throttled:
            return False
        return ALL_REPLICAS in throttled or f"{index}:{self._node_id}" in throttled

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that were replicated of a throttled partition."""
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._window_ms:
            start_ms, recorded = windows[-1]
            windows[-1] = start_ms, recorded + size_bytes
        else:
            self._drop_old(now_ms)
            windows.append((now_ms, size_bytes))

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether throttled partitions have to wait."""
        limit = self._limit()
        return limit is not None and self.rate(now_ms) > limit

    def rate(self, now_ms: int) -> float:
        """The current rate in bytes per second, averaged over at least one window."""
        self._drop_old(now_ms)
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0][0], self._window_ms)
        return sum(size_bytes for _, size_bytes in self._windows) * 1000 / elapsed_ms

    def _drop_old(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._window_count * self._window_ms
        while self._windows and self._windows[0][0] <= oldest_ms:
            self._windows.popleft()
