"""Connections that begin a request are held back while the memory of requests is exhausted."""

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.eventually import eventually
from tests.raw_client import RawClient, frame
from tests.server.probe_api import Gate, ProbeRequest
from tests.server.test_connection import Served, gate, probe
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.server.connections.connection import Connection
from wirekafka.server.connections.request_memory import RequestMemory

__all__ = ["gate"]

MEGABYTE = 1 << 20
PARALLEL = 6


class Limited(Served):
    """A listener whose requests have limited memory."""

    def __init__(self, gate: Gate, **options: str):
        self.memory = RequestMemory.of(
            BrokerConfig.of({name.replace("_", "."): text for name, text in options.items()})
        )
        super().__init__(gate, memory=self.memory)


@pytest.fixture
def limited(gate: Gate, request: pytest.FixtureRequest) -> Iterator[Limited]:
    served = Limited(gate, **request.param)
    yield served
    served.stop()


def begun(client: RawClient, size_bytes: int) -> bytes:
    """Send the first half of a request; returns the other half."""
    payload = frame(ProbeRequest(action="echo", text="", data=b"\0" * size_bytes), 0)
    whole = struct.pack(">i", len(payload)) + payload
    client.socket.sendall(whole[: len(whole) // 2])
    return whole[len(whole) // 2 :]


@pytest.mark.parametrize(
    "limited",
    [
        {"queued_max_request_bytes": "600000", "socket_request_max_bytes": "600000"},
        {"queued_max_requests": "1"},
    ],
    indirect=True,
    ids=("bytes", "requests"),
)
def test_one_large_request_at_a_time_is_read_and_each_is_served(limited: Limited) -> None:
    memory = limited.memory
    assert memory is not None
    clients = [RawClient(limited.port) for _ in range(PARALLEL)]
    rests = [begun(client, 700_000) for client in clients]
    eventually(lambda: memory.waiting == PARALLEL - 1)
    assert memory.used_bytes < MEGABYTE
    with RawClient(limited.port) as small:
        assert small.call(probe(text="small"), 1).text == "small"
    with ThreadPoolExecutor(PARALLEL) as threads:
        # Those that are held back cannot send their whole request yet.
        sent = [
            threads.submit(client.socket.sendall, rest)
            for client, rest in zip(clients, rests, strict=True)
        ]
        for client in clients:
            assert client.receive(ProbeRequest, 0).error_code == 0
        for each in sent:
            each.result(10)
    for client in clients:
        client.socket.close()
    eventually(lambda: (memory.used_bytes, memory.waiting) == (0, 0))


@pytest.mark.parametrize("limited", [{"queued_max_requests": "1"}], indirect=True)
def test_a_closed_connection_frees_its_memory(limited: Limited) -> None:
    memory = limited.memory
    assert memory is not None
    first, second = RawClient(limited.port), RawClient(limited.port)
    begun(first, 700_000)
    eventually(lambda: memory.used_bytes > 0)
    begun(second, 700_000)
    eventually(lambda: memory.waiting == 1)
    first.socket.close()
    eventually(lambda: memory.waiting == 0 and memory.used_bytes > 0)
    second.socket.close()
    eventually(lambda: memory.used_bytes == 0)


def test_connections_are_not_limited_by_default(gate: Gate) -> None:
    assert RequestMemory.of(BrokerConfig.of()) is None
    served = Served(gate)
    assert served.listener.connection is Connection
    served.stop()


def test_limits_are_read_from_the_options() -> None:
    memory = RequestMemory.of(BrokerConfig.of({"queued.max.requests": "7"}))
    assert memory is not None
    assert (memory.limit_requests, memory.limit_bytes) == (7, float("inf"))
