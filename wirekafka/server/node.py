"""Starts and stops a node: its broker, listeners and periodic tasks, in the right order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.routes import CONTROLLERS
from wirekafka.broker import Broker
from wirekafka.clock import Clock
from wirekafka.codec.batch import Buffer
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import listeners as addresses
from wirekafka.config.own import (
    RegistryAccess,
    disk_limit,
    mirror_source,
    schema_registry,
    tables_url,
)
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.files import Disk, RealDisk
from wirekafka.metadata.bootstrap import FirstUsers
from wirekafka.metadata.broker.claim import check_cluster, check_formatted
from wirekafka.metadata.broker.source import Foundation
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.replication.partition.schema_refusal import refusal_without_registry
from wirekafka.replication.raft.metadata_log import Sync
from wirekafka.server.background import recovery_pool
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.background.threads import OwnThread, sync_in_thread
from wirekafka.server.binding import Bindings
from wirekafka.server.clock import LoopClock
from wirekafka.server.connections.listener import Listener
from wirekafka.server.connections.pipeline import Hook, Pipeline
from wirekafka.server.controllers.controller_host import ControllerHost
from wirekafka.server.controllers.local_source import LocalSource
from wirekafka.server.controllers.remote_source import Controllers, RemoteSource
from wirekafka.server.net import Net, SocketNet
from wirekafka.server.peers.broker_connections import BrokerConnections
from wirekafka.server.peers.broker_links import BrokerLinks
from wirekafka.server.peers.replica_fetcher import replica_fetchers
from wirekafka.server.start_line import start_line

if TYPE_CHECKING:
    from wirekafka.metrics.measures import Measures
    from wirekafka.server.connections.connection import Connection
    from wirekafka.server.connections.request_memory import LimitedOwner
    from wirekafka.server.mirroring.mirroring import Mirroring
    from wirekafka.server.schema_look_ups import SchemaLookUps
    from wirekafka.server.space.disk_space import DiskSpace
    from wirekafka.server.tabling.tabling import Tabling
    from wirekafka.server.tiering.tiering import Tiering
    from wirekafka.server.tiering.work import Run
    from wirekafka.tiered.store import Store


_REQUIRED = "--cluster-id or CLUSTER_ID in the environment is"


def _loop_clock() -> Clock:
    return LoopClock(asyncio.get_running_loop())


def _new_id() -> bytes:
    """A random id whose text does not start with `-`, which command lines take for an option."""
    while True:
        new = uuid4().bytes
        if not uuid_text(new).startswith("-"):
            return new


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The clock, disk, network and id generator of a node, which tests replace."""

    clock: Callable[[], Clock] = _loop_clock
    """Called by `Node.start` on the event loop that the node runs on."""
    node_clock: Callable[[], Clock] | None = None
    """The clock by which nodes watch each other, for heartbeats, requests to other nodes and the
    quorum. None is `clock`; a test that stops `clock`, or lets it leap, has another."""
    disk: Callable[[], Disk] = RealDisk
    net: Net = field(default_factory=SocketNet)
    new_id: Callable[[], bytes] = _new_id
    """Makes a random id of 16 bytes."""
    hook: Hook | None = None
    """Called in place of the handlers, for fault rules and traffic recording."""
    recover: Callable[..., set[str]] | None = recovery_pool.recover
    """Recovers logs in worker processes, which use the real disk; None recovers in this process."""
    store: Store | None = None
    """The object store of tiered storage in place of the configured one."""
    store_blocks: bool = False
    """Whether requests to `store` may block, so that they run in threads; a simulated store does
    not."""
    store_run: Run | None = None
    """Runs the requests to `store`; None is at once, or in threads if they block."""
    sync: Sync = sync_in_thread
    """Runs the fsyncs of the metadata log; `sync_inline` for simulated disks."""
    cluster_id: str | None = None
    """The cluster id of new log directories; None generates one."""
    required_cluster_id: str | None = None
    """The cluster that the node has to belong to, its directories and controllers included."""
    first_users: FirstUsers = ()
    """The SCRAM credentials of a new cluster (`--add-scram`)."""
    measures: Measures | None = None
    """The counters of metrics; None if there are none."""

    def check_directories(self, disk: Disk, config: BrokerConfig) -> None:
        """Raise UnusableDirectory for directories of another cluster than the required one."""
        if self.required_cluster_id is not None:
            check_cluster(disk, config, self.required_cluster_id, _REQUIRED)

    def check_controllers(self, cluster_id: str) -> None:
        """Raise UnusableDirectory for controllers of another cluster than the required one."""
        if self.required_cluster_id not in (None, cluster_id):
            raise UnusableDirectory(
                f"the controllers belong to cluster {cluster_id}, but {_REQUIRED}"
                f" {self.required_cluster_id}"
            )


class Node:
    """A broker with its listeners and periodic tasks, on the running event loop."""

    def __init__(self, config: BrokerConfig, platform: Platform | None = None):
        """`config` must have passed `refuse_unsupported`."""
        self._config = config
        self._platform = platform or Platform()
        self._bindings = Bindings(self._platform.net)
        self._housekeeping: Housekeeping | None = None
        self._look_ups = OwnThread("look-ups")
        self._links: BrokerLinks | None = None
        self.tiering: Tiering | None = None
        """Tiered storage; None while it is not enabled."""
        self.tabling: Tabling | None = None
        """The tables of topics; None without `wirekafka.tables.url`."""
        self.mirroring: Mirroring | None = None
        """The copies of another cluster's topics; None without `wirekafka.mirror.*`."""
        self._schema_registry: RegistryAccess | None = schema_registry(config.sources)
        """The registry that validates schemas; None if there is none."""
        disk_limit(config.sources)  # Raises ConfigError before anything is opened.
        self._schemas: SchemaLookUps | None = None
        """Opened by the first batch with schemas to validate."""
        self.failure: Exception | None = None
        """The error after which the node must be stopped, or None."""
        self.on_failure: Callable[[], None] = _ignore

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener."""
        return self.listeners[0].address

    @property
    def listeners(self) -> Sequence[Listener]:
        """All listeners, in the configured order, the controller's listeners last."""
        return self._bindings.listeners

    @property
    def start_line(self) -> str:
        """The line of the log about the started node and its addresses."""
        broker = self.broker
        return start_line(self._config, broker.cluster_id, broker.directories, self._bindings)

    @property
    def space(self) -> DiskSpace | None:
        """The budgets, and the unread records that are kept; None while there are neither."""
        return None if self._housekeeping is None else self._housekeeping.space

    async def start(self) -> None:
        """Start, and return once clients are served.

        Raises ConfigError, UnusableDirectory, CorruptLog, OSError, or the KafkaError with which a
        controller refuses the broker.
        """
        self._look_ups.start()
        await self.open()
        self._bindings.start_thread()
        self._housekeeping = Housekeeping(self.broker, lambda: self.listeners)
        self._housekeeping.start()
        if self.tiering is not None:
            self.tiering.start()
        if self.tabling is not None:
            self.tabling.start()
        if self.mirroring is not None:
            self.mirroring.start()

    async def open(self) -> None:
        """`start` without the periodic tasks, for tests that run them themselves."""
        listeners = addresses.listeners(self._config)
        registry.load()
        self.pipeline = self._new_pipeline()
        clients = self._bindings.add(self._config, self.pipeline)
        nodes = self._bindings.add(self._config, Pipeline(routes=CONTROLLERS))
        try:
            nodes.bind(listeners.controller)
            foundation = await self._foundation(nodes.endpoints(listeners.advertised_controller))
            self.broker = broker = Broker(foundation)
            if (measures := foundation.measures) is not None:
                measures.recovering = {each.path: each.progress for each in broker.directories}
        except BaseException:
            self._bindings.stop_accepting()
            raise
        try:
            # Bind before the node registers, so that the registered ports are known and owned by
            # it, and accept afterwards: clients that connect in between wait.
            clients.created = self._prepared
            clients.bind(listeners.bound)
            broker.dynamic.check = self._check_config
            broker.dynamic.applied = partial(self._bindings.configured, clients)
            self._connect_to_brokers()
            self._open_tiering()
            self._open_tables()
            self._open_mirror()
            self._check_schemas()
            # A broker that cannot serve must not register: it would be given leaderships.
            await clients.prepare(broker)
            if nodes.listeners:
                # The quorum may need this node's vote before the broker can join.
                host = ControllerHost(broker.controller, broker.metadata, self._platform.new_id)
                await nodes.start(host)
            await broker.join(clients.endpoints(listeners.advertised))
            await clients.start(broker)
            self._bindings.configured(clients, broker.config)
        except BaseException:
            self.abort()
            raise

    async def stop(self) -> None:
        """Shut down cleanly: hand over leaderships, finish current requests, close the logs."""
        # The worker of tables ends meanwhile: it may have to complete a commit.
        tables = None if self.tabling is None else asyncio.ensure_future(self.tabling.stop())
        await self.broker.hand_over()
        await self.broker.source.resign()
        self._stop_periodic_work()
        self.stop_accepting()
        self.broker.release_waiting()
        await self._bindings.drain()
        self._bindings.stop_thread()
        if tables is not None:
            await tables
        await self.broker.stop()
        self._close_links()
        self._look_ups.stop()

    def abort(self) -> None:
        """Stop at once and leave the log directories as a killed process does."""
        if self.tabling is not None:
            self.tabling.abort()
        self._stop_periodic_work()
        self.stop_accepting()
        self.cut_connections()
        self._bindings.stop_thread()
        self._close_links()
        self._look_ups.stop()
        self.broker.abort()

    def _prepared(self, listener: Listener) -> None:
        """Connect a new listener of clients with the rest of the node."""
        listener.closed = self._disconnected
        if self._platform.measures is not None:
            listener.connection = _measured(self._platform.measures)

    async def _check_config(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Raise ConfigError if dynamic settings, of all brokers or of this broker, are unusable."""
        config = self.broker.config
        if config.sources.refers({**cluster, **own}):
            # Config providers read files, which may be on a network.
            config = await asyncio.to_thread(config.with_dynamic, cluster, own)
        else:
            config = config.with_dynamic(cluster, own)
        await self._bindings.check(config)

    def _disconnected(self, connection_id: str) -> None:
        self.broker.shares.disconnected(connection_id)
        self.broker.telemetry.disconnected(connection_id)
        self.broker.sessions.disconnected(connection_id)
        self.broker.readers.disconnected(connection_id, self.broker.clock.now_ms())

    def _new_pipeline(self) -> Pipeline:
        platform = self._platform
        if platform.measures is None:
            return Pipeline(platform.hook)
        from wirekafka.server.connections.measured_pipeline import MeasuredPipeline

        return MeasuredPipeline(platform.measures.requests, platform.hook)

    def _connect_to_brokers(self) -> None:
        """Let the broker fetch from other brokers and send them its coordinators' requests."""
        broker = self.broker
        connections = BrokerConnections(
            broker.image, lambda: broker.config, self._platform.net, self._node_clock()
        )
        broker.fetching = replica_fetchers(broker, connections)
        self._links = BrokerLinks(broker.image, lambda: broker.config, connections)
        broker.routing.links = self._links

    def _open_tiering(self) -> None:
        """Enable tiered storage if it is configured. Raises ConfigError, KafkaError."""
        if not self._config.remote_log_storage_system_enable:
            return
        from wirekafka.server.tiering.settings import check_metadata_manager, opened_layout
        from wirekafka.server.tiering.tiering import Tiering
        from wirekafka.server.tiering.work import run_inline

        check_metadata_manager(self._config)
        store = self._platform.store
        layout = opened_layout(self._config, store)
        if store is None or self._platform.store_blocks:
            run = None
        else:
            run = self._platform.store_run or run_inline
        self.tiering = self.broker.tiering = Tiering(self.broker, layout, run)

    def _open_tables(self) -> None:
        """Enable tables of topics if they are configured. Raises ConfigError."""
        if tables_url(self._config.sources) is None:
            return
        from wirekafka.server.tabling.settings import TablingSettings
        from wirekafka.server.tabling.tabling import Tabling

        settings = TablingSettings.of(self._config)
        assert settings is not None, "there is a URL"
        self.tabling = Tabling(self.broker, settings, lambda: self._schema_registry)

    def _open_mirror(self) -> None:
        """Enable the copies of another cluster's topics if configured. Raises ConfigError."""
        if mirror_source(self._config.sources) is None:
            return
        from wirekafka.server.mirroring.mirroring import Mirroring
        from wirekafka.server.mirroring.settings import MirrorSettings

        settings = MirrorSettings.of(self._config)
        assert settings is not None, "there is a source"
        self.mirroring = Mirroring(self.broker, settings, self._platform.net)

    def _check_schemas(self) -> None:
        """Have the broker validate the schemas of topics, once a batch has any."""

        async def refusal(
            records: Buffer, topic: str, config: TopicConfig, check_apart: Sync
        ) -> KafkaError | None:
            if self._schemas is None:
                if self._schema_registry is None:
                    return await refusal_without_registry(records, topic, config, check_apart)
                from wirekafka.server.schema_look_ups import SchemaLookUps

                self._schemas = SchemaLookUps(self._schema_registry, self.broker.clock)
            return await self._schemas.checks.refusal(records, topic, config, check_apart)

        self.broker.schema_refusal = refusal

    def _stop_periodic_work(self) -> None:
        if self._schemas is not None:
            self._schemas.stop()
        if self._housekeeping is not None:
            self._housekeeping.stop()
        if self.mirroring is not None:
            self.mirroring.stop()
        if self.tiering is not None:
            self.tiering.stop()

    def _node_clock(self) -> Clock:
        platform = self._platform
        return (platform.node_clock or platform.clock)()

    def _close_links(self) -> None:
        if self._links is not None:
            self._links.close()

    async def _foundation(self, endpoints: Sequence[Endpoint]) -> Foundation:
        """Return the broker's dependencies; remote controllers are asked for the cluster's id."""
        platform, config = self._platform, self._config
        clock = platform.clock()
        disk = platform.disk()
        cluster_id: str | None = platform.cluster_id
        known = Controllers(platform.net, self._node_clock(), config)
        if config.has_own_controller:
            check_formatted(disk, config, cluster_id)
            platform.check_directories(disk, config)
        else:
            try:
                cluster_id = await known.cluster_id()
            except BaseException:
                known.close()
                raise
            platform.check_controllers(cluster_id)
            check_cluster(disk, config, cluster_id, "the controllers to")
        source = LocalSource if config.has_own_controller else RemoteSource
        return Foundation(
            config=config,
            clock=clock,
            node_clock=known.clock,
            disk=disk,
            new_id=platform.new_id,
            recover=platform.recover,
            cluster_id=cluster_id,
            source=lambda parts: source(parts, known),
            controller_endpoints=endpoints,
            sync=platform.sync,
            run_apart=self._look_ups.run,
            failed=self.fail,
            resolve=platform.net.resolve,
            users=platform.first_users,
            measures=platform.measures,
        )

    def fail(self, failure: Exception) -> None:
        """Note an error after which the node must be stopped, and report it."""
        self.failure = failure
        self.on_failure()

    def validate_by(self, registry: RegistryAccess) -> None:
        """Look schemas up in a registry that has just started, unless another is configured."""
        if schema_registry(self._config.sources) is not None:
            return
        self._schema_registry = registry
        schemas, self._schemas = self._schemas, None
        if schemas is not None:
            schemas.stop()

    def stop_accepting(self) -> None:
        """Close the listeners; established connections stay open."""
        self._bindings.stop_accepting()

    async def accept_again(self) -> None:
        """Reopen the closed listeners at their previous addresses. Raises OSError."""
        await self._bindings.accept_again()

    def cut_connections(self) -> None:
        """Close every connection at once; the listeners keep accepting."""
        self._bindings.cut_connections()


def _measured(measures: Measures) -> Callable[[LimitedOwner], Connection]:
    """The factory of connections whose requests are measured."""
    from wirekafka.server.connections.measured_connection import (
        LimitedMeasuredConnection,
        MeasuredConnection,
    )

    def create(owner: LimitedOwner) -> Connection:
        kind = MeasuredConnection if owner.memory is None else LimitedMeasuredConnection
        return kind(owner, measures)

    return create


def _ignore() -> None:
    """The default `on_failure`: the failure is in the log."""
