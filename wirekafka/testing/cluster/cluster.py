"""`wirekafka.Cluster`: a Kafka cluster as a Python object, for tests."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from wirekafka.testing import admin
from wirekafka.testing.access import Security
from wirekafka.testing.acls import Allow
from wirekafka.testing.cluster.all_brokers import AllBrokers
from wirekafka.testing.cluster.cluster_broker import ClusterBroker
from wirekafka.testing.cluster.cluster_nodes import Nodes
from wirekafka.testing.cluster.cluster_operations import ClusterOperations
from wirekafka.testing.cluster.cluster_settings import (
    ClusterLayout,
    cluster_settings,
    node_settings,
)
from wirekafka.testing.controlled_clock import Clock
from wirekafka.testing.hooks.traffic import Traffic
from wirekafka.testing.lifecycle import Lifecycle, scratch_directory
from wirekafka.testing.loop_thread import EngineGone
from wirekafka.testing.registry.owner import RegistryOwner, companion_registry
from wirekafka.testing.settings import arguments_of, checked, directory_name, wanted_topics

if TYPE_CHECKING:
    from wirekafka.testing.control_port import ControlPort

_MOST_NODES = 100


class Cluster(ClusterOperations, RegistryOwner, Lifecycle):
    """A Kafka cluster whose brokers and controllers run in one thread of this process.

        with Cluster(brokers=3, topics=["orders"]) as cluster:
            producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
            cluster.kill(cluster.leader("orders", 0))

    The brokers have the ids 1, 2, ..., and `cluster[1]` is the first broker, as a `Broker`. The
    controllers are nodes of their own, with the ids 101, 102, ... `async with` works too. A method
    of `Broker` acts here on the responsible broker, or on all brokers. Methods may be called from
    any thread.
    """

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 1,
        *,
        directory: str | Path | None = None,
        topics: Iterable[str] | Mapping[str, int] = (),
        host: str = "127.0.0.1",
        users: Mapping[str, str] | None = None,
        acls: Iterable[Allow] | None = None,
        tls: bool = False,
        schema_registry: bool = False,
        nodes: Mapping[int, Mapping[str, object]] | None = None,
        config: Mapping[str, object] | None = None,
        **options: object,
    ):
        """Check the arguments; the cluster starts by `start` or by entering the `with`.

        nodes: Kafka's options of single nodes, by node id, as {1: {"broker.rack": "a"}}. config,
        options: Kafka's options of all nodes. All other arguments are as for `Broker`.

        Raises ValueError for a name or value that Kafka rejects, TypeError for a wrong type.
        """
        for name, number in (("brokers", brokers), ("controllers", controllers)):
            if not isinstance(number, int):
                raise TypeError(f"{name}={number!r}: give a number, such as 3")
            if not 0 < number <= _MOST_NODES:
                raise ValueError(f"{name}={number}: give a number from 1 to {_MOST_NODES}")
        shared = cluster_settings(brokers, config, options, arguments_of(Cluster))
        security = Security.of(users, acls, tls)
        if schema_registry:
            security = security.with_service()
        self._security = security.certified(host, shared)
        self._registry = companion_registry(host) if schema_registry else None
        layout = ClusterLayout(
            brokers=brokers,
            controllers=controllers,
            shared=shared,
            single={},
            host=host,
            protocol=self._security.protocol,
        )
        ids = (*layout.broker_ids, *layout.controller_ids)
        self._layout = layout.with_single(node_settings(nodes, ids))
        for node_id in ids:
            checked({**shared, **self._layout.single.get(node_id, {})})
        self._topics = wanted_topics(topics)
        self._kept = None if directory is None else directory_name(directory)
        self._nodes: Nodes | None = None
        self._was_stopped = False
        self._members: dict[int, ClusterBroker] = {}
        self._rules = WeakSet()
        self._control: ControlPort | None = None
        self.requests = Traffic(
            lambda: self._engine.exchanges(), lambda: self._engine.forget_exchanges()
        )
        """The recorded requests of clients to all brokers, and their responses."""
        self.clock = Clock(lambda: self._engine)
        """The clock of all brokers."""
        if self._registry is not None:
            self.requests.show_values(self._registry.schemas.shown)

    # The brokers.

    def __getitem__(self, broker: int) -> ClusterBroker:
        """A broker by its id, from 1. Raises LookupError."""
        if broker not in self._layout.broker_ids:
            raise LookupError(f"there is no broker {broker!r}; there are {list(self)}")
        self._running  # noqa: B018
        return self._members[broker]

    def __iter__(self) -> Iterator[int]:
        """The ids of all brokers, also of stopped brokers."""
        return iter(self._layout.broker_ids)

    def __len__(self) -> int:
        return len(self._layout.broker_ids)

    @property
    def controllers(self) -> list[int]:
        """The ids of all controllers, also of stopped controllers."""
        return list(self._layout.controller_ids)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers for clients, as "127.0.0.1:32768,127.0.0.1:32769"."""
        self._running  # noqa: B018
        return ",".join(self._members[id].bootstrap_servers for id in self)

    # Starting and stopping.

    def start(self, *nodes: int) -> Self:
        """Start the cluster, or these nodes of it again, and return once clients are served.

        A broker that was killed starts once its session with the controllers has expired. Raises
        OSError, ValueError, and TimeoutError if the other nodes do not let a started node join.
        """
        if nodes:
            self._on_nodes(nodes).thread.complete(self._running.start_nodes(nodes))
            self._validate_by_registry(nodes)
            return self
        if self._nodes is not None:
            raise RuntimeError("this cluster is running already")
        scratch, remove = scratch_directory()
        try:
            self.directory = self._kept or f"{scratch}/data"
            """The directory; each node has one in it, named by its id."""
            started = Nodes(self._layout, self.directory, syncs=self._kept is not None)
            started.thread.start()
            try:
                addresses = started.thread.complete(started.start())
            except BaseException:
                _end(started)
                raise
        except BaseException:
            remove()
            raise
        self._nodes, self._remove_scratch, self._was_stopped = started, remove, False
        self._everywhere = AllBrokers(started)
        self._abandon = weakref.finalize(self, started.thread.abandon, started.abort, remove)
        self._members = {
            id: ClusterBroker(self, id, started.brokers[id], address)
            for id, address in addresses.items()
        }
        try:
            self._security.establish(self._engine)
            self._create_topics()
            self._start_registry()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, *nodes: int) -> None:
        """Stop the cluster, or these nodes of it, cleanly, as SIGTERM does.

        A broker first hands its leaderships over to other brokers. Without nodes, a second call
        does nothing.
        """
        if nodes:
            self._on_nodes(nodes).thread.complete(self._running.stop_nodes(nodes))
            return
        running, self._nodes = self._nodes, None
        if running is None:
            return
        self._was_stopped = True
        self._abandon.detach()
        self._stop_registry()
        try:
            self._end_rules(self._everywhere)
            for member in self._members.values():
                member._end_rules(member._engine)
            if self._control is not None:
                self._control.close()
                self._control = None
            running.thread.complete(running.stop())
        finally:
            _end(running)
            self._remove_scratch()

    def kill(self, *nodes: int) -> None:
        """Stop nodes as `kill -9` does, at the same time: nothing is closed or handed over.

        The controllers notice it when the session ends, after `broker.session.timeout.ms`.
        """
        self._on_nodes(nodes).thread.complete(self._running.kill(nodes))

    def restart(self, *nodes: int) -> None:
        """Stop each of these nodes cleanly and start it again, one after the other.

        Without nodes all brokers: a rolling restart, which waits for full ISRs in between.
        """
        for node in nodes or tuple(self):
            self.stop(node)
            self.start(node)
            self.wait_for_full_isr()

    # Topics and state.

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        replication_factor: int = -1,
        replicas: Sequence[Sequence[int]] = (),
        **options: object,
    ) -> None:
        """As `Broker.create_topic`."""
        super().create_topic(
            name,
            partitions,
            config,
            replication_factor=replication_factor,
            replicas=replicas,
            **options,
        )
        self._until(lambda image: name in image.topics)

    def reset(self) -> None:
        """Return to the state after `start`, at the same ports: faults end, all nodes run.

        Topics, groups, transactions, rules, recorded requests and changes of the clock are
        dropped, and the topics of the constructor are created again.
        """
        running = self._running
        self._stop_registry()
        running.thread.do(running.end_faults)
        running.thread.complete(running.start_nodes((*self.controllers, *self)))
        self._engine.clear()
        admin.delete_topics(self._engine, list(self._engine.topics()))
        self._security.establish(self._engine)
        self._until(lambda image: not image.topics)
        self._create_topics()
        if self._registry is not None:
            self._registry.reset()
            self._start_registry()

    def serve_control(self, port: int = 0) -> str:
        """Serve the HTTP control port on loopback until the cluster stops; returns its URL.

        docs/reference/testing.md describes its requests. Raises OSError for a port
        in use.
        """
        from wirekafka.testing.cluster.cluster_control import ClusterControl
        from wirekafka.testing.control_port import ControlPort

        self._running  # noqa: B018
        if self._control is None:
            self._control = ControlPort(ClusterControl(self), port=port)
        return self._control.url

    # Parts.

    @property
    def _running(self) -> Nodes:
        if self._nodes is None:
            if self._was_stopped:
                raise EngineGone(
                    "this cluster was stopped: use it inside its `with`, or start() it again"
                )
            raise EngineGone(
                "this cluster was not started: write `with Cluster() as cluster:` or call start()"
            )
        return self._nodes

    @property
    def _engine(self) -> AllBrokers:  # type: ignore[override]
        self._running  # noqa: B018
        return self._everywhere

    def _require_running(self) -> None:
        self._running  # noqa: B018

    def _start_registry(self) -> None:
        config = self._security.service_config()
        self._serve_registry(self.bootstrap_servers, config, self._running.brokers.values())

    def _validate_by_registry(self, nodes: Sequence[int]) -> None:
        """Let brokers that were started again ask the registry."""
        if self._registry is not None and self._registry.access is not None:
            for node in nodes:
                if node in self._layout.broker_ids:
                    self._running.brokers[node].validate_by(self._registry.access)

    def _create_topics(self) -> None:
        present = self._engine.topics()
        for name, partitions in self._topics.items():
            if name not in present:
                self.create_topic(name, -1 if partitions is None else partitions)

    def __repr__(self) -> str:
        if self._nodes is None:
            return "<Cluster not running>"
        return f"<Cluster {self.bootstrap_servers}>"


def _end(nodes: Nodes) -> None:
    """End the remains of a cluster that was stopped, or could not be started."""
    nodes.thread.do(nodes.abort)
    nodes.thread.close()
