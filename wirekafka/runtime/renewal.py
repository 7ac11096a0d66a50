"""The shortest way through a machine: a command that writes nothing and moves one timer."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, TypeAlias, TypeVar

from wirekafka.runtime.machine import Machine

_Command_contra = TypeVar("_Command_contra", contravariant=True)
_Result = TypeVar("_Result")
_Result_co = TypeVar("_Result_co", covariant=True)

Renewal: TypeAlias = tuple[Hashable, int, _Result]
"""The outcome of a renewing command: a timer's key, its new deadline in ms since the epoch, and a
reply other than None.

It has the effect of an `Outcome` with this timer and this reply, and needs no ticket.
"""


class RenewingMachine(Machine, Protocol[_Command_contra, _Result_co]):
    """A machine that serves heartbeats with nothing new to report."""

    def renew(self, command: _Command_contra, now_ms: int) -> Renewal[_Result_co] | None:
        """Decide on `command`; None if it needs more than a renewal. Changes nothing."""
