"""The files beside the tables in which each node's worker says how its tables do."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pyiceberg.io import FileIO

from wirekafka.metrics.table_status import TableStatus

FOLDER = "wirekafka-status"
"""The folder of the files, in the place that has the tables; a node writes `node-<id>.json`."""


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
