"""What a worker reports of each table: to its broker, and in a file beside the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from pyiceberg.io import FileIO

FOLDER = "wirekafka-status"
"""The folder of the files, in the place that has the tables; a node writes `node-<id>.json`."""


class TableState(StrEnum):
    """Whether a table goes on."""

    RUNNING = "running"
    RETRYING = "retrying"
    """A passing problem: it is tried again by itself."""
    PAUSED = "paused"
    """Somebody has to change the topic, its options or the table."""


@dataclass(slots=True, kw_only=True)
class TableStatus:
    """One table as its node sees it."""

    topic: str
    topic_id: str
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
        """The status of such an object. Raises KeyError, TypeError and ValueError."""
        values = dict(fields)
        values["state"] = TableState(values["state"])
        values["ends"] = {int(partition): end for partition, end in values["ends"].items()}
        return cls(**values)


def write_statuses(
    io: FileIO, url: str, node_id: int, written_ms: int, tables: Iterable[TableStatus]
) -> None:
    """Replace the file of a node. Raises OSError and whatever the store raises."""
    content = {
        "node": node_id,
        "written_ms": written_ms,
        "tables": [table.to_json() for table in tables],
    }
    with io.new_output(status_path(url, node_id)).create(overwrite=True) as file:
        file.write(json.dumps(content, indent=1).encode())


def status_path(url: str, node_id: int) -> str:
    """The place of a node's file."""
    return f"{url.rstrip('/')}/{FOLDER}/node-{node_id}.json"
