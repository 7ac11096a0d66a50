"""`wirekafka.Broker` and `wirekafka serve` send the same bytes for every request."""

from __future__ import annotations

import asyncio
import hashlib
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.fuzz.frames import is_unfinished, malformed_frames
from tests.in_process import batch
from tests.raw_client import RawClient, frame
from wirekafka import Broker
from wirekafka.apis.shared import registry
from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.sync_group import SyncGroupRequest
from wirekafka.server import node as node_module
from wirekafka.server.node import Node
from wirekafka.testing.settings import broker_settings

_SETTINGS = {
    "advertised.listeners": "PLAINTEXT://broker.test:9092",
    "group.initial.rebalance.delay.ms": "0",
}
_DEPENDS_ON_THE_MACHINE = {"DescribeLogDirs", "DescribeQuorum"}
"""Free space, and times."""
_ENDS_THE_BROKER = {"UnregisterBroker"}
_TOPIC, _GROUP = "orders", "readers"
_CLOSED = b"closed"


def ordinary(topic_id: bytes) -> Iterator[tuple[Request, int]]:
    """Typical requests of many APIs, in every version of the most used ones."""
    for version in range(14):
        yield MetadataRequest(topics=[MetadataRequest.Topic(name=_TOPIC)]), version
    for version in range(3, 14):
        for acks in (1, -1, 1, 0, 1):
            yield produce(topic_id, batch(b"value", b"other"), acks), version
        yield produce(topic_id, batch()[:-1] + b"~", 1), version
        yield produce(b"\7" * 16, batch(), 1, topic="nowhere"), version
    for version in range(4, 18):
        yield fetch(topic_id), version
        yield fetch(b"\7" * 16, topic="nowhere"), version
    for version in range(1, 8):
        yield list_offsets(), version
    for version in range(4):
        yield FindCoordinatorRequest(key=_GROUP), version
    yield (
        JoinGroupRequest(
            group_id=_GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"subscription")],
        ),
        3,
    )
    yield SyncGroupRequest(group_id=_GROUP, generation_id=1, member_id="nobody"), 2
    for version in range(2, 10):
        yield commit(), version
    for version in range(1, 8):
        yield OffsetFetchRequest(group_id=_GROUP, topics=None if version >= 2 else []), version
    for version in range(5):
        yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version
    yield (
        DescribeConfigsRequest(
            resources=[DescribeConfigsRequest.Resource(resource_type=2, resource_name=_TOPIC)],
            include_synonyms=True,
        ),
        4,
    )
    yield create_topics(), 7
    yield DeleteTopicsRequest(topic_names=["nowhere"], timeout_ms=1000), 4


def empty() -> Iterator[tuple[Request, int]]:
    """Empty requests of every API in every version."""
    for declared in registry.load().values():
        if declared.name not in _DEPENDS_ON_THE_MACHINE | _ENDS_THE_BROKER:
            for version in range(
                declared.request.versions.first, declared.request.versions.last + 1
            ):
                request: Any = declared.request()
                if declared.name == "Produce":
                    request.acks = 1  # Otherwise there would be no response.
                yield request, version


def unserved() -> Iterator[bytes]:
    """Payloads that close the connection, and ApiVersions in an unknown version."""
    yield struct.pack(">hhih", 18, 99, 7, -1) + b"\0"
    yield struct.pack(">hhih", 999, 0, 7, -1)
    yield struct.pack(">hhih", 0, 99, 7, -1)
    yield struct.pack(">hhih", 3, 0, 7, 500)
    yield struct.pack(">hhih", 3, 12, 7, -1) + b"\xff\xff\xff\xff\xff"
    frames = (each for each in malformed_frames(5) if not is_unfinished(each))
    for each in islice(frames, 150):
        if len(each) - 4 == struct.unpack_from(">i", each)[0]:
            yield each[4:]


def produce(topic_id: bytes, records: bytes, acks: int, topic: str = _TOPIC) -> ProduceRequest:
    kind = ProduceRequest.TopicProduceData
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            kind(
                name=topic,
                topic_id=topic_id,
                partition_data=[kind.PartitionProduceData(index=0, records=records)],
            )
        ],
    )


def fetch(topic_id: bytes, topic: str = _TOPIC) -> FetchRequest:
    kind = FetchRequest.Topic
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[
            kind(
                topic=topic,
                topic_id=topic_id,
                partitions=[kind.Partition(partition=0, fetch_offset=3, partition_max_bytes=500)],
            )
        ],
    )


def list_offsets() -> ListOffsetsRequest:
    kind = ListOffsetsRequest.Topic
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            kind(
                name=_TOPIC,
                partitions=[
                    kind.Partition(partition_index=index, timestamp=-1) for index in (0, 9)
                ],
            )
        ],
    )


def commit() -> OffsetCommitRequest:
    kind = OffsetCommitRequest.Topic
    return OffsetCommitRequest(
        group_id="alone",
        generation_id_or_member_epoch=-1,
        topics=[
            kind(name=_TOPIC, partitions=[kind.Partition(partition_index=0, committed_offset=3)])
        ],
    )


def create_topics() -> CreateTopicsRequest:
    kind = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        timeout_ms=1000,
        topics=[
            kind(name=name, num_partitions=1, replication_factor=1) for name in (_TOPIC, "bad name")
        ],
    )


def conversation(port: int) -> list[tuple[str, bytes]]:
    """Every request by name, with the bytes of its response."""
    said: list[tuple[str, bytes]] = []
    with RawClient(port) as client:

        def ask(request: Request, version: int) -> bytes:
            client.send(request, version)
            wants_no_response = getattr(request, "acks", None) == 0
            response = b"" if wants_no_response else client.receive_frame()
            said.append((f"{type(request).__name__} {version}", response))
            return response

        ask(create_topics(), 5)
        client.send(MetadataRequest(topics=[MetadataRequest.Topic(name=_TOPIC)]), 12)
        [topic] = client.receive(MetadataRequest, 12).topics
        for request, version in ordinary(topic.topic_id):
            ask(request, version)
    for request, version in empty():
        said.append(
            (
                f"empty {type(request).__name__} {version}",
                complete_response(port, frame(request, version, 5, None)),
            )
        )
    for payload in unserved():
        said.append((payload.hex(), complete_response(port, payload)))
    return said


def complete_response(port: int, payload: bytes) -> bytes:
    """The response over a connection of its own, or that it was closed."""
    with RawClient(port) as client:
        client.send_frame(payload)
        try:
            return client.receive_frame()
        except RawClient.Closed:
            return _CLOSED


@contextmanager
def production(directory: Path) -> Iterator[int]:
    """The port of a node as `wirekafka serve` runs it, in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    node = Node(
        BrokerConfig.of(
            {
                **broker_settings(_SETTINGS, {}),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(directory),
            }
        )
    )
    run(node.start())
    yield node.address[1]
    run(node.stop())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextmanager
def under_test(directory: Path) -> Iterator[int]:
    with Broker(directory, config=_SETTINGS) as broker:
        yield broker.port
        assert len(broker.requests) > 100


def ids() -> Callable[[], UUID]:
    """The same ids each time, for threads that begin from now on.

    The broker that other tests share runs already. Its clients may still create topics, whose ids
    must be unique there.
    """
    numbers, others = count(), set(threading.enumerate())

    def new_id() -> UUID:
        if threading.current_thread() in others:
            return uuid4()
        return UUID(bytes=hashlib.sha256(str(next(numbers)).encode()).digest()[:16])

    return new_id


def test_the_broker_under_test_sends_the_same_bytes_as_wirekafka_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = []
    for kind in (production, under_test):
        monkeypatch.setattr(node_module, "uuid4", ids())
        with kind(tmp_path / kind.__name__) as port:
            heard.append(conversation(port))
    assert len(heard[0]) == len(heard[1]) > 400
    for (name, expected), (_, found) in zip(*heard, strict=True):
        assert found == expected, name
    responses = dict(heard[0])
    assert responses["ProduceRequest 9"] not in (b"", _CLOSED)
    assert sum(response == _CLOSED for response in responses.values()) > 100
