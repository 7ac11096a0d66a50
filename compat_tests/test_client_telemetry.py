"""Telemetry of clients (KIP-714): responses as from Apache Kafka, and real clients that push."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from compat_tests.java_programs import program_classes
from compat_tests.java_tools import JavaTools
from compat_tests.wire import Wire
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from tests.ports import free_ports
from tests.telemetry.sequences import MAX_BYTES, SEQUENCES, TelemetryClient, alter
from wirekafka.codec.compression import Codec, compress
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest

INTERVAL_MS = 1500
"""Longer than a loaded machine needs for a few requests."""


class Node:
    """A broker that takes metrics."""

    def __init__(self, bootstrap: str, metrics_port: int = 0):
        self.bootstrap = bootstrap
        self.metrics_port = metrics_port
        self.wire = Wire.to(bootstrap)
        self._probe = Wire(self.wire._address, client_id="probe")
        self._changes = 0
        asked = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        served = self.wire.ask(asked, 4).api_keys
        self.advertised = [(each.api_key, each.max_version) for each in served]

    def configure(self, name: str, **values: str | None) -> tuple[int, str | None]:
        """Change a subscription and wait until it has effect; returns the error."""
        named = {key.replace("_", "."): value for key, value in values.items()}
        [result] = self.wire.ask(alter(name, named), 1).responses
        # Changes have effect in order: wait for that of a subscription for this client alone.
        self._changes += 1
        interval_ms = 100 + self._changes  # The shortest of all that match it.
        probe = {"interval.ms": str(interval_ms), "match": "client_id=probe"}
        self.wire.ask(alter("probe", probe), 1)
        eventually(lambda: self.subscribed(wire=self._probe)[2] == interval_ms)
        return result.error_code, result.error_message

    def subscribed(self, instance_id: bytes | None = None, wire: Wire | None = None) -> Any:
        """What a client is to push, without its id."""
        asked = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id or os.urandom(16))
        found = (wire or self.wire).ask(asked, 0)
        return (
            found.error_code,
            found.requested_metrics,
            found.push_interval_ms,
            found.telemetry_max_bytes,
            found.subscription_id if instance_id else None,
        )

    def client(self, interval_ms: int = INTERVAL_MS) -> TelemetryClient:
        """A client on a connection of its own."""
        wire = Wire.to(self.bootstrap)
        wire.ask(ApiVersionsRequest(client_software_name="wire", client_software_version="1"), 4)
        return TelemetryClient(
            lambda request: wire.ask(request, 0),
            lambda: time.sleep(interval_ms / 1000 + 0.1),
            wire.close,
            lambda: self.configure("all", interval_ms="1400") and None,
            os.urandom(16),
            notices_within_s=interval_ms / 1000 / 2,
        )


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    """wirekafka, and Apache Kafka with a reporter that takes metrics."""
    directory = tmp_path_factory.mktemp("kafka")
    settings = f"metric.reporters=TelemetryReporter\ntelemetry.max.bytes={MAX_BYTES}\n"
    port, command = prepare(directory, SMALL_JVM, SMALL_CLEANER + settings)
    command[command.index("-cp") + 1] += f":{program_classes()}"
    data = tmp_path_factory.mktemp("wirekafka") / "data"
    [metrics_port] = free_ports(1)
    settings_of_ours = (
        f"wirekafka.metrics.listener={metrics_port}",
        f"telemetry.max.bytes={MAX_BYTES}",
    )
    with ExitStack() as stack:
        kafka = stack.enter_context(running(command, directory, port))
        ours = Node(stack.enter_context(live_broker(data, *settings_of_ours)), metrics_port)
        yield ours, Node(kafka)


def same(nodes: tuple[Node, Node], play: Callable[[Node], object]) -> object:
    """Assert that both brokers answer alike; returns the answer."""
    with ThreadPoolExecutor(2) as pool:
        ours, kafkas = pool.map(play, nodes)
    assert ours == kafkas
    return ours


def test_telemetry_is_advertised(nodes: tuple[Node, Node]) -> None:
    same(nodes, lambda node: [each for each in node.advertised if each[0] in (71, 72)])


def test_subscriptions_and_their_ids_are_kafkas(nodes: tuple[Node, Node]) -> None:
    id = bytes(range(16))
    lists = ["b, a ,b", " *", "a,*", "", "b,a,c,zz,o.a,o.b,d,e,f,g,h,i,j,k,l,m,n,o,p", "a,,b"]

    def play(node: Node) -> object:
        found = [node.subscribed(id)]
        for number, names in enumerate(lists):
            found.append(node.configure("lists", metrics=names, interval_ms=str(3000 + number)))
            node.configure("more", metrics="zz,o.c", interval_ms=str(2000 + number))
            found.append(node.subscribed(id))
        node.configure("lists", metrics=None, interval_ms=None)
        node.configure("more", metrics=None, interval_ms=None)
        return found

    same(nodes, play)


def test_patterns_match_as_in_kafka(nodes: tuple[Node, Node]) -> None:
    patterns = [
        "client_id=wire",
        "client_id=wir",
        "client_id=(?i)WIRE",
        "client_id=^wi.e$",
        " client_id = wire ",
        "client_id=wire,client_id=zzz",
        "client_id=zzz,client_id=wire",
        "client_id=wire,client_software_name=y",
        "client_software_name=wire,client_software_version=1",
        "client_source_address=127.0.0.1",
        r"client_source_port=\d+",
        "client_id=a=b",
        "client_id=",
        "client_id",
        "foo=x",
        "CLIENT_ID=wire",
        "client_id=[",
        "client_id=*",
        "client_id=a,",
    ]

    def play(node: Node) -> object:
        found: list[object] = []
        for number, pattern in enumerate(patterns):
            node.configure("match", match=None, metrics="*", interval_ms=str(4000 + number))
            error = node.configure("match", match=pattern)
            found.append((pattern, error))
            if not error[0]:
                found.append(node.subscribed())
        node.configure("match", match=None, metrics=None, interval_ms=None)
        return found

    same(nodes, play)


def test_sequences_have_kafkas_error_codes(nodes: tuple[Node, Node]) -> None:
    def play(node: Node) -> dict[str, list[int]]:
        node.configure("all", metrics="*", interval_ms=str(INTERVAL_MS))
        with ThreadPoolExecutor(len(SEQUENCES)) as pool:
            still = [steps for steps, _ in SEQUENCES if "configure" not in steps]
            found = dict(
                zip(still, pool.map(lambda steps: node.client().play(steps), still), strict=True)
            )
        changing = [steps for steps, _ in SEQUENCES if "configure" in steps]
        return found | {steps: node.client().play(steps) for steps in changing}

    assert same(nodes, play) == dict(SEQUENCES)


def test_what_cannot_be_read_is_refused_as_by_kafka(nodes: tuple[Node, Node]) -> None:
    contents = [b"garbage", b"", bytes(MAX_BYTES), bytes(MAX_BYTES + 1), bytes(4 << 20)]

    def play(node: Node) -> list[tuple[Codec, int, int]]:
        found = []
        for codec in Codec:
            for content in contents:
                client = node.client()
                client.ask()
                pushed = compress(codec, content)
                found.append((codec, len(content), client.push(pushed, codec)))
        return found

    same(nodes, play)


def test_the_java_client_and_librdkafka_push(
    nodes: tuple[Node, Node], java_tools: JavaTools
) -> None:
    ours, _ = nodes
    to = ("--bootstrap-server", ours.bootstrap)
    ours.configure("all", metrics=None, interval_ms=None)
    wanted = "org.apache.kafka.producer.connection.,org.apache.kafka.producer.record.send."
    named = ("--name", "real")
    java_tools.run(
        "kafka-client-metrics", *to, "--alter", *named, "--metrics", wanted, "--interval", "500"
    )
    described = java_tools.run("kafka-client-metrics", *to, "--describe", *named)
    assert "interval.ms=500" in described and f"metrics={wanted}" in described

    def served(software: str) -> list[str]:
        with urlopen(f"http://127.0.0.1:{ours.metrics_port}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return [line for line in lines if f'software_name="{software}"' in line]

    command = java_tools.command("kafka-console-producer", *to, "--topic", "pushed")
    sent = r'org_apache_kafka_producer_record_send_total\{client_id="console-producer",.*\} 2\.0'
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write("one\ntwo\n")
        process.stdin.flush()
        eventually(lambda: re.search(sent, "\n".join(served("apache-kafka-java"))))
        process.stdin.close()
    producer = Producer({"bootstrap.servers": ours.bootstrap, "client.id": "rd", "log_level": 0})
    producer.produce("pushed", b"three")
    producer.flush(20)
    librdkafka = "\n".join(eventually(lambda: served("confluent-kafka-python")))
    assert "org_apache_kafka_producer_connection_creation_total" in librdkafka
    java_tools.run("kafka-client-metrics", *to, "--delete", *named)
    assert "real" not in java_tools.run("kafka-client-metrics", *to, "--list").split()
