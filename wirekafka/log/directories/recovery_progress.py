"""The number of logs and segments of a directory still to be opened and recovered, for metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock


class RecoveryProgress:
    """The remaining work in one log directory. Several threads count, any thread may read."""

    __slots__ = ("_lock", "_segments", "logs")

    def __init__(self) -> None:
        self.logs = 0
        """The logs that are not open yet."""
        self._segments = {0: 0}
        self._lock = Lock()

    def begin(self, logs: int) -> None:
        """Set the number of logs to open."""
        self.logs = logs

    def opened(self) -> None:
        """Count one log as open."""
        with self._lock:
            self.logs -= 1

    def scanning(self, thread: int) -> Callable[[int], None]:
        """Return the function to call with the number of segments left of a log.

        `thread` is the number of the thread or process that recovers this log.
        """
        self._segments.setdefault(thread, 0)
        return partial(self._segments.__setitem__, thread)

    def segments(self) -> list[tuple[int, int]]:
        """The number of each thread, and the number of segments left of its log."""
        return sorted(self._segments.copy().items())
