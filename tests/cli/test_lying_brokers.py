"""Brokers that lie, answer too slowly or name impossible addresses: commands say so and end."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import wirekafka
from tests.doctor import planted
from tests.lying_proxy import Liar, Lie, lying
from wirekafka.cli.main import main
from wirekafka.client.client import BrokerConnection, Client, ConnectionFailure
from wirekafka.client.transactions import TransactionalProducer
from wirekafka.codec.record import Record
from wirekafka.config.address import Address
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.config.client_config import ClientConfig
from wirekafka.doctor.cluster import probe
from wirekafka.doctor.cluster.probe import certificate_of
from wirekafka.protocol.describe_producers import DescribeProducersResponse
from wirekafka.protocol.describe_quorum import DescribeQuorumResponse
from wirekafka.protocol.metadata import MetadataResponse

SEEDS = 10
_TOPIC = ("-t", "t")
_PRODUCERS = ("transactions", "producers", *_TOPIC)
_LAST_MS = (1 << 63) - 1
_DOCTOR = ("doctor", "--again-after", "0", "--timeout", "2")
COMMANDS: Sequence[Sequence[str]] = (
    ("acls", "list"),
    ("acls", "add", "--principal", "x", "--topic", "t", "--operation", "Read"),
    ("acls", "remove", "--principal", "x"),
    ("users", "list"),
    ("users", "remove", "alice"),
    ("cluster", "describe"),
    ("cluster", "quorum"),
    ("cluster", "log-dirs"),
    ("features", "list"),
    ("features", "upgrade", "metadata.version=4.0", "--dry-run"),
    ("elect", "--all"),
    ("elect", *_TOPIC),
    ("reassign", "plan", *_TOPIC),
    ("reassign", "apply", *_TOPIC, "--throttle", "1000"),
    ("reassign", "status"),
    ("reassign", "cancel", "--all"),
    ("reassign", "unthrottle"),
    ("transactions", "list"),
    ("transactions", "describe", "tx"),
    _PRODUCERS,
    ("transactions", "find-hanging"),
    ("transactions", "abort", *_TOPIC, "-p", "0", "--start-offset", "0"),
    _DOCTOR,
    (*_DOCTOR, "--json"),
)


class Ended:
    """The end of a command: its status, and all that it has printed."""

    def __init__(self, bootstrap: str, words: Sequence[str]) -> None:
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            pytest.raises(SystemExit) as ended,
        ):
            main([*words, "-b", bootstrap])
        self.status, self.text = int(ended.value.code or 0), printed.getvalue()


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "transaction.partition.verification.enable": False,
    }
    with (
        wirekafka.Broker(topics=["t"], config=settings) as broker,
        Client(broker.bootstrap_servers) as client,
    ):
        client.metadata()
        for plant in planted.ON_ONE_BROKER:
            plant(client)
        producer = TransactionalProducer(client, "tx", timeout_ms=600_000)
        producer.init()
        producer.send("t", 0, [Record(timestamp=1, value=b"v")])
        yield broker


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_believes_no_answer_so_much_that_it_breaks(
    broker: wirekafka.Broker, words: Sequence[str]
) -> None:
    for seed in range(SEEDS):
        with lying(broker.bootstrap_servers, Liar(seed)) as proxy:
            ended = Ended(str(proxy.address), words)
        assert ended.status in (0, 1, 2)
        assert all(each.isprintable() for each in ended.text.split("\n")), (seed, ended.text)


def _nothing(response: Any) -> None:
    response.topics = []


def _twice(response: Any) -> None:
    for topic in response.topics:
        topic.partitions = topic.partitions * 2


def _too_long(response: Any) -> None:
    for each in response.brokers:
        each.host = "x" * 70


def _end_of_time(response: Any) -> None:
    for topic in response.topics:
        for each in topic.partitions:
            for producer in each.active_producers:
                producer.last_timestamp = _LAST_MS


@pytest.mark.parametrize(
    ("kind", "lie", "words", "shown"),
    [
        (DescribeQuorumResponse, _nothing, _DOCTOR, "answered 0 times"),
        (DescribeQuorumResponse, _twice, _DOCTOR, "answered 2 times"),
        (MetadataResponse, _too_long, _DOCTOR, "cannot connect to xxx"),
        (MetadataResponse, _too_long, ("cluster", "log-dirs"), "cannot connect to xxx"),
        (MetadataResponse, _nothing, _PRODUCERS, "answered 0 times"),
        (DescribeProducersResponse, _end_of_time, _PRODUCERS, f"{_LAST_MS} ms"),
    ],
)
def test_a_lie_is_reported(
    broker: wirekafka.Broker, kind: type, lie: Lie, words: Sequence[str], shown: str
) -> None:
    def change(response: Any) -> None:
        if isinstance(response, kind):
            lie(response)

    with lying(broker.bootstrap_servers, change) as proxy:
        assert shown in Ended(str(proxy.address), words).text


@pytest.mark.parametrize(
    "words",
    [
        ("cluster", "unregister", "99999999999"),
        ("elect", *_TOPIC, "-p", "99999999999"),
        ("features", "upgrade", "metadata.version=99999"),
        ("users", "list", "\udcff"),
    ],
    ids=" ".join,
)
def test_values_that_the_protocol_does_not_have_are_refused_in_one_line(
    broker: wirekafka.Broker, words: Sequence[str]
) -> None:
    ended = Ended(broker.bootstrap_servers, words)
    assert ended.status == 1 and ended.text.count("\n") == 1
    assert "no such value" in ended.text


@pytest.mark.parametrize(
    "plan",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [99999999999]}]}',
        b'{"partitions": [{"topic": "\\ud800", "partition": 0, "replicas": [1]}]}',
    ],
    ids=["not UTF-8", "deep", "no broker id", "no text"],
)
def test_a_plan_that_is_none_is_refused_in_one_line(
    broker: wirekafka.Broker, tmp_path: Path, plan: bytes
) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(plan)
    ended = Ended(broker.bootstrap_servers, ("reassign", "apply", str(file)))
    assert ended.status == 1 and ended.text.splitlines()[-1].startswith("wirekafka: ")


@pytest.mark.parametrize("option", ["--host", "--principal", "--topic"])
@pytest.mark.parametrize("command", ["add", "remove"])
def test_an_option_of_acls_that_is_empty_is_not_taken_for_any(
    broker: wirekafka.Broker, command: str, option: str
) -> None:
    given = {"--principal": "x", "--topic": "t", "--operation": "Read", option: ""}
    words = [word for pair in given.items() for word in pair]
    ended = Ended(broker.bootstrap_servers, ("acls", command, *words))
    assert ended.status == 1 and "empty value" in ended.text


def test_a_target_that_is_neither_an_address_nor_a_directory_is_not_examined() -> None:
    assert Ended("127.0.0.1:1", ("doctor", "x" * 300)).status == 2


def test_a_password_that_is_no_text_is_refused(broker: wirekafka.Broker, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"secret\xff")
    ended = Ended(broker.bootstrap_servers, ("users", "add", "zoe", "--password-file", str(file)))
    assert ended.status == 1 and "not UTF-8" in ended.text and "secret" not in ended.text


def test_what_is_no_certificate_of_no_host_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ClientConfig({"security.protocol": "SSL"})
    assert certificate_of(Address("x" * 70, 1), config, 0.1) is None
    monkeypatch.setattr(probe, "peer_certificate", lambda *_: b"junk")
    assert certificate_of(Address("127.0.0.1", 1), config, 0.1) is None


def test_an_answer_that_comes_byte_by_byte_ends_at_the_timeout() -> None:
    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall((1 << 29).to_bytes(4, "big"))
                while not stopped.wait(0.05):
                    connection.sendall(b"\0")

        thread = threading.Thread(target=trickle)
        thread.start()
        began_s = time.monotonic()
        with pytest.raises(ConnectionFailure, match="timed out"):
            BrokerConnection(Address(*server.getsockname()), timeout_s=0.3)
        assert time.monotonic() - began_s < 5
        stopped.set()
        thread.join()
