"""A Kafka broker in Python, wire for wire and file for file."""

from typing import TYPE_CHECKING, Any

from wirekafka.config.version import VERSION as __version__

if TYPE_CHECKING:
    from wirekafka.testing.broker import Broker
    from wirekafka.testing.cluster.cluster import Cluster

__all__ = ["Broker", "Cluster", "__version__"]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: commands that need no broker should not wait for one.
    if name == "Broker":
        from wirekafka.testing.broker import Broker

        return Broker
    if name == "Cluster":
        from wirekafka.testing.cluster.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
