"""What the worker of tables reports about one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RUNNING, PAUSED, RETRYING = "running", "paused", "retrying"


@dataclass(frozen=True, slots=True)
class TableReport:
    """The state of a table after its last commit, or after its last failure."""

    topic: str
    topic_id: str
    """In base64."""
    state: str
    error: str | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    """Up to which offset the table has each partition."""
    rows: int = 0
    dead_letters: int = 0
    commit_ms: int = 0
    """When the last commit was made; 0 without any."""

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> TableReport:
        """Decode a line of the worker. Raises KeyError, TypeError, ValueError."""
        error = message.get("error")
        return cls(
            topic=str(message["topic"]),
            topic_id=str(message["topic_id"]),
            state=str(message["state"]),
            error=None if error is None else str(error),
            ends={int(index): int(end) for index, end in (message.get("ends") or {}).items()},
            rows=int(message.get("rows") or 0),
            dead_letters=int(message.get("dead_letters") or 0),
            commit_ms=int(message.get("commit_ms") or 0),
        )
