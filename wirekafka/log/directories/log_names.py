"""The names of log directories' subdirectories: logs in service, deleted, future and stray logs."""

from __future__ import annotations

import re

from wirekafka.log.files import Disk

LOG_NAME = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
MARKED_NAME = re.compile(r".+-\d+\.[0-9a-f]{32}-(?P<mark>delete|future|stray)")

REMOTE_INDEX_CACHE = "remote-log-index-cache"
"""The folder with indexes of remote segments that Apache Kafka has in its first log directory."""


def log_names(disk: Disk, path: str) -> list[str]:
    """The names of the logs in a directory, the metadata log included. Raises OSError."""
    return sorted(
        entry.name
        for entry in disk.list_directory(path)
        if entry.is_directory and LOG_NAME.fullmatch(entry.name)
    )
