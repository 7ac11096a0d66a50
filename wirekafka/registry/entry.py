"""One record of the topic `_schemas`: a key and a value in JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A record to write, or a record that was read; without a value it deletes its key."""

    key: bytes
    value: bytes | None
