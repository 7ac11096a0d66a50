"""A whole broker on files in a temporary directory, without sockets, under a manual clock."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tests.manual_clock import ManualClock
from tests.raw_client import frame, response_class
from wirekafka.apis import registry
from wirekafka.apis.registry import Call
from wirekafka.broker import Broker, Foundation
from wirekafka.codec.message import Request
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import KafkaError
from wirekafka.log.files import RealDisk
from wirekafka.log.slice import LogSlice
from wirekafka.metadata.registration import Endpoint
from wirekafka.metadata.topics import CreateTopics, NewTopic
from wirekafka.replication.partition import Partition
from wirekafka.server import dispatch
from wirekafka.server.dispatch import Parked, Replies


class InProcessBroker:
    """Serves requests as a connection would, byte for byte, each at once or parked."""

    def __init__(self, directory: Path, clock: ManualClock, **settings: str):
        registry.load()
        self.clock = clock
        values = {name.replace("_", "."): value for name, value in settings.items()}
        self._ids = 0
        self.broker = Broker(Foundation(
            config=BrokerConfig.of({"log.dirs": str(directory), **values}), clock=clock,
            disk=RealDisk(), new_id=self._new_id))
        now(self.broker.join([], [Endpoint("PLAINTEXT", "broker.test", 9092)]))

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """A topic; returns its id."""
        topic = NewTopic(name=name, num_partitions=partitions, replication_factor=1,
                         configs={key.replace("_", "."): value for key, value in configs.items()})
        created = now(self.broker.controller.submit(CreateTopics([topic])))[name]
        if isinstance(created, KafkaError):
            raise created
        topic_id: bytes = created.id
        return topic_id

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.broker.partitions[topic, index]

    def call(self, request: Request, version: int, client_id: str | None = "test") -> Any:
        """The response to a request that is answered at once."""
        exchange = self.begin(request, version, client_id)
        assert exchange.is_done, "the request waits"
        return exchange.response

    def begin(self, request: Request, version: int, client_id: str | None = "test") -> Exchange:
        """Serve a request as far as it goes; one that waits needs a running loop."""
        return Exchange(self.broker, request, version, client_id)

    def stop(self) -> None:
        now(self.broker.stop())

    def _new_id(self) -> bytes:
        self._ids += 1
        return hashlib.sha256(str(self._ids).encode()).digest()[:16]


class Exchange:
    """One request and what came of it so far."""

    def __init__(self, broker: Broker, request: Request, version: int, client_id: str | None):
        self.closes_connection = False
        self._request, self._version = request, version
        self._call = Call(broker)
        self._replies = Replies()
        payload = memoryview(frame(request, version, 1, client_id))
        self._parked: Parked | None = dispatch.serve(
            payload, 0, len(payload), self._call, self._replies)
        self._watch()

    @property
    def is_done(self) -> bool:
        return self._parked is None

    @property
    def response(self) -> Any:
        """The response; None when none is sent."""
        data = b"".join(
            part for buffer in [*self._replies.buffers, self._replies.tail]
            for part in (buffer.buffers() if isinstance(buffer, LogSlice) else (buffer,)))
        if not data:
            return None
        size, correlation_id = struct.unpack_from(">ii", data)
        assert size == len(data) - 4 and correlation_id == 1
        flexible = self._version in type(self._request).flexible and type(self._request).key != 18
        return response_class(type(self._request)).decode(
            data, self._version, at=9 if flexible else 8)

    async def settled(self) -> Exchange:
        """Give callbacks their turn."""
        for _ in range(4):
            await asyncio.sleep(0)
        return self

    def abandon(self) -> None:
        """The client goes away."""
        assert self._parked is not None
        self._parked.abandon()

    def _watch(self) -> None:
        self.closes_connection = self._call.wants_close
        if self._parked is not None:
            self._parked.waited.add_done_callback(self._resume)

    def _resume(self, _: object) -> None:
        assert self._parked is not None
        if self._parked.resume(self._call, self._replies):
            self._parked = None
        self._watch()


def now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that does not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def batch(*values: bytes, key: bytes | None = b"k", timestamp: int = 1_700_000_000_000,
          **options: Any) -> bytes:
    """A batch of records with these values, all with one key."""
    records = [Record(index, timestamp + index, key, value, ())
               for index, value in enumerate(values or (b"v",))]
    return bytes(encode_batch(records, options=BatchOptions(**options)))
