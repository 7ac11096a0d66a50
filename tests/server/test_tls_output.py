"""Responses over TLS: nothing leaves in plain text, whichever way it is read from its file."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.in_process import batch
from tests.raw_client import RawClient
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.server.connections.connection import Connection
from wirekafka.server.node import Node

_PLAIN = b"a text that anyone could read; "
_BATCHES = 6
_BATCH_BYTES = 900_000


class Eavesdropper(RawClient):
    """A TLS client that keeps all encrypted bytes that it received."""

    def __init__(self, port: int, certificate: Path, read_bytes: int):
        super().__init__(port, timeout_s=30)
        self.overheard = bytearray()
        self.socket = _Tapped(self, self.socket, certificate, read_bytes)  # type: ignore[assignment]


class _Tapped:
    """A socket whose bytes go through TLS in memory."""

    def __init__(
        self, owner: Eavesdropper, plain: socket.socket, certificate: Path, read_bytes: int
    ):
        self._owner, self._plain, self._read_bytes = owner, plain, read_bytes
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certificate))
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._done(self._tls.do_handshake)

    def sendall(self, data: bytes) -> None:
        self._done(lambda: self._tls.write(data))

    def recv(self, size: int) -> bytes:
        return bytes(self._done(lambda: self._tls.read(size)))

    def close(self) -> None:
        self._plain.close()

    def _done(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._plain.sendall(self._outgoing.read())
                received = self._plain.recv(self._read_bytes)
                self._owner.overheard += received
                if not received:
                    raise RawClient.Closed from None
                self._incoming.write(received)
                continue
            self._plain.sendall(self._outgoing.read())
            return result


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost, signed by itself, and its key."""
    directory = tmp_path_factory.mktemp("certificate")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.fixture(params=["asyncio", "uvloop"])
def port(
    request: pytest.FixtureRequest, tmp_path: Path, certificate: tuple[Path, Path]
) -> Iterator[int]:
    """Of a TLS socket in front of a node's connections."""
    loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    async def start() -> tuple[Node, asyncio.Server]:
        node = Node(
            BrokerConfig.of(
                {"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
            )
        )
        await node.start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        [listener] = node.listeners
        server = await loop.create_server(lambda: Connection(listener), "127.0.0.1", 0, ssl=context)
        return node, server

    node, server = run(start())
    yield server.sockets[0].getsockname()[1]
    loop.call_soon_threadsafe(server.close)
    run(node.stop())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def produce(records: bytes) -> ProduceRequest:
    kind = ProduceRequest.TopicProduceData
    return ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            kind(name="t", partition_data=[kind.PartitionProduceData(index=0, records=records)])
        ],
    )


def fetch(max_bytes: int) -> FetchRequest:
    kind = FetchRequest.Topic
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            kind(
                topic="t",
                partitions=[
                    kind.Partition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
                ],
            )
        ],
    )


@pytest.mark.parametrize("read_bytes", [1 << 18, 7001], ids=["fast reader", "slow reader"])
def test_a_large_fetch_arrives_encrypted_and_intact(
    port: int, certificate: tuple[Path, Path], read_bytes: int
) -> None:
    sent = [batch(_PLAIN + os.urandom(_BATCH_BYTES), _PLAIN * 100) for _ in range(_BATCHES)]
    with Eavesdropper(port, certificate[0], read_bytes) as client:
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        for records in sent:
            [answer] = client.call(produce(records), 9).responses
            assert answer.partition_responses[0].error_code == 0
        for version in (4, 12):
            for max_bytes in (10_000_000, 40_000):
                [answer] = client.call(fetch(max_bytes), version).responses
                [partition] = answer.partitions
                found = bytes(partition.records)
                assert partition.error_code == 0
                assert _without_offsets(found, len(sent[0])) == _without_offsets(
                    b"".join(sent)[: len(found)], len(sent[0])
                )
                assert len(found) >= min(max_bytes, sum(map(len, sent)))
        assert len(client.overheard) > 2 * _BATCHES * _BATCH_BYTES
        assert _PLAIN[:16] not in client.overheard


def _without_offsets(records: bytes, size_bytes: int) -> list[bytes]:
    """The batches, all of one size, apart from the base offset and leader epoch in each."""
    batches = [records[at : at + size_bytes] for at in range(0, len(records), size_bytes)]
    return [each[8:12] + each[16:] for each in batches]
