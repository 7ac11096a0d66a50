"""Takes a snapshot of the node that owns log directories, whether it runs or is stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.files import Disk
from wirekafka.server.snapshots.running_node import running_node
from wirekafka.snapshot.creation import Created, Creation, SnapshotOptions
from wirekafka.snapshot.manifest import UnusableSnapshot
from wirekafka.snapshot.stopped_node import stopped_node


def take(disk: Disk, data: Sequence[str], target: str, options: SnapshotOptions) -> Created:
    """Create a snapshot `target` of the node that owns the directories `data`.

    For a node that runs, its first log directory is enough. Raises UnusableSnapshot, OSError.
    """
    for directory in data:
        if f"{target}/".startswith(f"{directory.rstrip('/')}/"):
            raise UnusableSnapshot(
                f"{target} is in {directory}, where only logs may be: name a directory elsewhere"
            )
    creation = Creation(disk, target, options)
    creation.check()
    with running_node(data[0]) as held:
        if held is not None:
            releasing = replace(options, released=held.release)
            return Creation(disk, target, releasing).run(held.instant)
    try:
        with stopped_node(disk, data) as instant:
            instant.at_ms = time.time_ns() // 1_000_000
            return creation.run(instant)
    except UnusableDirectory as error:
        raise UnusableSnapshot(str(error)) from None
