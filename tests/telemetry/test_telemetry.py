"""Telemetry of clients (KIP-714) against a node in memory: subscriptions, pushes, their metrics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.telemetry.sequences import INTERVAL_MS, MAX_BYTES, SEQUENCES, TelemetryClient, alter
from wirekafka.codec.compression import Codec, compress
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.metrics.measures import Measures
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from wirekafka.server.monitoring.client_metrics import TelemetryCollector
from wirekafka.telemetry.instances import Push
from wirekafka.telemetry.subscriptions import Subscription
from wirekafka.telemetry.subscriptions import TelemetryClient as Client

KNOWN_ID = uuid.UUID(int=0x1234567890ABCDEF1122334455667788).bytes


class Stand:
    """A broker with metrics, and a client that always connects from the same port."""

    def __init__(self, directory: Path):
        self.clock = ManualClock()
        self.measures = Measures()
        self.collector = TelemetryCollector(self.clock.now_ms)
        self.measures.telemetry = self.collector.receive
        self.node = InProcessBroker(
            directory, self.clock, measures=self.measures, telemetry_max_bytes=str(MAX_BYTES)
        )

    def configure(self, name: str = "all", **values: str | None) -> int:
        """Change a subscription; returns the error code."""
        named = {key.replace("_", "."): value for key, value in values.items()}
        return int(self.node.call(alter(name, named), 1).responses[0].error_code)

    def ask(self, instance_id: bytes = KNOWN_ID) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        response: GetTelemetrySubscriptionsResponse = self.node.call(request, 0, "wire")
        return response

    def client(self, instance_id: bytes = KNOWN_ID) -> TelemetryClient:
        connections: list[str] = []
        telemetry = self.node.broker.telemetry

        def send(request: Request) -> object:
            exchange = self.node.begin(request, 0, "wire")
            connections.append(exchange._connection.protocol.peer)
            return exchange.response

        def disconnect() -> None:
            for each in connections:
                telemetry.disconnected(each)

        return TelemetryClient(
            send,
            lambda: self.clock.advance(INTERVAL_MS + 100),
            disconnect,
            lambda: self.configure(interval_ms="301") and None,
            instance_id,
        )

    def served(self) -> str:
        """The text of the metrics that clients have pushed."""
        for _ in self.collector.collect():
            pass
        return "".join(text for table in self.collector.tables for text in table.texts())


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    stand = Stand(tmp_path)
    yield stand
    stand.node.stop()


@pytest.mark.parametrize(("steps", "codes"), SEQUENCES, ids=[steps for steps, _ in SEQUENCES])
def test_a_sequence_has_the_error_codes_of_kafka(
    stand: Stand, steps: str, codes: list[int]
) -> None:
    assert stand.configure(metrics="*", interval_ms=str(INTERVAL_MS)) == 0
    client = stand.client()
    ticking = client.send

    def send(request: Request) -> object:
        stand.clock.advance(10)
        return ticking(request)

    client.send = send
    assert client.play(steps) == codes


def test_subscription_ids_are_kafkas(stand: Stand) -> None:
    found = stand.ask()
    assert (found.subscription_id, found.push_interval_ms) == (303858821, 300_000)
    assert found.requested_metrics == []
    assert found.accepted_compression_types == [4, 3, 1, 2] and found.delta_temporality
    assert stand.configure(metrics="*", interval_ms="100") == 0
    assert (stand.ask().subscription_id, stand.ask(bytes(15) + b"\7").requested_metrics) == (
        -213572614,
        ["*"],
    )
    assert stand.configure(metrics="a.b,ccc,zz", interval_ms="1000") == 0
    names = "org.apache.kafka.producer.,a.b,zz,org.x.y.z"
    assert stand.configure("some", metrics=names, interval_ms="500") == 0
    found = stand.ask()
    assert found.requested_metrics == [
        "zz",
        "org.apache.kafka.producer.",
        "org.x.y.z",
        "ccc",
        "a.b",
    ]
    assert (found.subscription_id, found.push_interval_ms) == (1844178078, 500)


def test_an_instance_without_an_id_is_given_one_and_reserved_ids_may_not_push(stand: Stand) -> None:
    first, second = stand.ask(bytes(16)), stand.ask(bytes(16))
    assert first.client_instance_id not in (bytes(16), second.client_instance_id)
    for id, code in ((0, 42), (1, 42), (2, 117)):
        assert stand.client(uuid.UUID(int=id).bytes).push() == code


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        ("client_id=wire", True),
        ("client_id=ire", False),
        (" client_id = (?i)WI.. ", True),
        ("client_id=zzz,client_id=wire", True),
        ("client_id=wire,client_software_name=other", False),
        ("client_software_version=unknown", True),
        ("client_source_address=127.0.0.1", True),
        (r"client_source_port=50\d+", True),
        ("client_instance_id=EjRWeJCrze8RIjNEVWZ3iA", True),
    ],
)
def test_clients_are_matched_by_whole_attributes(
    stand: Stand, match: str, is_matched: bool
) -> None:
    assert stand.configure(metrics="*", match=match) == 0
    assert stand.ask().requested_metrics == ["*"] * is_matched


@pytest.mark.parametrize(
    "match",
    [
        "client_id",
        "client_id=",
        "client_id=a=b",
        "client_id=[",
        "name=x",
        "CLIENT_ID=x",
        # Java's expressions have these, RE2 has not.
        r"client_id=(a)\1",
        "client_id=[a-z&&[^x]]",
        "client_id=a,",
    ],
)
def test_patterns_that_cannot_be_matched_are_refused(stand: Stand, match: str) -> None:
    assert stand.configure(match=match) == Error.INVALID_CONFIG


def test_a_catastrophic_pattern_takes_linear_time(stand: Stand) -> None:
    assert stand.configure(metrics="*", match="client_id=(a+)+b") == 0
    telemetry = stand.node.broker.telemetry
    client = Client("a" * 30_000, ("x", "1"), "127.0.0.1", "1", "c")
    began_s = time.process_time()
    _, subscription = telemetry.ask(KNOWN_ID, client, 0)
    assert subscription.metrics == [] and time.process_time() - began_s < 1


def test_telemetry_is_advertised_where_metrics_are_on_only(stand: Stand, tmp_path: Path) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")

    def advertised(node: InProcessBroker) -> set[int]:
        return {each.api_key for each in node.call(request, 4).api_keys} & {71, 72}

    assert advertised(stand.node) == {71, 72}
    plain = InProcessBroker(tmp_path / "plain", ManualClock())
    assert advertised(plain) == set()
    # As Kafka without a receiver, it answers those who ask all the same.
    asked = GetTelemetrySubscriptionsRequest(client_instance_id=KNOWN_ID)
    assert plain.call(asked, 0).subscription_id == 303858821
    plain.stop()


def otlp(name: str, *values: float, delta: bool = False, labels: dict[str, str] | None = None):
    """The bytes of one metric: a gauge, or with `delta` a counter."""
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.name = name
    kind = metric.sum if delta else metric.gauge
    if delta:
        metric.sum.is_monotonic = True
        metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    for value in values:
        point = kind.data_points.add()
        point.as_double = value
        for key, text in (labels or {}).items():
            attribute = point.attributes.add()
            attribute.key, attribute.value.string_value = key, text
    return data.SerializeToString()


@pytest.mark.parametrize("codec", list(Codec))
def test_pushed_metrics_are_served_until_the_client_is_silent(stand: Stand, codec: Codec) -> None:
    assert stand.configure(metrics="*", interval_ms="100") == 0
    client = stand.client()
    client.ask()
    labels = {"topic": "orders", "secret": "x"}
    pushed = otlp("org.apache.kafka.producer.record.send.rate", 1.5, labels=labels)
    assert client.push(compress(codec, pushed), codec) == 0
    assert (
        'org_apache_kafka_producer_record_send_rate{client_id="wire",'
        'client_instance_id="EjRWeJCrze8RIjNEVWZ3iA",software_name="unknown",'
        'software_version="unknown",topic="orders"} 1.5\n'
    ) in stand.served()
    stand.clock.advance(60_000)
    assert "org_apache" not in stand.served()


def test_deltas_add_up_to_a_counter(stand: Stand) -> None:
    assert stand.configure(metrics="*", interval_ms="100") == 0
    client = stand.client()
    client.ask()
    for value in (3.0, 4.0):
        assert client.push(otlp("org.apache.kafka.producer.send.total", value, delta=True)) == 0
        client.wait()
    assert '"} 7.0\n' in stand.served()
    assert "# TYPE org_apache_kafka_producer_send_total counter" in stand.served()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_push_that_inflates_beyond_the_limit_is_refused(stand: Stand, codec: Codec) -> None:
    assert stand.configure(metrics="*", interval_ms="100") == 0
    client = stand.client()
    client.ask()
    bomb = compress(codec, bytes(MAX_BYTES + 1))
    assert client.push(bomb, codec) == Error.INVALID_RECORD
    assert "wirekafka_telemetry_refused_total 1\n" in stand.served()


def test_names_of_others_are_not_served(stand: Stand) -> None:
    assert stand.configure(metrics="*", interval_ms="100") == 0
    client = stand.client()
    client.ask()
    for name in (
        "process_cpu_seconds",
        "org.apache.kafka",
        'org.apache.kafka.x"} 1\nup',
        "org.apache.kafka.x.total",
    ):
        assert client.push(otlp(name, 1.0)) == 0
        client.wait()
    served = stand.served()
    assert "wirekafka_telemetry_dropped_values_total 4\n" in served
    assert "cpu" not in served and "up" not in served.replace("group", "")


def test_metrics_without_a_subscription_are_dropped(stand: Stand) -> None:
    assert stand.configure(metrics="org.apache.kafka.consumer.", interval_ms="100") == 0
    assert stand.configure("none", metrics="", match="client_id=other") == 0
    client = stand.client()
    client.ask()
    for name in ("org.apache.kafka.producer.send.rate", "org.apache.kafka.consumer.lag"):
        assert client.push(otlp(name, 1.0)) == 0
        client.wait()
    served = stand.served()
    assert "kafka_consumer_lag" in served and "producer" not in served
    assert "wirekafka_telemetry_dropped_values_total 1\n" in served


def test_a_connection_has_one_instance_and_its_client_id_is_not_kept(stand: Stand) -> None:
    telemetry = stand.node.broker.telemetry
    for number in range(2, 50):
        client = Client("c" * 30_000, ("x", "1"), "127.0.0.1", "1", "one connection")
        telemetry.ask(uuid.UUID(int=number).bytes, client, stand.clock.now_ms())
    assert len(telemetry) == 1
    telemetry.disconnected("one connection")
    assert len(telemetry) == 0


@pytest.mark.parametrize("depth", range(5))
def test_half_a_million_empty_parts_take_little_time(stand: Stand, depth: int) -> None:
    # Of a push, a resource, a scope, a metric's gauge, a point: the tags of what they repeat.
    tags = [0x0A, 0x12, 0x12, 0x0A, 0x3A]
    data = bytes([tags[depth], 0]) * (1 << 19)
    for outer in reversed([0x0A, 0x12, 0x12, 0x2A, 0x0A][: depth + (depth > 2)]):
        data = inside(outer, data)
    push = Push(KNOWN_ID, 0, False, Codec.NONE, data)
    client = Client("wire", ("x", "1"), "127.0.0.1", "1", "c")
    began_s = time.process_time()
    stand.collector.receive(push, client, 1 << 21, Subscription(0, ["*"], 1000))
    assert time.process_time() - began_s < 0.25


def inside(tag: int, data: bytes) -> bytes:
    """A protobuf field with a message."""
    size, left = b"", len(data)
    while left > 127:
        size, left = size + bytes([left & 127 | 128]), left >> 7
    return bytes([tag]) + size + bytes([left]) + data
