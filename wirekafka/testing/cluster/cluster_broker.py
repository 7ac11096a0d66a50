"""A broker of a cluster under test, as a `Broker`."""

from __future__ import annotations

from typing import Protocol, Self
from weakref import WeakSet

from wirekafka.testing.access import Security
from wirekafka.testing.broker import Broker, Snapshot
from wirekafka.testing.controlled_clock import Clock
from wirekafka.testing.engine import Engine
from wirekafka.testing.hooks.traffic import Traffic


class Home(Protocol):
    """The interface of a cluster for its brokers; `Cluster` implements it."""

    directory: str
    clock: Clock
    _security: Security

    def start(self, *nodes: int) -> object: ...
    def stop(self, *nodes: int) -> None: ...
    def kill(self, *nodes: int) -> None: ...
    def serve_control(self, port: int = ...) -> str: ...


class ClusterBroker(Broker):
    """One broker of a cluster, with its own faults, recorded requests and records.

    `records` has the records of its own replicas, `groups` the groups that it coordinates. Topics,
    users and the clock belong to the whole cluster.
    """

    def __init__(self, cluster: Home, node_id: int, engine: Engine, address: tuple[str, int]):
        """Called by the cluster, with a broker that runs."""
        self._cluster = cluster
        self.id = node_id
        """The node id."""
        self._running = engine
        self._was_stopped = False
        self._security = cluster._security
        self._topics = {}
        self._rules = WeakSet()
        self._control = None
        self.directory = f"{cluster.directory}/{node_id}"
        self.host, self.port = address
        self.requests = Traffic(engine.exchanges, engine.forget_exchanges)
        self.clock = cluster.clock

    @property
    def is_up(self) -> bool:
        """Whether the broker runs, paused or not."""
        return self._engine.is_up

    def start(self) -> Self:
        """Start it again; see `Cluster.start`."""
        self._cluster.start(self.id)
        return self

    def stop(self) -> None:
        """Stop it cleanly; see `Cluster.stop`."""
        self._cluster.stop(self.id)

    def crash(self) -> None:
        """Stop it as by `kill -9`; see `Cluster.kill`."""
        self._cluster.kill(self.id)

    def restart(self) -> None:
        """Stop it cleanly, unless it is down, and start it on the same data at the same port."""
        self._cluster.stop(self.id)
        self._cluster.start(self.id)

    def serve_control(self, port: int = 0) -> str:
        """The control port of the cluster serves its brokers too, below /brokers/<id>."""
        return f"{self._cluster.serve_control(port)}/brokers/{self.id}"

    def reset(self) -> None:
        """Topics belong to all brokers: `Cluster.reset` resets them."""
        raise TypeError("a single broker of a cluster cannot be reset: reset the cluster")

    def snapshot(self) -> Snapshot:
        """The data of a single broker is no state of the cluster."""
        raise TypeError("there are no snapshots of the brokers of a cluster")

    def restore(self, snapshot: Snapshot) -> None:
        """As `snapshot`."""
        raise TypeError("there are no snapshots of the brokers of a cluster")

    def __repr__(self) -> str:
        return f"<Broker {self.id} of a cluster, {self.host}:{self.port}>"
