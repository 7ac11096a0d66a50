"""The names of readers: the client id, or for a consumer of Spark the query that it reads for."""

from __future__ import annotations

from collections.abc import Sequence

SOURCE_PREFIX = "wirekafka-source-"
"""The client ids of the tasks of streaming queries that read by wirekafka's own data source: it is
followed by the id of the query."""
_UUID_LENGTHS = [8, 4, 4, 4, 12]
"""Of the parts of a UUID, which hyphens separate."""
_CONSUMER = "consumer"
_TASKS = ("executor", "driver")


def reader_name(client_id: str) -> str:
    """Return the name under which a client is listed.

    Each task of a Spark query has a consumer of its own, and each run of a query other consumers:
    `consumer-PREFIX-UUID-HASH-executor-NUMBER`. They are one reader, `PREFIX-HASH`: the prefix is
    the option `groupIdPrefix`, the hash stays the same as long as the checkpoint is at its place.
    Batch queries have no hash. Any other client is listed by its client id.
    """
    parts = client_id.split("-")
    if parts[0] != _CONSUMER:
        return client_id
    for end in range(len(parts) - 1, 5, -1):
        uuid, after = parts[end - 5 : end], parts[end:]
        if _is_uuid(uuid) and any(task in after for task in _TASKS):
            task_at = min(after.index(task) for task in _TASKS if task in after)
            return "-".join([*parts[1 : end - 5], *after[:task_at]])
    return client_id


def is_query(client_id: str) -> bool:
    """Whether a client reads for a Spark query."""
    return client_id.startswith(SOURCE_PREFIX) or reader_name(client_id) != client_id


def _is_uuid(parts: Sequence[str]) -> bool:
    return [len(part) for part in parts] == _UUID_LENGTHS and all(
        character in "0123456789abcdef" for part in parts for character in part
    )
