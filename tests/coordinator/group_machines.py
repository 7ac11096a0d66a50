"""The parts of a broker that the group APIs need: topics, nodes, groups on logs in memory."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from tests.memory_share_states import MemoryShareStates
from wirekafka.apis.shared import registry, routes
from wirekafka.apis.shared.call import Call
from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.coordinator.coordinated_image import CoordinatedImage
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.coordinator import OFFSETS_TOPIC, GroupCoordinator
from wirekafka.coordinator.groups.kind_configs import KindConfigs
from wirekafka.coordinator.groups.share.groups import ShareGroups
from wirekafka.coordinator.groups.share.latest_offsets import LatestOffsets
from wirekafka.coordinator.groups.streams.config import StreamsGroupOptions
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.coordinator.routing import Routing
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.records.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from wirekafka.runtime.observation import Committed

OFFSETS_PARTITIONS = 4


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\x01")


class WantedTopics:
    """Replaces the creation of topics: records which are wanted, and the test creates them."""

    def __init__(self) -> None:
        self.topics: dict[str, NewTopic] = {}
        self.failures: dict[str, str] = {}

    def recent_failures(self, names: Iterable[str], now_ms: int) -> dict[str, str]:
        return {name: self.failures[name] for name in names if name in self.failures}

    async def create_internal(
        self, topics: Iterable[NewTopic], now_ms: int, retry_after_ms: int, wanted_by: Any
    ) -> None:
        self.topics |= {topic.name: topic for topic in topics}


class _Verified:
    """Replaces a leader that has verified every producer's transaction."""

    def begin_verification(self, *_: Any, **__: Any) -> None:
        return None


class GroupMachines:
    """The group machines on logs in memory, for tests that look into them or refuse appends."""

    def __init__(self, kinds: KindConfigs | None = None, **settings: Any):
        self.clock = ManualClock()
        self.authorizer = self.quotas = None
        self.image = MetadataImage()
        self.image.features |= {"share.version": 0, "group.version": 1, "streams.version": 1}
        self.config = BrokerConfig.of()
        self.logs = [MemoryLog() for _ in range(OFFSETS_PARTITIONS)]
        self.topics = CoordinatedImage(self.image)
        self.consumer_options = GroupTimes()
        self.share_options = GroupTimes()
        self.streams_options = StreamsGroupOptions(initial_rebalance_delay_ms=0)
        self.streams_options_of: dict[str, StreamsGroupOptions] = {}
        self.auto_creation = WantedTopics()
        self.groups = GroupCoordinator(
            GroupConfig(**settings),
            self.clock,
            lambda: self._count(OFFSETS_TOPIC),
            self._observer_failed,
            kinds=kinds,
            topics=self.topics,
            options=lambda group_id: self.consumer_options,
            share_options=lambda group_id: self.share_options,
            streams_options=lambda group_id: self.streams_options_of.get(
                group_id, self.streams_options
            ),
        )
        self.share_states = MemoryShareStates()
        self.latest_offsets: dict[tuple[str, int], int] = {}
        self.routing = Routing(1, lambda topic, index: 1)
        latest = LatestOffsets(self.partition, self.routing)
        self.share_groups = ShareGroups(self.groups, self.share_states, self.topics, latest)
        self.topics.on_change = self.groups.topics_changed
        self.can_create_topics = True
        self._version = 0
        self.add_topic("t", 3)
        self.add_topic("u", 1)

    def _observer_failed(self, error: Exception) -> None:
        raise AssertionError("an observer failed") from error

    def partition(self, topic: str, index: int) -> Any:
        latest = self.latest_offsets.get((topic, index), 0)
        return SimpleNamespace(is_leader=True, high_watermark=latest, leading=_Verified)

    def _count(self, topic: str) -> int:
        found = self.image.topics.get(topic)
        return len(found.partitions) if found else 0

    def add_topic(self, name: str, partitions: int, id: bytes | None = None) -> None:
        self._version += 1
        records = [TopicRecord(name=name, topic_id=id or topic_id(name))]
        self.image.replay(records[0])
        self.topics.changed(Committed(records, self._version), [])
        self.grow_topic(name, partitions)

    def remove_topic(self, name: str) -> None:
        """Delete a topic, and what groups store for it."""
        self._version += 1
        topic = self.image.topics[name]
        record = RemoveTopicRecord(topic_id=topic.id)
        self.image.replay(record)
        self.topics.changed(Committed([record], self._version), [topic])
        self.groups.forget_topics(frozenset({topic.id}))
        self.clock.advance(0)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Extend a topic to this number of partitions."""
        topic = self.image.topics[name]
        self._version += 1
        records = [
            PartitionRecord(partition_id=index, topic_id=topic.id, replicas=[1], isr=[1], leader=1)
            for index in range(len(topic.partitions), partitions)
        ]
        for record in records:
            self.image.replay(record)
        self.topics.changed(Committed(records, self._version), [])

    def new_id(self) -> bytes:
        return uuid4().bytes

    async def ensure_internal_topic(self, name: str) -> None:
        if not self.can_create_topics:
            raise KafkaError(Error.INVALID_REPLICATION_FACTOR)
        if name in self.image.topics:
            return
        self.add_topic(name, OFFSETS_PARTITIONS)
        if name == OFFSETS_TOPIC:
            for index, log in enumerate(self.logs):
                self.groups.lead(index, log)

    def nodes(self, listener: str) -> list[Any]:
        return [SimpleNamespace(id=1, host=f"host-of-{listener}", port=9092)]

    def ready(self) -> GroupMachines:
        asyncio.run(self.ensure_internal_topic(OFFSETS_TOPIC))
        return self

    def ask(self, request: Request, version: int, **call: Any) -> Any:
        """The response as a client gets it: encoded, and decoded again."""
        registry.load()
        route = routes.BROKERS.find(type(request).key << 16 | version)
        assert route is not None
        asked = type(request).decode(bytes(request.encode(version)), version)
        context = Call(self, client_host="/127.0.0.1", **call)  # type: ignore[arg-type]
        context.version, context.client_id = version, "client"
        try:
            answer = route.handle(asked, context)
            if inspect.isawaitable(answer):
                answer = asyncio.run(self.timed(answer))
        except KafkaError as error:
            answer = route.api.failure(asked, error, context)
        return type(answer).decode(bytes(answer.encode(version)), version)

    async def timed(self, answer: Any) -> Any:
        """The response; fails if it takes too long."""
        return await asyncio.wait_for(answer, 5)
