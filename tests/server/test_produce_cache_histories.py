"""Random histories of Produce requests: with and without the cache, all bytes are the same.

`wirekafka.server.connections.produce_cache` is the fast twin of the handler in
`wirekafka.apis.produce`. Two brokers get the same requests and the same events; one of them has a
hook, which turns its cache off. `WIREKAFKA_TWIN_SEEDS` sets how many histories are compared.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.memory_net import MemoryConnection
from tests.raw_client import frame
from tests.replication.replicas import FakeBrokers
from tests.server.test_client_quotas import quota_request
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.codec.compression import Codec
from wirekafka.metrics.measures import Measures
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import Leadership

SEEDS = int(os.environ.get("WIREKAFKA_TWIN_SEEDS", "24"))
STEPS = 60
CLIENT_IDS = (None, "", "one", "two", "a" * 300)
TOPICS = {"plain": {}, "stamped": {"message_timestamp_type": "LogAppendTime"}, "replicated": {}}
TIMEOUT_MS = 1_000
LED = Leadership(leader_id=1, leader_epoch=5, partition_epoch=5, isr=(1, 2), replicas=(1, 2))

Topic = ProduceRequest.TopicProduceData
Data = Topic.PartitionProduceData


class PassingHook:
    """Calls the handlers as no hook would: a pipeline with a hook has no cache."""

    def handle(self, route: Route, request: Any, call: Call) -> Any:
        return route.handle(request, call)


class Shape(NamedTuple):
    """What the requests of a producer have in common."""

    client_id: str | None
    version: int
    acks: int
    topic: str
    index: int


class Side:
    """One of the two brokers, with the connections of its clients."""

    def __init__(self, directory: Path, is_measured: bool, hook: PassingHook | None):
        self.clock = ManualClock()
        self.measures = Measures() if is_measured else None
        self.kafka = InProcessBroker(
            directory, self.clock, measures=self.measures, hook=hook, message_max_bytes="100000"
        )
        self.topic_ids = {
            name: self.kafka.create(name, 2, **configs) for name, configs in TOPICS.items()
        }
        self.lead()
        self._connections: dict[str | None, MemoryConnection] = {}

    def lead(self, leadership: Leadership = LED) -> None:
        partition = self.kafka.partition("replicated")
        partition.brokers = FakeBrokers(1, 2)
        partition.lead(leadership)

    def connection(self, client_id: str | None) -> MemoryConnection:
        found = self._connections.get(client_id)
        if found is None or found.is_closing():
            found = self.kafka.net.open(self.kafka.node.listeners[0].address)
            self._connections[client_id] = found
        return found

    def send(self, shape: Shape, records: list[Any], broken: Callable[[bytes], bytes]) -> None:
        """Send a request for each batch; `broken` is what becomes of the last."""
        payloads = [
            frame(self._request(shape, each), shape.version, 7, shape.client_id) for each in records
        ]
        payloads[-1] = broken(payloads[-1])
        self.connection(shape.client_id).feed(
            b"".join(struct.pack(">i", len(each)) + each for each in payloads)
        )

    def leave(self, client_id: str | None) -> None:
        self.connection(client_id).hang_up()

    def quota(self, name: str, value: float | None) -> None:
        """Set a quota, unless requests wait.

        They have no account yet: the handler gives them one at their end, and the first window of
        its rate begins then, the cache does not.
        """
        if len(self.kafka.broker.waiting):
            return
        self.kafka.begin(quota_request(name, value, client_id="one"), 1, "admin")

    def replicate(self, steps: int) -> None:
        """The follower has all but the last `steps` records."""
        partition = self.kafka.partition("replicated")
        if partition.leader is not None:
            offset = max(partition.high_watermark, partition.end_offset - steps)
            partition.leader.follower_fetched(2, offset, 0, 10, self.clock.now_ms())

    def strict(self, replicas: int) -> None:
        """Set min.insync.replicas; the metadata change too."""
        name = f"strict{replicas}"
        if (name, 0) not in self.kafka.broker.partitions:
            self.kafka.create(name, min_insync_replicas=str(replicas))
        self.kafka.partition("replicated").configure(self.kafka.partition(name).log.config)

    def seen(self) -> list[object]:
        """All that clients, followers and operators can see."""
        clients = [
            (client_id, bytes(each.received), each.is_closing(), _is_parked(each))
            for client_id, each in self._connections.items()
        ]
        logs = [
            (partition.end_offset, partition.high_watermark) for partition in self._partitions()
        ]
        waiting = len(self.kafka.broker.waiting)
        return [clients, logs, waiting, self._counted()]

    def logs(self) -> list[bytes]:
        """All bytes of all partitions."""
        return [
            log.load(log.read(log.start_offset, 1 << 30, end_offset=log.end_offset))
            for log in (partition.log for partition in self._partitions())
        ]

    def _partitions(self) -> list[Partition]:
        return [self.kafka.partition(name, index) for name in TOPICS for index in range(2)]

    def _counted(self) -> list[object]:
        if self.measures is None:
            return []
        requests, traffic = self.measures.requests, self.measures.traffic
        received = sorted(requests.received())
        api = requests.of("Produce")
        counts = (api.finished, api.in_flight, api.request_bytes, api.response_bytes)
        throttled = api.throttled.count
        clients = [
            (row.requests, row.responses, row.bytes_in, row.bytes_out)
            for _, row in requests.clients.rows()
        ]
        topics = [
            (each.produces, each.failed_produces, each.bytes_in, each.messages_in)
            for each in map(traffic.of, TOPICS)
        ]
        return [received, counts, dict(+api.errors), throttled, clients, topics]

    def _request(self, shape: Shape, records: Any) -> ProduceRequest:
        named = (
            Topic(name=shape.topic)
            if shape.version < 13
            else Topic(topic_id=self.topic_ids[shape.topic])
        )
        named.partition_data = [Data(index=shape.index, records=records)]
        return ProduceRequest(acks=shape.acks, timeout_ms=TIMEOUT_MS, topic_data=[named])


class History:
    """A random sequence of requests and events, applied to both sides."""

    def __init__(self, seed: int, sides: tuple[Side, Side]):
        self._random = random = Random(seed)
        self._sides = sides
        self._epoch = LED.leader_epoch
        self._sequences: dict[tuple[str, int], int] = {}
        self._shapes = [
            Shape(
                random.choice(CLIENT_IDS),
                random.choice((8, 9, 10, 11, 12, 13, 13)),
                random.choice((-1, -1, 0, 1, 1, 2) if random.random() < 0.2 else (-1, 1, 0)),
                random.choice(list(TOPICS)),
                random.choice((0, 0, 1, 5) if random.random() < 0.1 else (0, 1)),
            )
            for _ in range(4)
        ]

    def step(self) -> str:
        """Do one thing to both; returns a description of it."""
        if self._random.random() < 0.75:
            return self._produce()
        return self._event()

    def _produce(self) -> str:
        random = self._random
        shape = random.choice(self._shapes)
        records = [self._records(shape) for _ in range(random.choice((1, 1, 1, 2, 5)))]
        broken = random.choice((_whole,) * 18 + (_tagged, _cut_short, _ill_tagged))
        for side in self._sides:
            side.send(shape, records, broken)
        return f"{shape} {[each and len(each) for each in records]} {broken.__name__}"

    def _records(self, shape: Shape) -> Any:
        random = self._random
        values = [random.randbytes(random.choice((0, 1, 20, 60, 200, 17_000)))]
        values *= random.choice((1, 1, 3))
        plain = batch(*values)
        kind = random.random()
        if kind < 0.55:
            return plain
        if kind < 0.75:
            key = shape.topic, shape.index
            expected = self._sequences.get(key, 0)
            sequence = max(0, expected + random.choice((0, 0, 0, 0, 0, -1, 3)))
            if sequence == expected:
                self._sequences[key] = expected + len(values)
            return batch(*values, producer_id=5, producer_epoch=0, base_sequence=sequence)
        at = random.randrange(len(plain))
        return random.choice(
            (
                plain[:at] + bytes([plain[at] ^ random.choice((1, 16, 128))]) + plain[at + 1 :],
                plain[:at],
                plain + plain,
                None,
                b"",
                batch(random.randbytes(120_000)),
                batch(*values, compression=Codec.GZIP),
                batch(*values, compression=Codec.ZSTD),
                batch(
                    *values, is_transactional=True, producer_id=6, producer_epoch=0, base_sequence=0
                ),
            )
        )

    def _event(self) -> str:
        random = self._random
        value = random.choice((0, 0, 1, 2))
        client_id = random.choice(self._shapes).client_id
        quota = random.choice(("producer_byte_rate", "request_percentage"))
        limit = random.choice((None, 100, 1_000_000))
        delay_ms = random.choice((1, 100, TIMEOUT_MS, 20_000))
        events: tuple[Callable[[Side], object], ...] = (
            lambda side: side.replicate(value),
            lambda side: side.replicate(0),
            lambda side: side.replicate(value),
            lambda side: side.clock.advance(delay_ms),
            lambda side: side.clock.advance(delay_ms),
            lambda side: side.strict(1 + value % 2),
            lambda side: side.leave(client_id),
            lambda side: side.quota(quota, limit),
            lambda side: side.lead(leadership),
            lambda side: side.kafka.partition("replicated").follow(led_elsewhere),
        )
        self._epoch += 1
        leadership = replace(
            LED,
            leader_epoch=self._epoch,
            partition_epoch=self._epoch,
            isr=(1,) if value else (1, 2),
        )
        led_elsewhere = replace(leadership, leader_id=2)
        chosen = random.randrange(len(events))
        for side in self._sides:
            events[chosen](side)
        return f"event {chosen} with {value}, {client_id!r}, {quota}={limit}, {delay_ms} ms"


def _is_parked(connection: MemoryConnection) -> bool:
    return connection.protocol is not None and connection.protocol.is_parked


def _whole(payload: bytes) -> bytes:
    return payload


def _tagged(payload: bytes) -> bytes:
    """With an unknown tagged field at the end of the request."""
    return payload[:-1] + b"\1\x63\1x"


def _ill_tagged(payload: bytes) -> bytes:
    """With tagged fields announced behind the batch, but none there."""
    return payload[:-3] + b"\1" + payload[-2:]


def _cut_short(payload: bytes) -> bytes:
    return payload[:-2]


async def _compare(seed: int, directory: Path) -> None:
    is_measured = bool(seed % 2)
    sides = (
        Side(directory / "cached", is_measured, None),
        Side(directory / "handled", is_measured, PassingHook()),
    )
    history = History(seed, sides)
    steps = []
    for _ in range(STEPS):
        steps.append(history.step())
        for _ in range(6):
            await asyncio.sleep(0)
        cached, handled = (side.seen() for side in sides)
        assert cached == handled, "\n".join([f"seed {seed}", *steps])
    cached_logs, handled_logs = (side.logs() for side in sides)
    assert cached_logs == handled_logs, f"seed {seed}"
    for side in sides:
        await side.kafka.node.stop()


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
def test_responses_logs_and_counters_are_those_of_the_handler(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = 0
    append_valid = Leader.append_valid

    def counted(leader: Leader, *arguments: Any) -> Any:
        nonlocal served
        found = append_valid(leader, *arguments)
        served += found is not None
        return found

    monkeypatch.setattr(Leader, "append_valid", counted)  # Only the cache calls it.
    for seed in range(first, min(first + 8, SEEDS)):
        asyncio.run(_compare(seed, tmp_path / str(seed)))
    assert served > 200, "most requests are repeated"
