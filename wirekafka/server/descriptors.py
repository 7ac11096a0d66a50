"""The descriptors of this process: the highest numbers are kept for the node's own files.

The system gives every new socket the lowest free number. Connections whose number lies in the
reserve at the upper end are closed at once, so that only files and the node's own connections to
other nodes ever use the reserve: nothing has to be counted.
"""

from __future__ import annotations

import errno
import logging
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

from wirekafka.log.disk_errors import OUT_OF_DESCRIPTORS

logger = logging.getLogger(__name__)

Accepted = tuple[socket.socket, Any]
"""A connection and its peer's address, as `socket.accept` returns them."""
Accept = Callable[[], Accepted]

EXHAUSTED = OUT_OF_DESCRIPTORS | {errno.ENOBUFS, errno.ENOMEM}
"""Errors of `accept` while something is used up: the connection waits in the backlog."""
_UNLIMITED = 1 << 20
_LEAST_RESERVE, _MOST_RESERVE = 16, 4096
_LOGGED_EVERY_S = 60.0
_CALM_S = 10.0
"""How long no connection must have been refused before the shortage counts as over."""


def _limit_of_process() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


class Descriptors:
    """Accepts connections as long as the reserve is untouched. One for all ports of a process."""

    def __init__(
        self,
        limit: Callable[[], int] = _limit_of_process,
        now_s: Callable[[], float] = time.monotonic,
    ):
        """`limit` returns how many descriptors the process may have, which can change."""
        self._limit = limit
        self._now_s = now_s
        self.refused = 0
        """How many connections were closed at once since the start."""
        self._unreported = 0
        self._refused_s = self._reported_s = float("-inf")

    def accept(self, accept: Accept, *, may_use_half: bool = False) -> Accepted:
        """Accept a connection by `accept`, a socket's method.

        With `may_use_half`, half of the reserve may be used: health is served during a shortage.
        Raises BlockingIOError if there is none, or if it was refused; OSError as `accept` does.
        """
        limit = self._limit()
        kept = _reserve(limit)
        try:
            accepted, address = accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._refuse(f"{error.strerror}")
            raise
        if accepted.fileno() >= limit - (kept // 2 if may_use_half else kept):
            accepted.close()
            self._refuse(f"{limit - kept} of {limit} descriptors are in use, the others are kept")
            raise BlockingIOError
        if self._unreported and self._now_s() - self._refused_s > _CALM_S:
            self._report("Connections are accepted again; {} more had been refused")
        return accepted, address

    def shortage(self) -> str | None:
        """Why connections are refused at present; None if they are not."""
        limit = self._limit()
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                is_short = probe.fileno() >= limit - _reserve(limit)
        except OSError:
            is_short = True
        if not is_short:
            return None
        return f"connections are refused: all but the reserve of {limit} descriptors are in use"

    def _refuse(self, reason: str) -> None:
        self.refused += 1
        self._unreported += 1
        self._refused_s = self._now_s()
        if self._refused_s - self._reported_s > _LOGGED_EVERY_S:
            self._report(f"Refusing connections ({{}} so far): {reason} for the node's own files")

    def _report(self, text: str) -> None:
        self._reported_s = self._now_s()
        count, self._unreported = self._unreported, 0
        logger.error("%s", text.format(count))


def _reserve(limit: int) -> int:
    return min(max(limit // 4, _LEAST_RESERVE), _MOST_RESERVE)


DESCRIPTORS = Descriptors()
"""The descriptors of this process."""


class GuardedSocket(socket.socket):
    """A listening socket that accepts by `DESCRIPTORS`, for servers that call `accept`."""

    def accept(self) -> Accepted:
        """Accept a connection. Raises BlockingIOError if it was refused."""
        return DESCRIPTORS.accept(super().accept)
