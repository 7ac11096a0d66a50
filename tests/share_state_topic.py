"""Settings with which one broker alone keeps the states of share groups."""

from __future__ import annotations


def settings(partitions: int = 1) -> dict[str, str]:
    """The settings of a share state topic with one replica."""
    prefix = "share.coordinator.state.topic"
    return {
        f"{prefix}.num.partitions": str(partitions),
        f"{prefix}.replication.factor": "1",
        f"{prefix}.min.isr": "1",
    }


def lines(partitions: int = 1) -> str:
    """The same as lines of `server.properties`."""
    return "".join(f"{name}={value}\n" for name, value in settings(partitions).items())
