"""The monitoring of a node: counters, collectors, and the listener that serves them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

from wirekafka.config.address import Address
from wirekafka.controller import ControllerRole
from wirekafka.errors import KafkaError
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.metrics.measures import Measures
from wirekafka.replication.raft.metadata_log import Sync
from wirekafka.security.authorizer import Authorizer
from wirekafka.server.clock import LoopClock
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.controllers.local_source import LocalSource
from wirekafka.server.controllers.remote_source import RemoteSource
from wirekafka.server.descriptors import DESCRIPTORS
from wirekafka.server.monitoring.authentications import AuthenticationCollector
from wirekafka.server.monitoring.broker_state import BrokerCollector, CoordinatorCollector
from wirekafka.server.monitoring.cleaner import CleanerCollector
from wirekafka.server.monitoring.client_instances import ClientInstanceCollector
from wirekafka.server.monitoring.controller_state import ControllerCollector, QuorumCollector
from wirekafka.server.monitoring.coordinators import GroupCountCollector
from wirekafka.server.monitoring.exposition import Collector, EarlyExposition, Exposition
from wirekafka.server.monitoring.groups import LagCollector
from wirekafka.server.monitoring.health import (
    NodeCondition,
    ReplicaCollector,
    controller_warnings,
    directories_refuse,
    directory_warnings,
)
from wirekafka.server.monitoring.lag import LagTracker
from wirekafka.server.monitoring.node_state import (
    AuthorizerCollector,
    FeatureCollector,
    IdleCollector,
)
from wirekafka.server.monitoring.process import DiskCollector, LoopCollector, RefusalCollector
from wirekafka.server.monitoring.pulse import Pulse
from wirekafka.server.monitoring.requests import ConnectionCollector, RequestCollector
from wirekafka.server.monitoring.shares import ShareCollector
from wirekafka.server.monitoring.starting import StartCollector
from wirekafka.server.monitoring.topics import (
    FollowerCollector,
    PartitionCollector,
    TrafficCollector,
)
from wirekafka.server.node import Node

if TYPE_CHECKING:
    from wirekafka.server.monitoring.endpoint import MonitoringEndpoint

logger = logging.getLogger(__name__)

_SCRAPE_S = 10.0
_COUNT_S = 1.0
_BLOCKED_S = 30.0
"""An event loop that has not run for this long counts as dead."""


class Monitoring:
    """Create it before the node, with the running event loop; `serving` once the node serves."""

    def __init__(self, address: Address | None, hosts: Container[str] = frozenset()):
        """Bind the listener, if there is an address. Raises OSError.

        `hosts` are the names in Host headers that metrics are served to, besides addresses.
        """
        self.measures = Measures()
        self._loop = asyncio.get_running_loop()
        self._pulse = Pulse(self._loop, self.measures)
        self._exposition = Exposition()
        self._exposition.collectors = [
            LoopCollector(self.measures),
            DiskCollector(),
            RefusalCollector(),
        ]
        self._early: EarlyExposition | None = EarlyExposition(
            [DiskCollector(), StartCollector(self.measures)]
        )
        """Until the node serves: recovery may block the event loop for a long time."""
        # Without an address, pushed metrics would be served nowhere; what decodes them takes 4 MiB.
        self._telemetry = None if address is None else _telemetry(self.measures)
        self._node: Node | ControllerNode | None = None
        self._broker: BrokerCollector | None = None
        self._replicas: ReplicaCollector | None = None
        self.lag: LagTracker | None = None
        """The lag of groups and readers, once the node serves."""
        self._endpoint: MonitoringEndpoint | None = None
        if address is not None:
            from wirekafka.server.monitoring.endpoint import Application, MonitoringEndpoint

            health = {"live": self._live, "ready": self._ready}
            application = Application(self._text, health, hosts)
            self._endpoint = MonitoringEndpoint(address, application)

    @property
    def address(self) -> Address | None:
        """The host and port that are bound."""
        return None if self._endpoint is None else self._endpoint.address

    def start(self) -> None:
        """Count, and serve metrics of the process, and health."""
        self._pulse.start()
        if self._endpoint is not None:
            self._endpoint.start()

    def serving(self, node: Node | ControllerNode) -> None:
        """Serve the metrics of a node that has started."""
        collectors = self._exposition.collectors
        if isinstance(node, Node):
            self.lag = LagTracker(node.broker)
            self.lag.start()
            collectors = [*collectors, *self._of_broker(node), LagCollector(self.lag)]
        self._exposition.collectors = [*collectors, *self._of_quorum(node)]
        self._node, self._early = node, None

    def stopping(self) -> None:
        """Report that the node stops: it is not ready any more."""
        self._node = None
        if self.lag is not None:
            self.lag.stop()
        if self._broker is not None:
            self._broker.is_stopping = True

    def stop(self) -> None:
        """Close the listener."""
        self._pulse.stop()
        if self._endpoint is not None:
            self._endpoint.stop()

    def timed(self, sync: Sync) -> Sync:
        """The same way of syncing the metadata log, with its duration measured."""

        def measured(run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
            began_ns = time.perf_counter_ns()

            def finished(error: BaseException | None) -> None:
                took_ns = time.perf_counter_ns() - began_ns
                self.measures.metadata_flushes.record(took_ns // 1000)
                done(error)

            sync(run, finished)

        return measured

    def _of_broker(self, node: Node) -> list[Collector]:
        broker, measures = node.broker, self.measures
        self._broker, self._replicas = BrokerCollector(broker), ReplicaCollector(broker)
        return [
            RequestCollector(measures.requests),
            ConnectionCollector(measures.requests, lambda: node.listeners),
            TrafficCollector(measures, broker),
            PartitionCollector(broker),
            FollowerCollector(broker),
            self._replicas,
            CleanerCollector(measures, broker),
            self._broker,
            CoordinatorCollector(broker),
            GroupCountCollector(broker),
            ShareCollector(broker),
            AuthenticationCollector(lambda: node.listeners),
            *_of_tier(node, measures),
            *_of_tables(node),
            *_of_mirror(node),
            *([ClientInstanceCollector(broker)] if self._telemetry is not None else ()),
            *([self._telemetry] if self._telemetry is not None else ()),
        ]

    def _of_quorum(self, node: Node | ControllerNode) -> list[Collector]:
        source = node.broker.source if isinstance(node, Node) else node.source
        assert isinstance(source, LocalSource | RemoteSource)
        controller, log = source.controller, source.log
        role = controller if isinstance(controller, ControllerRole) else None
        clock = node.broker.clock if isinstance(node, Node) else node.source.controller.clock

        def image() -> MetadataImage:
            if isinstance(node, Node):
                return node.broker.image
            return node.source.controller.committed_image

        flushes = self.measures.metadata_flushes
        traffic = source.quorum_traffic
        quorum = QuorumCollector(log, role, clock, flushes, image, traffic=traffic)
        idle = IdleCollector(
            self.measures, is_broker=isinstance(node, Node), is_controller=role is not None
        )
        found: list[Collector] = [quorum, idle, FeatureCollector(image, lambda: log.kraft_version)]
        if role is not None:
            found.append(ControllerCollector(role, node.fail))
        authorizers: dict[str, Authorizer | None] = {}
        if isinstance(node, Node):
            authorizers["broker"] = node.broker.authorizer
        if role is not None:
            authorizers["controller"] = role.authorizer
        found.append(AuthorizerCollector(authorizers, clock))
        return found

    # Called by the threads of the endpoint.

    def _text(self, openmetrics: bool) -> Iterable[str]:
        early = self._early
        if early is not None:
            return early.text(openmetrics=openmetrics)
        scrape = asyncio.run_coroutine_threadsafe(
            self._exposition.text(openmetrics=openmetrics), self._loop
        )
        try:
            return scrape.result(_SCRAPE_S)
        except concurrent.futures.TimeoutError:
            scrape.cancel()
            raise TimeoutError from None

    def _not_live(self) -> str | None:
        # While it starts, recovery may block the event loop for a long time.
        blocked_s = time.monotonic() - self._pulse.last_s
        if self._node is not None and blocked_s > _BLOCKED_S:
            return f"the event loop has not run for {blocked_s:.0f} s"
        return None

    def _live(self) -> NodeCondition:
        return NodeCondition(self._not_live())

    def _ready(self) -> NodeCondition:
        node = self._node
        failure = self._not_ready(node)
        replicas = self._replicas
        if failure is not None or not isinstance(node, Node) or replicas is None:
            return NodeCondition(failure)
        self._count_replicas(replicas)
        if replicas.failure is not None:
            return NodeCondition(replicas.failure)
        warnings = (
            *controller_warnings(node.broker),
            *directory_warnings(node.broker.directories),
            *replicas.warnings,
        )
        return NodeCondition(warning="; ".join(warnings) or None)

    def _not_ready(self, node: Node | ControllerNode | None) -> str | None:
        if node is None:
            return "it starts or stops"
        if node.failure is not None:
            # Other errors have paths of this machine in their texts.
            is_public = isinstance(node.failure, KafkaError)
            return f"it has failed: {node.failure if is_public else type(node.failure).__name__}"
        shortage = DESCRIPTORS.shortage()
        if shortage is not None:
            return shortage
        if isinstance(node, ControllerNode):
            return directories_refuse([node.metadata_directory]) or self._not_live()
        broker = node.broker
        registered = broker.image.brokers.get(broker.node_id)
        if registered is None or registered.fenced:
            return "the controller has fenced the broker"
        return directories_refuse(broker.directories) or self._not_live()

    def _count_replicas(self, replicas: ReplicaCollector) -> None:
        """Count anew, on the event loop; while that is busy, the last counts have to do."""

        async def count() -> None:
            for _ in replicas.collect():
                await asyncio.sleep(0)

        counted = asyncio.run_coroutine_threadsafe(count(), self._loop)
        try:
            counted.result(_COUNT_S)
        except concurrent.futures.TimeoutError:
            counted.cancel()


def _telemetry(measures: Measures) -> Collector | None:
    """Let clients push their metrics (KIP-714), if the decoder's package is installed."""
    try:
        from wirekafka.server.monitoring.client_metrics import TelemetryCollector
    except ImportError:
        logger.info("Clients cannot push their metrics: wirekafka[telemetry] is not installed")
        return None
    collector = TelemetryCollector(LoopClock(asyncio.get_running_loop()).now_ms)
    measures.telemetry = collector.receive
    return collector


def _of_tier(node: Node, measures: Measures) -> list[Collector]:
    """The metrics of tiered storage, if it is enabled; imported only then."""
    if node.tiering is None:
        return []
    from wirekafka.server.monitoring.tier import TierCollector

    return [TierCollector(node.tiering, measures)]


def _of_tables(node: Node) -> list[Collector]:
    """The metrics of tables of topics, if there are any; imported only then."""
    if node.tabling is None:
        return []
    from wirekafka.server.monitoring.tables import TableCollector

    return [TableCollector(node.tabling)]


def _of_mirror(node: Node) -> list[Collector]:
    """The metrics of copies of another cluster's topics, if there are any; imported only then."""
    if node.mirroring is None:
        return []
    from wirekafka.server.monitoring.mirrors import MirrorCollector

    return [MirrorCollector(node.mirroring)]
