"""What a client has sent before it ends its side of a connection is served, within limits."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.apis.test_large_produce import Apart
from tests.apis.test_produce import produce_request, stored
from tests.certificates import Authority, client_context
from tests.eventually import eventually
from tests.in_process import Exchange, InProcessBroker
from tests.manual_clock import ManualClock
from tests.raw_client import RawClient
from tests.server.probe_api import ProbeRequest
from tests.server.test_connection import Served, gate, probe, served
from tests.server.test_tls import TlsClient, port_of
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.server.connections.half_closed_connections import (
    MOST_BYTES,
    MOST_CONNECTIONS,
    HalfClosed,
)
from wirekafka.testing import Broker

__all__ = ["gate", "served"]

VALUE = bytes(8 << 20)
LARGE = encode_batch([Record(0, 0, None, VALUE, ())], options=BatchOptions(compression=Codec.ZSTD))
"""It is checked in a thread."""
VERSION = 9
REQUESTS = 5
UNANSWERED, ANSWERED = "unanswered", "answered"


Connect = Callable[[], RawClient]


@pytest.fixture(scope="module", params=["plain text", "TLS"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Broker, Connect]]:
    """A broker, and what connects to it."""
    if request.param == "plain text":
        with Broker(topics=[UNANSWERED, ANSWERED]) as started:
            yield started, lambda: RawClient(port_of(started))
        return
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("CN=broker", "127.0.0.1").pem(),
    }
    with Broker(config=config, topics=[UNANSWERED, ANSWERED]) as started:
        yield started, lambda: TlsClient(port_of(started), client_context(authority))


def test_batches_without_acks_are_stored_though_their_sender_closes_at_once(
    broker: tuple[Broker, Connect],
) -> None:
    running, connect = broker
    with connect() as client:
        client.call(ApiVersionsRequest(), 0)  # A close with unread bytes would reset it.
        for _ in range(REQUESTS):
            client.send(produce_request(LARGE, UNANSWERED, acks=0), VERSION)
    eventually(lambda: len(running.records(UNANSWERED)) == REQUESTS)


def test_a_client_that_ends_only_its_own_side_gets_its_responses(
    broker: tuple[Broker, Connect],
) -> None:
    _, connect = broker
    with connect() as client:
        client.call(ApiVersionsRequest(), 0)
        for _ in range(REQUESTS):
            client.send(produce_request(LARGE, ANSWERED), VERSION)
        # Python's TLS sockets cannot receive any more after a shutdown of their own.
        with socket.socket(fileno=os.dup(client.socket.fileno())) as same:
            same.shutdown(socket.SHUT_WR)
        offsets = [
            client.receive(ProduceRequest, VERSION).responses[0].partition_responses[0].base_offset
            for _ in range(REQUESTS)
        ]
        assert offsets == list(range(REQUESTS))
        assert client.is_closed()


def test_requests_that_a_quota_delays_are_served_after_the_end_of_the_client(
    served: Served,
) -> None:
    with RawClient(served.port) as client:
        client.send(probe("exceed a quota silently"), 0)
        client.send(probe(text="later"), 0)
        client.socket.shutdown(socket.SHUT_WR)
        served.until(lambda: len(served.limits.half_closed) == 1)
        served.call(served.clock.advance, 500)
        assert client.receive(ProbeRequest, 0).text == "later"
        assert client.is_closed()
    served.until(lambda: not served.listener.connections)
    assert len(served.limits.half_closed) == 0


def test_half_a_request_is_not_waited_for_after_the_end_of_the_client(served: Served) -> None:
    with RawClient(served.port) as client:
        client.send(probe("exceed a quota silently"), 0)
        client.socket.sendall(struct.pack(">i", 100) + b"half")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[InProcessBroker]:
    running = InProcessBroker(tmp_path, ManualClock())
    running.create("t")
    yield running
    running.stop()


def test_only_so_many_connections_are_kept_for_what_their_clients_have_sent(
    kafka: InProcessBroker,
) -> None:
    apart = kafka.broker.check_apart = Apart()

    async def run() -> list[Exchange]:
        leaving = [
            kafka.begin(produce_request(LARGE, acks=0), VERSION)
            for _ in range(MOST_CONNECTIONS + 3)
        ]
        for each in leaving:
            each.half_close()
        assert [each.closes_connection for each in leaving] == [False] * MOST_CONNECTIONS + [
            True
        ] * 3
        while apart.held:
            held, apart.held = apart.held, []
            for check, done in held:
                check()
                done(None)
            for each in leaving:
                await each.settled()
        assert all(each.closes_connection for each in leaving)
        another = kafka.begin(produce_request(LARGE, acks=0), VERSION)
        another.half_close()
        assert not another.closes_connection, "there is room again"
        apart.run()
        await another.settled()
        return leaving

    asyncio.run(run())
    assert len(stored(kafka)) == MOST_CONNECTIONS + 1


def test_a_client_that_resets_the_connection_frees_its_place(kafka: InProcessBroker) -> None:
    apart = kafka.broker.check_apart = Apart()

    async def run() -> None:
        for _ in range(2 * MOST_CONNECTIONS):
            leaving = kafka.begin(produce_request(LARGE, acks=0), VERSION)
            leaving.half_close()
            assert not leaving.closes_connection
            leaving.abandon()
            await leaving.settled()

    asyncio.run(run())
    for check, _ in apart.held:
        check()  # Which was dropped.
    assert stored(kafka) == []


def test_the_bytes_that_are_kept_are_limited_but_not_those_of_a_single_connection() -> None:
    half_closed = HalfClosed()
    assert half_closed.keep("largest", 3 * MOST_BYTES)
    assert not half_closed.keep("other", 1)
    half_closed.forget("largest")
    assert half_closed.keep("one", MOST_BYTES // 2) and half_closed.keep("two", MOST_BYTES // 2)
    assert not half_closed.keep("three", 1) and half_closed.keep("two", MOST_BYTES)
    half_closed.forget("three")
    half_closed.forget("one")
    assert half_closed.keep("three", 1) and len(half_closed) == 2
