"""A complete node without sockets, under a manual clock, for tests of its parts."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from tests.manual_clock import ManualClock
from tests.memory_net import MemoryConnection, MemoryNet
from tests.raw_client import frame, response_in
from wirekafka.broker import Broker
from wirekafka.codec.message import Request
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import KafkaError
from wirekafka.log.files import Disk, RealDisk
from wirekafka.metadata.controller.topics import CreateTopics, NewTopic
from wirekafka.metrics.measures import Measures
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.server.connections.pipeline import Hook
from wirekafka.server.node import Node, Platform
from wirekafka.tiered.store import Store

_HOST, _PORT = "broker.test", 9092


class InProcessBroker:
    """A real `Node` on a network in memory, which gets the same bytes as from a client.

    It runs no housekeeping: tests start it, or do its work themselves. Without a running event
    loop, only requests that need not wait can be sent.
    """

    def __init__(
        self,
        directory: Path | str,
        clock: ManualClock,
        *,
        disk: Disk | None = None,
        new_id: Callable[[], bytes] | None = None,
        measures: Measures | None = None,
        hook: Hook | None = None,
        store: Store | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: str,
    ):
        self.clock = clock
        self._ids = 0
        self.net = MemoryNet()
        values = {name.replace("_", "."): value for name, value in settings.items()}
        found_disk = disk if disk is not None else RealDisk()
        self.node = Node(
            BrokerConfig.of(
                {"log.dirs": str(directory), "listeners": f"PLAINTEXT://{_HOST}:{_PORT}", **values},
                environment,
            ),
            Platform(
                clock=lambda: clock,
                disk=lambda: found_disk,
                net=self.net,
                new_id=new_id or self._new_id,
                recover=None,
                sync=sync_inline,
                measures=measures,
                hook=hook,
                store=store,
            ),
        )
        now(self._begun())

    def _begun(self) -> Coroutine[Any, Any, None]:
        """What starts the node; a subclass that runs on an event loop starts housekeeping too."""
        return self.node.open()

    @property
    def broker(self) -> Broker:
        """The node's parts."""
        return self.node.broker

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """A topic; returns its id."""
        topic = NewTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        created = now(self.broker.controller.submit(CreateTopics([topic])))[name]
        if isinstance(created, KafkaError):
            raise created
        topic_id: bytes = created.id
        return topic_id

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.broker.partitions[topic, index]

    def call(
        self,
        request: Request,
        version: int,
        client_id: str | None = "test",
        listener: str | None = None,
    ) -> Any:
        """The response to a request that need not wait."""
        exchange = self.begin(request, version, client_id, listener)
        assert exchange.is_done, "the request waits"
        return exchange.response

    def begin(
        self,
        request: Request,
        version: int,
        client_id: str | None = "test",
        listener: str | None = None,
        principal: str = "User:ANONYMOUS",
    ) -> Exchange:
        """Send a request over a connection of its own; it is served until it has to wait.

        It is received by the first listener, or by the given one, from a client that has
        authenticated as `principal`.
        """
        [address] = [
            each.address
            for each in self.node.listeners
            if each.name == (listener or self.node.listeners[0].name)
        ]
        connection = self.net.open(address)
        connection.protocol.call.authenticated(principal)
        return Exchange(connection, request, version, client_id)

    def stop(self) -> None:
        now(self.node.stop())

    def _new_id(self) -> bytes:
        self._ids += 1
        return hashlib.sha256(str(self._ids).encode()).digest()[:16]


class Exchange:
    """One request and its result so far."""

    def __init__(
        self, connection: MemoryConnection, request: Request, version: int, client_id: str | None
    ):
        self._request, self._version = request, version
        self._connection = connection
        payload = frame(request, version, 1, client_id)
        self._connection.feed(struct.pack(">i", len(payload)) + payload)

    @property
    def is_done(self) -> bool:
        """Whether the request has been served."""
        return self.closes_connection or not self._connection.protocol.is_parked

    @property
    def closes_connection(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._connection.is_closing()

    @property
    def response(self) -> Any:
        """The response; None when none was sent."""
        data = bytes(self._connection.received)
        if not data:
            return None
        size, correlation_id = struct.unpack_from(">ii", data)
        assert size == len(data) - 4 and correlation_id == 1
        return response_in(data[4:], type(self._request), self._version)

    async def settled(self) -> Exchange:
        """Run callbacks that are ready."""
        for _ in range(4):
            await asyncio.sleep(0)
        return self

    def abandon(self) -> None:
        """Disconnect the client."""
        self._connection.hang_up()

    def half_close(self) -> None:
        """Have the client end its side of the connection, as a close without a reset begins."""
        self._connection.end()


def now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that does not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def batch(
    *values: bytes, key: bytes | None = b"k", timestamp: int = 1_700_000_000_000, **options: Any
) -> bytes:
    """A batch of records with these values, all with one key."""
    records = [
        Record(index, timestamp + index, key, value, ())
        for index, value in enumerate(values or (b"v",))
    ]
    return bytes(encode_batch(records, options=BatchOptions(**options)))
