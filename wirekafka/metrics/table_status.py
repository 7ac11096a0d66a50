"""What a worker of tables reports: how one table does, and which tables go with their topics."""

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


@dataclass(frozen=True, slots=True)
class DeletionMark:
    """When the topic of a table was there: the cluster, and a metadata offset of that time.

    Topic ids are never given again: metadata of this cluster from that offset on that lack the
    topic say that it was deleted. Older metadata may not have it yet.
    """

    cluster_id: str
    metadata_offset: int

    def __str__(self) -> str:
        return f"{self.cluster_id}@{self.metadata_offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The mark of such a text. Raises ValueError."""
        cluster_id, _, offset = text.rpartition("@")
        return cls(cluster_id, int(offset))


@dataclass(frozen=True, slots=True)
class DeletableTable:
    """A table that goes with its topic."""

    topic: str
    topic_id: str
    mark: str
    """A `DeletionMark`."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"deletable": asdict(self)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self | None:
        """The table of such an object; None for a `TableStatus`. Raises KeyError and TypeError."""
        found = fields.get("deletable")
        if found is None:
            return None
        return cls(str(found["topic"]), str(found["topic_id"]), str(found["mark"]))
