"""Notifications to systemd, as sd_notify(3) describes them, without its library."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

logger = logging.getLogger(__name__)


class ServiceManager:
    """Sends the states of the process to the socket in NOTIFY_SOCKET; does nothing without it."""

    def __init__(self) -> None:
        self._path = os.environ.get("NOTIFY_SOCKET", "")
        self._every_s = _watchdog_s()
        self._timer: asyncio.TimerHandle | None = None

    def ready(self) -> None:
        """Report that clients are served, and keep the watchdog alive if there is one.

        The event loop keeps it alive: systemd restarts a process whose loop is blocked for too
        long.
        """
        self._send("READY=1")
        if self._path and self._every_s > 0:
            self._alive()

    def stopping(self) -> None:
        """Report that the process stops."""
        if self._timer is not None:
            self._timer.cancel()
        self._send("STOPPING=1")

    def _alive(self) -> None:
        self._send("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._alive)

    def _send(self, state: str) -> None:
        if not self._path:
            return
        # A socket in the abstract namespace is written with an @ for its first byte, 0.
        address = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(state.encode(), address)
        except OSError as error:
            logger.warning("systemd could not be notified of %s: %s", state, error)


def _watchdog_s() -> float:
    """Half of the watchdog's interval in seconds; 0 if none is asked of this process."""
    interval_us, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not interval_us.isdigit() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(interval_us) / 2_000_000
