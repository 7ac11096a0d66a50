"""As much of a broker as the group APIs touch: topics, nodes, and groups on logs in memory."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.apis import registry
from wirekafka.codec.message import Request
from wirekafka.coordinator.group_config import GroupConfig
from wirekafka.coordinator.groups import OFFSETS_TOPIC, GroupCoordinator
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image import MetadataImage
from wirekafka.metadata.records import PartitionRecord, TopicRecord

OFFSETS_PARTITIONS = 4


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\x01")


class GroupBroker:
    def __init__(self, **settings: int):
        self.clock = ManualClock()
        self.image = MetadataImage()
        self.image.features["share.version"] = 0
        self.logs = [MemoryLog() for _ in range(OFFSETS_PARTITIONS)]
        self.groups = GroupCoordinator(
            GroupConfig(**settings), self.clock, lambda: self._count(OFFSETS_TOPIC))
        self.can_create_topics = True
        self.add_topic("t", 3)
        self.add_topic("u", 1)

    def _count(self, topic: str) -> int:
        found = self.image.topics.get(topic)
        return len(found.partitions) if found else 0

    def add_topic(self, name: str, partitions: int) -> None:
        self.image.replay(TopicRecord(name=name, topic_id=topic_id(name)))
        for index in range(partitions):
            self.image.replay(PartitionRecord(
                partition_id=index, topic_id=topic_id(name), replicas=[1], isr=[1], leader=1))

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

    def ready(self) -> GroupBroker:
        asyncio.run(self.ensure_internal_topic(OFFSETS_TOPIC))
        return self

    def ask(self, request: Request, version: int, **call: Any) -> Any:
        """What a client gets: the answer, as it is encoded and decoded again."""
        registry.load()
        route = registry.find(type(request).key << 16 | version)
        assert route is not None
        asked = type(request).decode(bytes(request.encode(version)), version)
        context = registry.Call(self, client_host="/127.0.0.1", **call)  # type: ignore[arg-type]
        context.version, context.client_id = version, "client"
        try:
            answer = route.handle(asked, context)
            if inspect.isawaitable(answer):
                answer = asyncio.run(_timed(answer))
        except KafkaError as error:
            answer = route.api.failure(asked, error, context)
        return type(answer).decode(bytes(answer.encode(version)), version)


async def _timed(answer: Any) -> Any:
    return await asyncio.wait_for(answer, 5)
