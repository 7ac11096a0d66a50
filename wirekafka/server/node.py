"""Starts and stops a node: its broker, listeners and periodic tasks, in the right order."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from wirekafka.apis import registry
from wirekafka.broker import Broker
from wirekafka.clock import Clock
from wirekafka.config import listeners as addresses
from wirekafka.config.address import ANYWHERE, Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.security_protocol import uses_tls
from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.files import Disk, RealDisk
from wirekafka.log.log_directory import UnusableDirectory
from wirekafka.log.recovery import CorruptLog
from wirekafka.metadata.bootstrap import FirstUsers
from wirekafka.metadata.claim import check_cluster
from wirekafka.metadata.registration import SECURITY_PROTOCOLS, Endpoint
from wirekafka.metadata.source import Foundation, MetadataSource, SourceParts
from wirekafka.replication.metadata_log import Sync
from wirekafka.server import recovery_pool
from wirekafka.server.broker_connections import BrokerConnections
from wirekafka.server.broker_links import BrokerLinks
from wirekafka.server.clock import LoopClock
from wirekafka.server.housekeeping import Housekeeping
from wirekafka.server.listener import ConnectionLimits, Listener
from wirekafka.server.local_socket import LocalSocket
from wirekafka.server.local_source import LocalSource
from wirekafka.server.net import Net, Port, SocketNet
from wirekafka.server.pipeline import Hook, Pipeline
from wirekafka.server.remote_source import Controllers
from wirekafka.server.replica_fetcher import replica_fetchers
from wirekafka.server.syncing import sync_in_thread

logger = logging.getLogger(__name__)

_DRAIN_S = 3.0
_MOST_FILES = 1 << 20
_LOOPBACK = "127.0.0.1"


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
    disk: Callable[[], Disk] = RealDisk
    net: Net = field(default_factory=SocketNet)
    new_id: Callable[[], bytes] = _new_id
    """Makes a random id of 16 bytes."""
    hook: Hook | None = None
    """Called in place of the handlers, for fault rules and traffic recording."""
    recover: Callable[..., set[str]] | None = recovery_pool.recover
    """Recovers logs in worker processes, which use the real disk; None recovers in this process."""
    sync: Sync = sync_in_thread
    """Runs the fsyncs of the metadata log; `sync_inline` for simulated disks."""
    cluster_id: str | None = None
    """The cluster id of new log directories; None generates one."""
    first_users: FirstUsers = ()
    """The SCRAM credentials of a new cluster (`--add-scram`)."""


class Node:
    """A broker with its listeners and periodic tasks, on the running event loop."""

    def __init__(self, config: BrokerConfig, platform: Platform | None = None):
        """`config` is one that `refuse_unsupported` accepts."""
        self._config = config
        self._platform = platform or Platform()
        self._listeners: list[Listener] = []
        self._housekeeping: Housekeeping | None = None
        self._links: BrokerLinks | None = None
        self.failure: Exception | None = None
        """The error after which the node must be stopped, or None."""
        self.on_failure: Callable[[], None] = _ignore

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener."""
        return self._listeners[0].address

    @property
    def listeners(self) -> Sequence[Listener]:
        """All listeners, in the configured order."""
        return self._listeners

    async def start(self) -> None:
        """Start, and return once clients are served.

        Raises ConfigError, UnusableDirectory, CorruptLog, OSError, or the KafkaError with which a
        controller refuses the broker.
        """
        await self.open()
        self._housekeeping = Housekeeping(self.broker, self._listeners)
        self._housekeeping.start()

    async def open(self) -> None:
        """`start` without the periodic tasks, for tests that run them themselves."""
        listeners = addresses.listeners(self._config)
        registry.load()
        foundation = await self._foundation()
        self.broker = Broker(foundation)
        try:
            # Bind before the node registers, so that the registered ports are known and owned by
            # it, and accept afterwards: clients that connect in between wait.
            self._bind(listeners)
            self.broker.check_config = self._check_config
            self._connect_to_brokers()
            await self.broker.join([], self._endpoints(listeners))
            for listener in self._listeners:
                await listener.start(self.broker)
        except BaseException:
            self.abort()
            raise

    async def stop(self) -> None:
        """Shut down cleanly: hand over leaderships, finish current requests, close the logs."""
        await self.broker.hand_over()
        if self._housekeeping is not None:
            self._housekeeping.stop()
        self.stop_accepting()
        self.broker.release_waiting()
        for listener in self._listeners:
            listener.drain()
        if any(listener.connections for listener in self._listeners):
            await self._drained()
        self.cut_connections()
        await self.broker.stop()
        self._close_links()

    def abort(self) -> None:
        """Stop at once and leave the log directories as a killed process does."""
        if self._housekeeping is not None:
            self._housekeeping.stop()
        self.stop_accepting()
        self.cut_connections()
        self._close_links()
        self.broker.abort()

    def _connect_to_brokers(self) -> None:
        """Let the broker fetch from other brokers and send them its coordinators' requests."""
        broker = self.broker
        connections = BrokerConnections(
            broker.image, lambda: broker.config, self._platform.net, broker.clock
        )
        broker.fetching = replica_fetchers(broker, connections)
        self._links = BrokerLinks(broker.image, lambda: broker.config, connections)
        broker.routing.other_brokers = self._links

    def _close_links(self) -> None:
        if self._links is not None:
            self._links.close()

    async def _foundation(self) -> Foundation:
        """Return the broker's dependencies; remote controllers are asked for the cluster's id."""
        platform, config = self._platform, self._config
        clock, disk = platform.clock(), platform.disk()
        cluster_id: str | None = platform.cluster_id
        source: Callable[[SourceParts], MetadataSource] = LocalSource
        if not config.has_own_controller:
            known = Controllers(platform.net, clock, config)
            try:
                cluster_id = await known.cluster_id()
            except BaseException:
                known.close()
                raise
            check_cluster(disk, config, cluster_id)
            source = known.source
        return Foundation(
            config=config,
            clock=clock,
            disk=disk,
            new_id=platform.new_id,
            recover=platform.recover,
            cluster_id=cluster_id,
            source=source,
            sync=platform.sync,
            failed=self._fail,
            users=platform.first_users,
        )

    def _check_config(self, config: BrokerConfig) -> None:
        for listener in self._listeners:
            if listener.tls is not None:
                listener.tls.check(config)

    def _fail(self, failure: Exception) -> None:
        self.failure = failure
        self.on_failure()

    def stop_accepting(self) -> None:
        """Close the listeners; established connections stay open."""
        for listener in self._listeners:
            listener.stop_accepting()

    async def accept_again(self) -> None:
        """Reopen the closed listeners at their previous addresses. Raises OSError."""
        for listener in self._listeners:
            await listener.reopen(self._listen(*listener.address), self.broker)

    def cut_connections(self) -> None:
        """Close every connection at once; the listeners keep accepting."""
        for listener in self._listeners:
            listener.abort()

    async def _drained(self) -> None:
        """Wait until every connection is closed, for at most `_DRAIN_S` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                for listener in self._listeners:
                    await listener.drained()

    def _bind(self, listeners: addresses.Listeners) -> None:
        limits = ConnectionLimits(Pipeline(self._platform.hook))
        for each in listeners.bound:
            listener = Listener(each.name, self._listen(each.host, each.port), limits)
            self._listeners.append(listener)
            if uses_tls(each.protocol):
                from wirekafka.server.listener_tls import ListenerTls

                listener.tls = ListenerTls(listener, each.protocol, self.broker.config)

    def _listen(self, host: str, port: int) -> Port:
        # A small send buffer stays in the processor's cache: 0.08 ms/MB from file to socket,
        # 0.25 with the system's default of a megabyte.
        return self._platform.net.listen(
            host, port, send_buffer_bytes=self._config.socket_send_buffer_bytes
        )

    def _endpoints(self, listeners: addresses.Listeners) -> list[Endpoint]:
        """The advertised addresses: as configured, with the bound port in place of 0, and this
        machine's name in place of a wildcard address."""
        endpoints = []
        for advertised, listener in zip(listeners.advertised, self._listeners, strict=True):
            port = advertised.port or listener.address[1]
            host = advertised.host
            if host in ANYWHERE:
                host = self._platform.net.own_name()
            endpoints.append(
                Endpoint(advertised.name, host, port, SECURITY_PROTOCOLS[advertised.protocol])
            )
        return endpoints


@dataclass(frozen=True, slots=True)
class Format:
    """What is written to new log directories, and ignored for others."""

    cluster_id: str | None = None
    first_users: FirstUsers = ()


def run(
    config: BrokerConfig,
    loop: str = "auto",
    new: Format | None = None,
    ready: Callable[[str, int], None] | None = None,
) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit status.

    `loop` is `auto`, `asyncio` or `uvloop`; `new` is for new log directories; `ready` is called
    with the first listener's address once clients are served.
    """
    _allow_many_files()
    gc.disable()  # During start-up: nearly all objects stay, and scanning them takes time.
    with asyncio.Runner(loop_factory=_loop_factory(loop)) as runner:
        return runner.run(_serve(config, new or Format(), ready))


async def _serve(
    config: BrokerConfig, new: Format, ready: Callable[[str, int], None] | None
) -> int:
    loop = asyncio.get_running_loop()
    should_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, should_stop.set)
    for name, source in config.unknown:
        logger.warning("%s (from %s) is not a Kafka option and is ignored", name, source)
    node = Node(config, Platform(cluster_id=new.cluster_id, first_users=new.first_users))
    node.on_failure = should_stop.set
    try:
        if not await _started(node, should_stop):
            return 0
    except (UnusableDirectory, CorruptLog, KafkaError) as error:
        print(f"wirekafka: {error}", file=sys.stderr)
        return 1
    control = LocalSocket(node.broker)
    await control.start()
    _tune_garbage_collector()
    host, port = node.address
    address = Address(_LOOPBACK if host in ANYWHERE else host, port)
    print(f"wirekafka ready: {address}", flush=True)
    if ready is not None:
        ready(*address)
    await should_stop.wait()
    logger.info("Stopping")
    control.stop()
    try:
        await node.stop()
    except (OSError, KafkaError) as error:
        logger.error("Not stopped cleanly, the next start will recover the logs: %s", error)
        return 1
    logger.info("Stopped")
    return 1 if node.failure is not None else 0


async def _started(node: Node, should_stop: asyncio.Event) -> bool:
    """Start a node; False if a stop was requested before it was started. Raises as `Node.start`.

    A broker waits for its controllers without a time limit.
    """
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(should_stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    logger.info("Stopped before the start was complete")
    return False


def _ignore() -> None:
    """The default `on_failure`: the failure is in the log."""


def _allow_many_files() -> None:
    """Raise the limit of open files: each connection and each segment in use needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses more than its kernel limit.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _tune_garbage_collector() -> None:
    """Exempt all present objects from garbage collection, and run it less often.

    Requests create no reference cycles, so that the collector finds little.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    gc.enable()


def _loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if loop == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if loop == "uvloop":
            raise
        return None
    return uvloop.new_event_loop
