"""The events of a simulation, as a digest to compare runs, or as lines to read."""

from __future__ import annotations

import hashlib
from struct import Struct

_MOMENT = Struct(">d")


class Trace:
    """Events and received bytes. With `keeps`, their lines are kept.

    Without `has_bytes`, the lines are those of the events alone.
    """

    def __init__(self, *, keeps: bool = False, has_bytes: bool = True):
        self._has_bytes = has_bytes
        self.lines: list[str] | None = [] if keeps else None
        self.now_s = 0.0
        self._hash = hashlib.blake2b(digest_size=16)

    def moved(self, now_s: float, where: str, data: bytes) -> None:
        """Add bytes that have arrived."""
        self.now_s = now_s
        self._hash.update(b"%b%b%b" % (_MOMENT.pack(now_s), where.encode(), data))
        if self.lines is not None and self._has_bytes:
            self.lines.append(f"{now_s:.6f} {where} {data[:64].hex()}")

    def note(self, what: str) -> None:
        """Add another event."""
        self._hash.update(what.encode())
        if self.lines is not None:
            self.lines.append(f"{self.now_s:.6f} {what}")

    def happens(self, now_s: float, what: str) -> None:
        """Add another event, with its time."""
        self.now_s = now_s
        self.note(what)

    def digest(self) -> str:
        """The digest of all events so far."""
        return self._hash.hexdigest()
