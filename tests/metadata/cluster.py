"""A cluster of one in memory: the controller, the broker's image, and calls to API handlers."""

from __future__ import annotations

import asyncio
import hashlib
from types import SimpleNamespace

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.apis.registry import Call
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error
from wirekafka.metadata.auto_creation import AutoCreation
from wirekafka.metadata.controller import Controller
from wirekafka.metadata.features import Bootstrap, bootstrap_features
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.metadata.image import MetadataImage
from wirekafka.metadata.producer_ids import ProducerIds
from wirekafka.metadata.publish import Publisher
from wirekafka.metadata.registration import Endpoint, RegisterBroker, UnfenceBroker
from wirekafka.metadata.topics import CreateTopics, NewTopic
from wirekafka.replication.runtime import Runtime

CLUSTER_ID = "9UvsEkqVSi2LCpUjbAfwCQ"


class RecordingHost:
    """Remembers what a publisher asked of the broker."""

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

    def topics_deleted(self, topics):
        self.done.append(("deleted", [topic.name for topic in topics]))


class Cluster:
    def __init__(self, *brokers: int, **settings: str):
        self.config = BrokerConfig.of(
            {name.replace("_", "."): value for name, value in settings.items()})
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.image = MetadataImage()
        self.host = RecordingHost()
        self.publisher = Publisher(1, self.image, self.host)
        self._ids = 0
        self.controller = Runtime(self._controller, self.log, MetadataCodec(), self.clock,
                                  lost=Error.NOT_CONTROLLER)
        self.controller.on_commit = self.publisher.apply
        self.controller.load()
        self.publisher.start()
        self.submit(Bootstrap(bootstrap_features()))
        for id in brokers or (1,):
            self.register(id)
        self.host.done.clear()
        self.producer_ids = ProducerIds(self.controller, 1)
        self.producer_ids.broker_epoch = self.image.brokers[1].epoch
        self.auto_creation = AutoCreation(self.controller, lambda: self.config)
        self.node_id, self.cluster_id = 1, CLUSTER_ID

    def _controller(self):
        return Controller(lambda: self.config, self._new_id)

    def _new_id(self) -> bytes:
        self._ids += 1
        return hashlib.md5(b"%d" % self._ids).digest()

    def register(self, id: int, *, unfence: bool = True, rack: str | None = None) -> int:
        epoch = self.log.end_offset
        self.submit(RegisterBroker(
            id=id, incarnation_id=bytes(15) + bytes([id]), epoch=epoch, rack=rack,
            endpoints=[Endpoint("PLAINTEXT", f"host{id}", 9092),
                       Endpoint("OTHER", f"other{id}", 9094)],
            log_dirs=[bytes([id]) * 16]))
        if unfence:
            self.submit(UnfenceBroker(id, epoch))
        return epoch

    def submit(self, command):
        return asyncio.run(self.controller.submit(command))

    def create(self, name: str, **options):
        reply = self.submit(CreateTopics([NewTopic(name=name, **options)]))[name]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def records(self, since: int = 0):
        """Everything in the log, from an offset on."""
        codec = MetadataCodec()
        decoded = [record for batch in self.log.read_batches() for record in codec.decode(batch)]
        return decoded[since:]

    def call(self, handler, request, version: int, listener: str = "PLAINTEXT"):
        """Run a handler as a connection would; returns the response as a client decodes it."""
        call = Call(self, listener=listener)
        call.version = version
        request = type(request).decode(request.encode(version), version)
        response = handler(request, call)
        if asyncio.iscoroutine(response):
            response = asyncio.run(response)
        return type(response).decode(response.encode(version), version)

    features = SimpleNamespace(supported=(), finalized={}, epoch=0)
