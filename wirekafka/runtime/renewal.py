"""The shortest way through a machine: a command that writes nothing and moves one timer."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, TypeAlias

from wirekafka.runtime.machine import Machine

Renewal: TypeAlias = tuple[Hashable, int, Any]
"""The outcome of a renewing command: a timer's key, its new deadline in ms since the epoch, and a
reply other than None. It has the effect of an `Outcome` with this timer and this reply, and needs
no ticket.
"""


class RenewingMachine(Machine, Protocol):
    """A machine that serves heartbeats with nothing new to report."""

    def renew(self, command: Any, now_ms: int) -> Renewal | None:
        """Decide on `command`; None if it needs more than a renewal. Changes nothing."""
