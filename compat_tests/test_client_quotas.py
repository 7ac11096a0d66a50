"""Client quotas beside Apache Kafka: the same requests get the same throttle times and errors.

A throttle time depends on when in a window a request arrives, and topics take longer to create in
the JVM: times may differ by `TOLERANCE_MS`. They are tens of seconds, so that this is little.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.conftest import RunningBroker
from tests.eventually import eventually
from tests.raw_client import RawClient
from wirekafka.codec.message import Request
from wirekafka.codec.record import Record, encode_batch
from wirekafka.metadata.controller.quotas import DEFAULT, EXACT
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest

TOLERANCE_MS = 2_000
USER = "ANONYMOUS"


class Client:
    """Sends each request on a connection of its own: a throttled one is muted."""

    def __init__(self, address: tuple[str, int]):
        self._address = address
        self.name = f"quotas-{secrets.token_hex(4)}"
        self.client_id: str | None = self.name

    def ask(self, request: Request, version: int, client_id: str | None = None) -> Any:
        host, port = self._address
        with RawClient(port, host, timeout_s=60) as raw:
            number = raw.send(request, version, client_id or self.client_id)
            return raw.receive(type(request), version, number)

    def set_quota(self, value: float | None, quota: str, **entity: str | None) -> None:
        """Set a quota of this client, or of another entity; returns once it is in force."""
        entry = AlterClientQuotasRequest.EntryData
        parts = [
            entry.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in (entity or {"client_id": self.name}).items()
        ]
        ops = [entry.OpData(key=quota, value=value or 0.0, remove=value is None)]
        request = AlterClientQuotasRequest(entries=[entry(entity=parts, ops=ops)])
        [result] = self.ask(request, 1, "admin").entries
        assert result.error_code == 0, result.error_message
        components = [
            DescribeClientQuotasRequest.ComponentData(
                entity_type=part.entity_type,
                match_type=EXACT if part.entity_name else DEFAULT,
                match=part.entity_name,
            )
            for part in parts
        ]
        described = DescribeClientQuotasRequest(components=components, strict=True)

        def current() -> float | None:
            values = [
                each for entry in self.ask(described, 1, "admin").entries for each in entry.values
            ]
            return next((each.value for each in values if each.key == quota), None)

        eventually(lambda: current() == value)

    def create(self, *names: str, version: int = 7, partitions: int = 1, **options: Any) -> Any:
        new = CreateTopicsRequest.CreatableTopic
        topics = [
            new(name=f"{self.name}-{name}", num_partitions=partitions, replication_factor=1)
            for name in names
        ]
        return self.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000, **options), version)

    def produce(self, size_bytes: int, version: int = 9) -> int:
        """Produce one record of this size; returns the throttle time."""
        data = ProduceRequest.TopicProduceData
        records = encode_batch([Record(0, 1_700_000_000_000, None, b"v" * size_bytes, ())])
        part = data.PartitionProduceData(index=0, records=records)
        topic = data(name=f"{self.name}-t", partition_data=[part])
        response = self.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), version)
        assert response.responses[0].partition_responses[0].error_code == 0
        throttle_ms: int = response.throttle_time_ms
        return throttle_ms

    def fetch(self, **options: Any) -> Any:
        topic = FetchRequest.Topic
        part = topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        wanted = topic(topic=f"{self.name}-t", partitions=[part])
        return self.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[wanted], **options), 12)

    def with_topic(self) -> Client:
        """Create the topic that records go to."""
        self.create("t")
        eventually(lambda: self._is_led())
        return self

    def _is_led(self) -> bool:
        wanted = MetadataRequest.Topic(name=f"{self.name}-t")
        [topic] = self.ask(MetadataRequest(topics=[wanted]), 9).topics
        return topic.error_code == 0 and all(each.leader_id >= 0 for each in topic.partitions)


@pytest.fixture
def clients(broker: RunningBroker, apache_kafka: RunningBroker) -> Iterator[tuple[Client, Client]]:
    yield Client(broker.address), Client(apache_kafka.address)


Step = Callable[[Client], list[tuple[Any, int]]]
"""Plays a sequence; returns what must be equal, and a throttle time, for each of its requests."""


def produces(client: Client) -> list[tuple[Any, int]]:
    """Produce requests within the quota and above, cached here and not."""
    client.with_topic().set_quota(1000, "producer_byte_rate")
    sizes = (100, 8_000, 30_000, 100, 30_000, 100)
    return [
        (size, client.produce(size, version))
        for size, version in zip(sizes, (9, 9, 9, 9, 8, 8), strict=True)
    ]


def produces_without_a_client_id(client: Client) -> list[tuple[Any, int]]:
    """Client ids have quotas, users have none: a client without an id is not limited."""
    client.with_topic().set_quota(1, "producer_byte_rate", client_id=None)
    try:
        results = []
        for name in (None, "", "somebody"):
            client.client_id = name
            results.append((name, client.produce(30)))
        return results
    finally:
        client.set_quota(None, "producer_byte_rate", client_id=None)


def precedence(client: Client) -> list[tuple[Any, int]]:
    """Each level is set after a less specific one, and then decides."""
    client.with_topic()
    name = client.name
    entities: list[dict[str, str | None]] = [
        {"client_id": None},
        {"client_id": name},
        {"user": None},
        {"user": None, "client_id": None},
        {"user": None, "client_id": name},
        {"user": USER},
        {"user": USER, "client_id": None},
        {"user": USER, "client_id": name},
    ]
    results = []
    try:
        for number, entity in enumerate(entities):
            client.set_quota(1000 - 100 * number, "producer_byte_rate", **entity)
            results.append((number, client.produce(5_000)))
    finally:
        for entity in entities:
            client.set_quota(None, "producer_byte_rate", **entity)
    return results


def fetches(client: Client) -> list[tuple[Any, int]]:
    """Fetches above the quota are empty, and open no session."""
    client.with_topic().produce(9_500)
    client.set_quota(1000, "consumer_byte_rate")
    results = []
    for _ in range(3):
        response = client.fetch(session_id=0, session_epoch=0)
        shown = response.error_code, bool(response.session_id), len(response.responses)
        results.append((shown, response.throttle_time_ms))
    return results


def changes_topics(client: Client) -> list[tuple[Any, int]]:
    """Strict and permissive versions of the three requests that take tokens."""
    results = []

    def add(response: Any, each: list[Any]) -> None:
        results.append(([one.error_code for one in each], response.throttle_time_ms))

    client.set_quota(1, "controller_mutation_rate")
    response = client.create("a", "b", "c", partitions=8, validate_only=True)
    add(response, response.topics)
    response = client.create("a", "b", partitions=20, version=5)
    add(response, response.topics)
    response = client.create("c", "a", "b", partitions=8, version=7)
    add(response, response.topics)
    for version in (2, 3):
        topic = CreatePartitionsRequest.Topic(
            name=f"{client.name}-a", count=20 + version, assignments=None
        )
        response = client.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=30_000), version)
        add(response, response.results)
    for version in (5, 4):
        request = DeleteTopicsRequest(topic_names=[f"{client.name}-a"], timeout_ms=30_000)
        response = client.ask(request, version)
        add(response, response.responses)
    return results


def works(client: Client) -> list[tuple[Any, int]]:
    """Far above the quota on work, the throttle time is one window."""
    client.with_topic().set_quota(0.00001, "request_percentage")
    results = [("metadata", client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms)]
    results.append(("produce", client.produce(10)))
    response = client.fetch(session_id=0, session_epoch=-1)
    results.append((("fetch", len(response.responses)), response.throttle_time_ms))
    return results


@pytest.mark.parametrize(
    "play", [produces, produces_without_a_client_id, precedence, fetches, changes_topics, works]
)
def test_clients_are_throttled_as_by_kafka(clients: tuple[Client, Client], play: Step) -> None:
    ours, kafkas = (play(client) for client in clients)
    assert [each for each, _ in ours] == [each for each, _ in kafkas], (ours, kafkas)
    for (_, here), (_, there) in zip(ours, kafkas, strict=True):
        assert here == pytest.approx(there, abs=TOLERANCE_MS), (ours, kafkas)
        assert (here > 0) == (there > 0), (ours, kafkas)
