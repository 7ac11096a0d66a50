"""How one table does, as its worker reports it: to its broker, and in a file beside the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self


class TableState(StrEnum):
    """Whether a table goes on."""

    RUNNING = "running"
    RETRYING = "retrying"
    """A passing problem: it is tried again by itself."""
    PAUSED = "paused"
    """Somebody has to change the topic, its options or the table."""


@dataclass(slots=True, kw_only=True)
class TableStatus:
    """One table as its node sees it, after its last commit or its last failure."""

    topic: str
    topic_id: str
    """In base64."""
    state: TableState = TableState.RUNNING
    error: str | None = None
    ends: dict[int, int] = field(default_factory=dict)
    """Up to where each partition is in the table, other nodes' partitions included."""
    rows: int = 0
    """Added by this worker, since it has started."""
    dead_letters: int = 0
    commit_ms: int | None = None
    """The time of the last commit of this worker."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object, whose partitions are texts."""
        fields = asdict(self)
        fields["ends"] = {str(partition): end for partition, end in self.ends.items()}
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The status of such an object; what a newer version may add to it is passed over.

        Raises AttributeError, KeyError, TypeError and ValueError for anything else.
        """
        error, commit_ms = fields.get("error"), fields.get("commit_ms")
        return cls(
            topic=str(fields["topic"]),
            topic_id=str(fields["topic_id"]),
            state=TableState(fields["state"]),
            error=None if error is None else str(error),
            ends={int(index): int(end) for index, end in (fields.get("ends") or {}).items()},
            rows=int(fields.get("rows") or 0),
            dead_letters=int(fields.get("dead_letters") or 0),
            commit_ms=None if commit_ms is None else int(commit_ms),
        )
