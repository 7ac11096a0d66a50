"""The data directory of `wirekafka serve --brokers`: below it, each node has a log directory."""

from __future__ import annotations

import re
from pathlib import Path

from wirekafka.log.directories.log_directory import METADATA_LOG

_PROPERTIES = "meta.properties"
# Unlike broker-1, this cannot be taken for the directory of a partition.
_BROKER = re.compile(r"broker([1-9]\d*)")
_REPLICA = re.compile(r".+-\d+")


def controller_at(data: Path) -> Path:
    """The log directory of the controller."""
    return data / "controller"


def broker_at(data: Path, number: int) -> Path:
    """The log directory of a broker, by its id."""
    return data / f"broker{number}"


def has_cluster(data: Path) -> bool:
    """Whether this is the data directory of a cluster."""
    return (controller_at(data) / _PROPERTIES).exists()


def has_broker(data: Path) -> bool:
    """Whether this is itself a log directory."""
    return (data / _PROPERTIES).exists()


def brokers_at(data: Path) -> list[int]:
    """The ids of the brokers that have a directory, ascending."""
    if not data.is_dir():
        return []
    found = (_BROKER.fullmatch(entry.name) for entry in data.iterdir())
    return sorted(int(match[1]) for match in found if match)


def replicas_at(data: Path, number: int) -> int:
    """How many replicas the broker with this id has."""
    return sum(
        1
        for entry in broker_at(data, number).iterdir()
        if entry.is_dir() and entry.name != METADATA_LOG and _REPLICA.fullmatch(entry.name)
    )
