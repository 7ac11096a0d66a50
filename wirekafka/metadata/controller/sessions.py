"""The sessions of brokers with the controller: soft state that each new controller rebuilds."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from wirekafka.runtime.timers import Timers

STALL_MS = 100
"""A deadline noticed this late passed because the controller process itself did not run."""
GRACE_MS = 100
"""How long heartbeats that have already arrived may take to be processed."""


class Verdict(Enum):
    """How to treat a session whose deadline has passed."""

    EXCUSED = "the controller did not run: the pause does not count"
    OVERDUE = "its heartbeat may have arrived and be waiting to be processed"
    OVER = "the session has expired"


class Sessions:
    """A timer per broker id, which expires `timeout_ms` after the last heartbeat.

    The session of `own_id`, the broker in the controller's own process, never expires: when the
    process stalls or the machine sleeps, broker and controller stop together. It ends by a
    controlled shutdown only.
    """

    def __init__(self, own_id: int, timeout_ms: int, timers: Timers):
        self._own_id = own_id
        self._timeout_ms = timeout_ms
        self._timers = timers
        self._due: dict[int, int] = {}
        self._overdue: set[int] = set()
        self._has_own = False
        self._offsets: dict[int, int] = {}
        self._registrations: dict[int, int] = {}
        self._leaving: dict[int, int | None] = {}

    def begin(self, brokers: Iterable[int], now_ms: int) -> None:
        """Start the sessions of unfenced brokers when this controller becomes active.

        The own broker is left out: its registration is from an earlier run of this process.
        """
        for broker in brokers:
            if broker != self._own_id:
                self.touch(broker, now_ms)

    def touch(self, broker: int, now_ms: int) -> None:
        """Extend the session of a broker at a heartbeat, fenced or not."""
        if broker == self._own_id:
            self._has_own = True
            return
        self._overdue.discard(broker)
        self._schedule(broker, now_ms + self._timeout_ms)

    def end(self, broker: int) -> None:
        """End the session of a broker that has expired, was replaced, or has left the cluster."""
        self._overdue.discard(broker)
        self._offsets.pop(broker, None)
        self._leaving.pop(broker, None)
        if broker == self._own_id:
            self._has_own = False
        if self._due.pop(broker, None) is not None:
            self._timers.cancel(broker)

    def is_open(self, broker: int) -> bool:
        """Whether a broker has a session."""
        return self._has_own if broker == self._own_id else broker in self._due

    def applied(self, broker: int, metadata_offset: int) -> None:
        """Note the last offset that a broker has applied; -1 if it must report it again."""
        self._offsets[broker] = metadata_offset

    def registered(self, broker: int, offset: int) -> None:
        """Note the offset of a broker's registration record."""
        self._registrations[broker] = offset

    def registration_offset(self, broker: int, epoch: int) -> int:
        """The offset of a broker's registration record; its epoch if the offset is unknown.

        Both differ if other records were written in the same batch.
        """
        return max(self._registrations.get(broker, epoch), epoch)

    def leave(self, broker: int) -> None:
        """Begin a controlled shutdown."""
        self._leaving.setdefault(broker, None)

    def has_moved(self, broker: int, last_offset: int) -> None:
        """Note the last offset of the records that take the leaderships from a leaving broker."""
        if self._leaving.get(broker) is None:
            self._leaving[broker] = last_offset

    def stay(self, broker: int) -> None:
        """End a controlled shutdown: the broker has been fenced."""
        self._leaving.pop(broker, None)

    def is_leaving(self, broker: int) -> bool:
        """Whether a broker is in a controlled shutdown."""
        return broker in self._leaving

    def may_leave(self, broker: int, others: Iterable[int]) -> bool:
        """Whether all other brokers have applied the records of its controlled shutdown."""
        last_offset = self._leaving.get(broker)
        return last_offset is not None and all(
            self._offsets.get(other, -1) >= last_offset
            for other in others
            if other not in self._leaving
        )

    def judge(self, broker: int, now_ms: int) -> Verdict:
        """Decide how to treat a broker whose timer has expired; changes nothing."""
        if now_ms - self._due.get(broker, now_ms) >= STALL_MS:
            return Verdict.EXCUSED
        return Verdict.OVER if broker in self._overdue else Verdict.OVERDUE

    def excuse(self, broker: int, now_ms: int) -> None:
        """Extend all sessions by the time since this broker's deadline, plus `GRACE_MS`."""
        late_ms = now_ms - self._due[broker] + GRACE_MS
        self._overdue.clear()
        for each, due_ms in list(self._due.items()):
            self._schedule(each, due_ms + late_ms)

    def await_heartbeat(self, broker: int, now_ms: int) -> None:
        """Extend a session by `GRACE_MS`, for a heartbeat that has arrived to be processed."""
        self._overdue.add(broker)
        self._schedule(broker, now_ms + GRACE_MS)

    def _schedule(self, broker: int, due_ms: int) -> None:
        self._due[broker] = due_ms
        self._timers.schedule(broker, due_ms)
