"""What an operator does while brokers run: replace a certificate, and free a full disk."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.listener_stage import Side, kafka_side, wirekafka_side
from tests.apis.group_requests import commit_request
from tests.certificates import Authority, Issued, client_context
from tests.eventually import eventually
from tests.raw_client import RawClient
from tests.server.test_monitoring import Monitored
from tests.server.test_serve import batch
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.produce import ProduceRequest

_HOST = "127.0.0.1"
_STORE = "listener.name.tls.ssl.keystore.location"
_MIB = 1 << 20
_DISK = 96 * _MIB
_RESERVE = 32 * _MIB
"""What a broker leaves free for metadata and checkpoints."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    with ExitStack() as stack:
        made = [
            stack.enter_context(start(tmp_path_factory.mktemp(start.__name__)))
            for start in (kafka_side, wirekafka_side)
        ]
        yield {each.name: each for each in made}


@pytest.fixture(params=["Apache Kafka", "wirekafka"])
def side(request: pytest.FixtureRequest, sides: dict[str, Side]) -> Side:
    return sides[request.param]


def _connected(side: Side) -> RawClient:
    client = RawClient(side.ports["TLS"], timeout_s=20)
    context = client_context(side.authority)
    client.socket = context.wrap_socket(client.socket, server_hostname=_HOST)
    return client


def _served_serial(side: Side) -> int:
    """The serial number of the certificate that new connections get."""
    with _connected(side) as client:
        encrypted: Any = client.socket
        assert isinstance(encrypted, ssl.SSLSocket)
        found = encrypted.getpeercert()
        assert found is not None
        return int(str(found["serialNumber"]), 16)


def _issued(authority: Authority) -> Issued:
    return authority.issue("O=Example,CN=broker", _HOST, key="rsa")


def _wirekafka(*words: str) -> None:
    command = [sys.executable, "-m", "wirekafka", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_certificate_is_replaced_while_clients_stay_connected(side: Side, tmp_path: Path) -> None:
    bootstrap = f"{_HOST}:{side.ports['PLAINTEXT']}"
    file = tmp_path / "store.pem"
    producer = Producer(
        {
            "bootstrap.servers": f"{_HOST}:{side.ports['TLS']}",
            "security.protocol": "SSL",
            "ssl.ca.location": side.authority.file,
        }
    )
    failed: list[object] = []
    with _connected(side) as before:
        # The second time, the file has a new certificate under the same name.
        for number in range(2):
            new = _issued(side.authority)
            file.write_text(Path(new.pem()).read_text())
            setting = f"{_STORE}={file}"
            _wirekafka(
                "configs", "alter", "broker", "1", "--set", setting, "--bootstrap-server", bootstrap
            )
            serial = new.chain[0].serial_number
            eventually(lambda serial=serial: _served_serial(side) == serial)
            assert before.call(ApiVersionsRequest(), 0).api_keys
            producer.produce("kept", b"%d" % number, on_delivery=lambda e, _: failed.append(e))
            assert producer.flush(30) == 0
    assert failed == [None, None]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Monitored]:
    """A broker whose log directory is a file system of its own, in memory."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount file systems in a namespace")
    data = tmp_path / "data"
    data.mkdir()
    mounting = f'mount -t tmpfs -o size={_DISK} small "$0" && exec "$@"'
    monitored = Monitored(data, under=[unshare, "-rm", "sh", "-c", mounting, str(data)])
    with monitored.serving:
        yield monitored
        assert monitored.serving.stop() == 0


def _ready(monitored: Monitored) -> str:
    answer = monitored.get("/ready")
    found = json.loads(answer.body)
    assert answer.status == (200 if found["status"] == "up" else 503)
    return str(found.get("reason", "up"))


def _append(monitored: Monitored, topic: str) -> Error:
    """Produce a record of a mebibyte, less its overhead."""
    kind = ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData(index=0, records=batch(os.urandom(_MIB - 1000)))
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[kind(name=topic, partition_data=[part])]
    )
    with monitored.serving.client() as client:
        [answered] = client.call(request, 9).responses[0].partition_responses
    return Error(answered.error_code)


def _read(bootstrap: str, topic: str, count: int) -> int:
    """The number of bytes of the first records."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    size = 0
    for _ in range(count):
        message = consumer.poll(20)
        assert message is not None and message.error() is None
        size += len(message.value())
    consumer.close()
    return size


def test_a_full_disk_refuses_records_serves_the_rest_and_heals_by_itself(
    small_disk: Monitored, tmp_path: Path
) -> None:
    bootstrap = f"{_HOST}:{small_disk.serving.port}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"file.delete.delay.ms": "0"}
    for created in admin.create_topics([NewTopic("t", 1, config=settings)]).values():
        created.result()
    committing = Consumer({"bootstrap.servers": bootstrap, "group.id": "committing"})
    committing.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
    committing.close()
    assert _ready(small_disk) == "up"
    # The file system is in the namespace of the process alone.
    directory = str(tmp_path / "data")
    ballast = Path(f"/proc/{small_disk.serving.process.pid}/root{directory}/ballast")
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _DISK - _RESERVE - 8 * _MIB)
    written = 0
    while (error := _append(small_disk, "t")) is Error.NONE:
        written += 1
    assert error is Error.KAFKA_STORAGE_ERROR
    free = int(small_disk.value("wirekafka_log_directory_free_bytes", logDirectory=directory))
    assert _RESERVE - 4 * _MIB < free < _RESERVE, "the reserve is kept from fast producers too"
    reason = "appends are refused: no log directory has enough free space"
    eventually(lambda: _ready(small_disk) == reason)
    assert small_disk.value("wirekafka_log_directory_full", logDirectory=directory) == 1

    # A client tries again until its time is over.
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 1500})
    seen: list[Any] = []
    producer.produce("t", b"x", on_delivery=lambda e, _: seen.append(e))
    producer.flush(30)
    assert [each.name() for each in seen] == ["_MSG_TIMED_OUT"]

    with small_disk.serving.client() as client:
        [committed] = client.call(commit_request(("t", 0, 1), group_id="committing"), 5).topics
        assert committed.partitions[0].error_code == Error.NOT_COORDINATOR
    assert _read(bootstrap, "t", written) == written * (_MIB - 1000)
    for created in admin.create_topics([NewTopic("made-meanwhile", 1)]).values():
        created.result()
    for deleted in admin.delete_records([TopicPartition("t", 0, 1)]).values():
        assert deleted.result().low_watermark == 1
    assert _append(small_disk, "made-meanwhile") is Error.KAFKA_STORAGE_ERROR
    assert _ready(small_disk) == reason

    ballast.unlink()
    eventually(lambda: _ready(small_disk) == "up")
    assert _append(small_disk, "t") is Error.NONE
    assert _append(small_disk, "made-meanwhile") is Error.NONE
    assert small_disk.value("wirekafka_log_directory_full", logDirectory=directory) == 0
