"""Raw sockets that keep requests in flight, so that the broker is the limit, not the client.

Requests are encoded once and sent over and over; responses are counted by their size prefix.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.message import Request
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

PRODUCE_VERSION = 9
FETCH_VERSION = 11
CREATE_VERSION = 5
ALL, LEADER = -1, 1
TOPIC_ALREADY_EXISTS = 36
_GROUP_RESOURCE, _SET = 32, 0
_RETRIED_S = 15.0


class RequestFailed(Exception):
    """A broker answered with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The records that are produced, and the number of requests in flight."""

    connections: int = 1
    depth: int = 1
    records: int = 1
    """In each request, which has one batch for one partition."""
    record_bytes: int = 200
    acks: int = LEADER


class Connection:
    """One socket; sending and counting are up to the caller."""

    def __init__(self, host: str, port: int):
        self.socket = socket.create_connection((host, port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self.sent_at = 0.0

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, frames: bytes) -> None:
        self.socket.sendall(frames)

    def close(self) -> None:
        self.socket.close()

    def count(self) -> int:
        """The number of responses that one read has completed; they are not decoded."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the broker hung up")
        received = self._received
        received += data
        at, end, count = 0, len(received), 0
        while end - at >= 4:
            stop = at + 4 + int.from_bytes(received[at : at + 4], "big")
            if stop > end:
                break
            count += 1
            at = stop
        del received[:at]
        return count

    def response(self) -> bytearray:
        """The next response, without its size; none may have been counted in part before."""
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def ask(self, request: Request, response: Any, version: int) -> Any:
        """Send one request and decode its response."""
        self.send(encode_request(1, "benchmark", request, version))
        return decode_response(response, version, self.response())[1]

    def api_versions(self) -> None:
        """The first request of every client; the response is not decoded."""
        self.send(encode_request(1, "benchmark", ApiVersionsRequest(), 0))
        self.response()

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view, at = memoryview(received), 0
        while at < size:
            count = self.socket.recv_into(view[at:])
            if not count:
                raise ConnectionError("the broker hung up")
            at += count
        return received


class Pipeline:
    """Sends one frame over and over on each connection, `depth` times in flight."""

    def __init__(self, connections: Sequence[Connection], frame: bytes, depth: int):
        self._frame = frame
        self._selector = selectors.DefaultSelector()
        for connection in connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send(frame * depth)
        self._in_flight = depth * len(connections)

    def run(self, seconds: float) -> int:
        """The number of responses in that time."""
        deadline = time.perf_counter() + seconds
        done = 0
        while time.perf_counter() < deadline:
            for key, _ in self._selector.select():
                count = key.data.count()
                if count:
                    key.data.send(self._frame * count)
                    done += count
        return done

    def finish(self) -> None:
        """Read the responses still in flight, and disconnect."""
        while self._in_flight > 0:
            for key, _ in self._selector.select():
                self._in_flight -= key.data.count()
        for key in list(self._selector.get_map().values()):
            key.data.close()
        self._selector.close()


def batch_of(records: int, record_bytes: int) -> bytes:
    """An uncompressed batch with timestamps of now."""
    now_ms = time.time_ns() // 1_000_000
    value = b"x" * record_bytes
    return encode_batch(
        [Record(index, now_ms, None, value, ()) for index in range(records)], options=BatchOptions()
    )


def produce_frame(topic: str, batch: bytes, acks: int, partition: int = 0) -> bytes:
    """A Produce request for one partition, as it is sent."""
    data = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            data(
                name=topic,
                partition_data=[data.PartitionProduceData(index=partition, records=batch)],
            )
        ],
    )
    return encode_request(1, "benchmark", request, PRODUCE_VERSION)


def fetch_frame(topic: str, offset: int, max_bytes: int, partition: int = 0) -> bytes:
    """A Fetch request for one partition, without a session, as it is sent."""
    wanted = FetchRequest.Topic
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=[
            wanted(
                topic=topic,
                partitions=[
                    wanted.Partition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
                    )
                ],
            )
        ],
    )
    return encode_request(1, "benchmark", request, FETCH_VERSION)


def fetched_records_at(topic: str) -> int:
    """Where, in the response to `fetch_frame` (size prefix included), records begin.

    size, correlation id, throttle time, error, session, topics, name, partitions, then of the
    partition: index, error, three offsets, aborted transactions (none), replica, length.
    """
    return 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 3 * 8 + 4 + 4 + 4


def check_produced(connection: Connection, frame: bytes) -> None:
    """Send a frame until it is accepted: a new topic may not have its leader yet."""
    deadline = time.monotonic() + _RETRIED_S
    while True:
        connection.send(frame)
        _, response = decode_response(ProduceResponse, PRODUCE_VERSION, connection.response())
        error = response.responses[0].partition_responses[0].error_code
        if not error:
            return
        if time.monotonic() > deadline:
            raise RequestFailed(f"Produce: error {error}")
        time.sleep(0.05)


def create_topic(host: str, port: int, name: str, partitions: int = 1) -> bool:
    """Create a topic; False when there is one of that name."""
    connection = Connection(host, port)
    request = CreateTopicsRequest(
        timeout_ms=60_000,
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=1
            )
        ],
    )
    response = connection.ask(request, CreateTopicsResponse, CREATE_VERSION)
    connection.close()
    error = response.topics[0].error_code
    if error not in (0, TOPIC_ALREADY_EXISTS):
        raise RequestFailed(f"CreateTopics: error {error}")
    return error == 0


def configure_group(connection: Connection, group: str, name: str, value: str) -> None:
    """Set an option of a group."""
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = kind.AlterableConfig(name=name, config_operation=_SET, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[kind(resource_type=_GROUP_RESOURCE, resource_name=group, configs=[change])]
    )
    answer = connection.ask(request, IncrementalAlterConfigsResponse, 1)
    if answer.responses[0].error_code:
        raise RequestFailed(f"IncrementalAlterConfigs: error {answer.responses[0].error_code}")
