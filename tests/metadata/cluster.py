"""A cluster of one in memory: the controller, the broker's image, and calls to API handlers."""

from __future__ import annotations

import asyncio
import hashlib
from types import SimpleNamespace

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.local_channel import LocalChannel
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error
from wirekafka.metadata.broker.auto_creation import AutoCreation
from wirekafka.metadata.broker.dynamic_config import DynamicConfig
from wirekafka.metadata.broker.publish import Publisher
from wirekafka.metadata.controller.controller import Controller
from wirekafka.metadata.controller.features import Bootstrap, bootstrap_features
from wirekafka.metadata.controller.heartbeats import BrokerHeartbeat
from wirekafka.metadata.controller.producer_ids import ProducerIdSupply
from wirekafka.metadata.controller.registration import Endpoint, RegisterBroker
from wirekafka.metadata.controller.topics import CreateTopics, NewTopic
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.metadata.image.image import BROKER
from wirekafka.runtime.promise import Promise
from wirekafka.runtime.runtime import Runtime

CLUSTER_ID = "9UvsEkqVSi2LCpUjbAfwCQ"


class RecordingHost:
    """A host that records the calls of a publisher."""

    def __init__(self):
        self.done = []

    def place_partition(self, topic, partition):
        self.done.append(("place", topic.name, partition.index, partition.leader_epoch))

    def drop_partition(self, topic, partition):
        self.done.append(("drop", topic.name, partition.index))

    def configure_topic(self, topic, overrides):
        self.done.append(("configure", topic, dict(overrides)))

    def configure_broker(self, cluster, broker):
        self.done.append(("configure broker", dict(cluster), dict(broker)))

    def image_changed(self, committed, removed):
        """Do nothing: no coordinator follows topics here."""

    def topics_deleted(self, topics):
        self.done.append(("deleted", [topic.name for topic in topics]))


class Cluster:
    first_brokers: tuple[int, ...] = (1,)

    def __init__(self, *brokers: int, **settings: str):
        self.config = BrokerConfig.of(
            {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.dynamic = DynamicConfig(self)
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.host = RecordingHost()
        self.failures = []
        self.publisher = Publisher(1, self.host, self.clock, self.failures.append)
        self.image = self.publisher.image
        self._ids = self._starts = 0
        self.controller = Runtime(
            self.new_machine,
            self.log,
            MetadataCodec(),
            self.clock,
            lost=Error.NOT_CONTROLLER,
            observer_failed=self.failures.append,
        )
        self.feed = self.controller.observe(self.publisher.take)
        self.controller.load()
        asyncio.run(self.publisher.start())
        self.node_id, self.cluster_id = 1, CLUSTER_ID
        self.authorizer = self.quotas = None
        self.role = Role(self)
        self.controller_channel = LocalChannel(self.role, self.feed)
        self.submit(Bootstrap(bootstrap_features()))
        for id in brokers or self.first_brokers:
            self.register(id)
        self.host.done.clear()
        self.producer_ids = ProducerIdSupply(
            lambda: self.controller_channel.allocate_producer_ids(1, self.image.brokers[1].epoch)
        )
        self.auto_creation = AutoCreation(self.controller_channel, lambda: self.config, self.clock)

    def new_machine(self):
        return Controller(self.current_config, self._new_id)

    def current_config(self) -> BrokerConfig:
        """The configuration, with the dynamic settings of the metadata log."""
        if not self.controller.is_loaded:
            return self.config
        image = self.controller.machine.image
        return self.config.with_dynamic(
            image.config(BROKER, ""), image.config(BROKER, str(self.config.node_id))
        )

    def _new_id(self) -> bytes:
        self._ids += 1
        return hashlib.md5(b"%d" % self._ids).digest()

    def register(self, id: int, *, unfence: bool = True, **fields) -> int:
        """Start a new incarnation of a broker; the previous one sends no further requests."""
        self.controller.machine.state.sessions.end(id)
        epoch = self.begin_registration(id, **fields).result()
        if unfence:
            self.beat(id)
        return epoch

    def begin_registration(
        self, id: int, *, rack: str | None = None, previous_epoch: int | None = None
    ) -> Promise:
        """As `register`, without waiting for the controller."""
        self._starts += 1
        return self.controller.post(
            RegisterBroker(
                id=id,
                incarnation_id=self._starts.to_bytes(16),
                epoch=self.log.end_offset,
                rack=rack,
                previous_epoch=previous_epoch,
                endpoints=[
                    Endpoint("PLAINTEXT", f"host{id}", 9092),
                    Endpoint("OTHER", f"other{id}", 9094),
                ],
                log_dirs=[bytes([id]) * 16],
            )
        )

    def beat(self, id: int, **wants: bool):
        """A heartbeat of a broker that has applied the complete log."""
        return self.submit(
            BrokerHeartbeat(
                broker_id=id,
                broker_epoch=self.controller.machine.image.brokers[id].epoch,
                metadata_offset=self.log.end_offset - 1,
                cordoned=[],
                log_end=self.log.end_offset,
                **wants,
            )
        )

    def submit(self, command):
        return self.settled(self.controller.submit(command))

    def settled(self, response):
        """The response of a handler or a command, which may be a coroutine."""
        return asyncio.run(response) if asyncio.iscoroutine(response) else response

    def create(self, name: str, **options):
        reply = self.submit(CreateTopics([NewTopic(name=name, **options)]))[name]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def batches(self):
        """The records of each batch in the log."""
        codec = MetadataCodec()
        return [list(codec.decode(batch)) for batch in self.log.read_batches()]

    def records(self, since: int = 0):
        """Everything in the log, from an offset on."""
        return [record for batch in self.batches() for record in batch][since:]

    def call(self, handler, request, version: int, listener: str = "PLAINTEXT"):
        """Run a handler as a connection would; returns the response as a client decodes it."""
        registry.load()
        call = Call(self, listener=listener)
        call.version = version
        request = type(request).decode(request.encode(version), version)
        if registry.declared_by(type(request)).decide is handler:
            call = ControllerCall(self.role, version, call)
        response = self.settled(handler(request, call))
        return type(response).decode(response.encode(version), version)

    features = SimpleNamespace(supported=(), finalized={}, epoch=0)


class EmptyCluster(Cluster):
    """A controller that no broker has registered with."""

    first_brokers = ()

    def __init__(self, **settings: str):
        super().__init__(**settings)
        self.log.kraft_version = 0


class Role:
    """A `ControllerRole` over the cluster's log in memory."""

    authorizer = quotas = None

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self.clock = cluster.clock
        self.node_id, self.cluster_id = cluster.node_id, cluster.cluster_id
        self.quorum = cluster.log

    @property
    def config(self):
        return self._cluster.current_config()

    @property
    def image(self):
        return self._cluster.controller.machine.image

    async def submit(self, command):
        return await self._cluster.controller.submit(command)

    def resolve(self, host, done):
        done("10.0.0.9" if host == "clients.test" else None)

    async def keep_voters(self):
        self.quorum.keep_voters()
