"""The line of a node's log about its start: version, ids, directories and listeners."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.version import VERSION
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.server.binding import Bindings


def start_line(
    config: BrokerConfig, cluster_id: str, directories: Sequence[LogDirectory], bindings: Bindings
) -> str:
    """Describe a started node and its addresses in one line."""
    roles = " and ".join(config.process_roles)
    return (
        f"wirekafka {VERSION} is {roles} {config.node_id} of cluster {cluster_id};"
        f" log directories: {', '.join(map(_directory, directories))};"
        f" listeners: {', '.join(bindings.described())}"
    )


def _directory(directory: LogDirectory) -> str:
    if directory.failure is not None:
        return f"{directory.path} (failed)"
    return f"{directory.path} (new)" if directory.is_new else directory.path
