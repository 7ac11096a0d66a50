"""Snapshots of a node in this process, as the command takes them at the node's socket."""

from __future__ import annotations

from wirekafka.broker import Broker
from wirekafka.log.files import Disk
from wirekafka.server.snapshots.noting import Noted
from wirekafka.snapshot.creation import Created, Creation, SnapshotOptions
from wirekafka.snapshot.instant import Instant, instant_from


def noted(broker: Broker) -> Instant:
    """The present instant, after a passage through the lines of the socket."""
    return instant_from(list(Noted(broker).lines()))


def snapshot(broker: Broker, target: str, disk: Disk | None = None) -> Created:
    """Take a snapshot on the broker's disk."""
    return Creation(disk or broker.disk, target, SnapshotOptions()).run(noted(broker))
