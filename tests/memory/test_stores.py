"""Requests fill each store of docs/reference/security.md beyond its bound; it stays within it."""

from __future__ import annotations

import ast
import asyncio
import gc
import logging
import re
import struct
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apis.share_member import share_fetch_request
from tests.apis.test_produce import produce
from tests.in_process import Exchange, InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.memory.containers import containers, in_module
from tests.memory.heap import held_bytes
from tests.memory.places import STORES, classified
from tests.server.test_lag import commit
from tests.server.test_measured_pipeline import FETCH, produce_request
from tests.telemetry.sequences import alter
from tests.telemetry.test_telemetry import otlp
from wirekafka.bounded_memory import Remembered
from wirekafka.codec.message import Request
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.coordinator import java_order, shards
from wirekafka.coordinator.groups import offset_record
from wirekafka.errors import Error
from wirekafka.metadata.broker import auto_creation
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.metrics import client_metrics
from wirekafka.metrics.lag import EndOffsets
from wirekafka.metrics.measures import Measures
from wirekafka.metrics.requests import Clients
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.push_telemetry import PushTelemetryRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.quotas import address_quotas, client_quotas
from wirekafka.replication.fetching import fetch_sessions, readers
from wirekafka.replication.partition import schema_checks
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.schema_checks import SchemaChecks
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.replication.share import sessions as share_sessions
from wirekafka.schemas.framing import with_id
from wirekafka.security import acl_index
from wirekafka.security.sasl.scram import ALGORITHMS
from wirekafka.security.tokens import TokenCredentials
from wirekafka.server import equal_lines
from wirekafka.server.connections import produce_cache, repeated_warnings
from wirekafka.server.connections.produce_cache import ProduceCache
from wirekafka.server.equal_lines import EqualLines
from wirekafka.server.monitoring import lag
from wirekafka.server.monitoring.client_metrics import TelemetryCollector
from wirekafka.server.monitoring.lag import LagTracker
from wirekafka.telemetry import instances
from wirekafka.telemetry.instances import ClientTelemetry

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "security.md"
_BASE_BYTES = 64 << 10
"""Of the containers themselves, and of what they share."""
SMALLER = 16
"""The bounds of the test are smaller by this factor, so that it is quick."""


def test_every_container_that_outlives_a_call_is_classified() -> None:
    found = Counter(each.place for each in containers())
    known = Counter(classified())
    assert found.keys() - known.keys() == set(), "does a client name its entries? Then bound it"
    assert known.keys() - found.keys() == set(), "these are gone"
    assert max(known.values()) == 1


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("self._seen: dict[str, int] = {}", True),
        ("self._seen: dict[Key, int] = {}", True),
        ("self._seen: dict[int, dict[str, int]] = {}", True),
        ("self._seen = OrderedDict()", True),
        ("self._seen = Remembered[str, int](1 << 20)", True),
        ("self._seen: set[tuple[bytes, int]] = set()", True),
        ("self._seen: list[bytes] = []", True),
        ("self._seen = WeakValueDictionary[str, object]()", True),
        ("self._seen: tuple[dict[str, int], int] = {}, 0", True),
        ("self._seen = self._seen or {}", True),
        ("self._seen: dict[int, Partition] = {}", False),
        ("self._seen: dict[Promise[Any], None] = {}", False),
        ("self._seen: list[int] = []", False),
        ("seen: dict[str, int] = {}", False),
    ],
)
def test_a_container_with_texts_is_found(made: str, is_found: bool) -> None:
    source = f"class A:\n    def __init__(self):\n        {made}\n"
    assert [each.place for each in in_module(ast.parse(source), "m.py")] == [
        "m.py:A._seen"
    ] * is_found


@pytest.mark.parametrize("made", ["@cache", "@lru_cache(maxsize=9)", "@functools.lru_cache"])
def test_a_cache_of_results_by_texts_is_found(made: str) -> None:
    source = (
        f"{made}\ndef found(name: str, at: int) -> int: ...\n{made}\ndef not_found(at: int): ..."
    )
    assert [each.place for each in in_module(ast.parse(source), "m.py")] == ["m.py:found"]
    [assigned] = in_module(ast.parse("_known = lru_cache(9)(found)"), "m.py")
    assert assigned.place == "m.py:_known"


def test_every_store_is_in_the_documents() -> None:
    assert list(table()) == list(STORES)


def test_a_remembered_key_takes_its_share_at_the_most() -> None:
    store = Remembered[str, bytes](64 << 10)
    for number in range(500):
        store.keep(f"{number}" + "\N{SNOWMAN}" * 100, bytes(100))
    store.keep("x" * 2_000, b"")
    assert 100 < len(store) < 200 and store.size_bytes <= 64 << 10
    assert 0.7 * store.size_bytes < held_bytes(store) < 1.3 * store.size_bytes
    assert "499" + "\N{SNOWMAN}" * 100 in store, "the newest are kept"
    store.clear()
    assert (len(store), store.size_bytes) == (0, 0)


class Stand:
    """A broker with metrics, and clients that send requests to it."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.clock = ManualClock()
        self.collector = TelemetryCollector(self.clock.now_ms)
        self.measures = Measures(telemetry=self.collector.receive)
        self.kafka = InProcessBroker(
            directory,
            self.clock,
            measures=self.measures,
            **{
                "offsets.topic.num.partitions": "1",
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:ANONYMOUS",
                **settings,
            },
        )

    def send(
        self, request: Request, version: int, client_id: str = "c", user: str = "ANONYMOUS"
    ) -> Any:
        """The response to a request over a new connection, which is then closed."""
        exchange = self.kafka.begin(request, version, client_id, principal=f"User:{user}")
        exchange.abandon()
        return exchange.response

    def send_openly(self, request: Request, version: int, client_id: str = "c") -> Any:
        """The response to a request over a new connection, which stays open."""
        return self.kafka.call(request, version, client_id)

    def limit(self, entity: str, quota: str, value: float) -> None:
        """Set the default quota of client ids or addresses."""
        of = AlterClientQuotasRequest.EntryData
        entry = of(
            entity=[of.EntityData(entity_type=entity, entity_name=None)],
            ops=[of.OpData(key=quota, value=value)],
        )
        assert self.send(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0


def telemetry_instances(stand: Stand) -> list[Any]:
    for number in range(1_100):
        request = GetTelemetrySubscriptionsRequest(client_instance_id=struct.pack(">QQ", 9, number))
        assert stand.send_openly(request, 0, "c" * 5_000).error_code == 0
    telemetry: ClientTelemetry = stand.kafka.broker.telemetry
    return [telemetry._instances, telemetry._of_connections]


def pushed_metrics(stand: Stand) -> list[Any]:
    configured = stand.send(alter("all", {"metrics": "*", "interval.ms": "100"}), 1)
    assert configured.responses[0].error_code == 0
    for number in range(700):
        id = struct.pack(">QQ", 9, number)
        asked = stand.send(GetTelemetrySubscriptionsRequest(client_instance_id=id), 0)
        push = PushTelemetryRequest(
            client_instance_id=id,
            subscription_id=asked.subscription_id,
            metrics=otlp(f"org.apache.kafka.x{number % 40}", 1.0, labels={"topic": "t" * 190}),
        )
        assert stand.send(push, 0, "\N{SNOWMAN}" * 5_000).error_code == 0
    for _ in stand.collector.collect():
        pass
    return [stand.collector._metrics, stand.collector._families]


def decisions(stand: Stand) -> list[Any]:
    of = FetchRequest.Topic
    for part in range(20):
        topics = [
            of(topic=f"{part}-{number}" + "\N{SNOWMAN}" * 200, partitions=[of.Partition()])
            for number in range(100)
        ]
        stand.send(FetchRequest(topics=topics), FETCH, user="nobody")
    authorizer = stand.kafka.broker.authorizer
    assert authorizer is not None and len(authorizer.index.decisions) > 100
    return [authorizer.index.decisions]


def accounts(stand: Stand) -> list[Any]:
    stand.limit("client-id", "producer_byte_rate", 1e9)
    for number in range(1_000):
        stand.send(ApiVersionsRequest(), 0, f"{number}" + "c" * 5_000)
    quotas = stand.kafka.broker.quotas
    assert quotas is not None and len(quotas._accounts) > 100
    return [quotas._accounts, quotas._old_accounts, quotas._rates, quotas._kept]


def connection_rates(stand: Stand) -> list[Any]:
    stand.limit("ip", "connection_creation_rate", 1e6)
    for number in range(1_400):
        stand.kafka.net.client_host = f"10.0.{number >> 8}.{number & 255}"
        stand.send(ApiVersionsRequest(), 0)
    addresses = stand.kafka.broker.stored_quotas.addresses
    assert len(addresses._rates) > 100
    return [addresses._rates, addresses._old_rates]


def software(stand: Stand) -> list[Any]:
    for number in range(300):
        connection = stand.kafka.net.open(stand.kafka.node.listeners[0].address)
        name = f"{number}-" + "x" * (30_000 if number % 2 else 50)
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        assert Exchange(connection, request, 3, "c").response.error_code == 0
        stand.measures.requests.clients.of("l", connection.protocol.call.client.software)
    return [stand.measures.requests.clients]


def warnings(stand: Stand) -> list[Any]:
    for number in range(100):
        stand.kafka.net.client_host = f"10.0.0.{number}"
        connection = stand.kafka.net.open(stand.kafka.node.listeners[0].address)
        connection.feed(struct.pack(">ihhih", 10, 9_999, 0, 1, -1))
        assert connection.is_closing()
    lines = EqualLines(logging.NullHandler(), later=lambda delay_s, call: None)
    for number in range(100):
        message = f"{number}" + "\N{SNOWMAN}" * 30_000
        assert lines.filter(logging.LogRecord("n", logging.ERROR, "", 0, message, (), None))
    return [lines._seen, *(each.warnings._seen for each in stand.kafka.node.listeners)]


def coordinators(stand: Stand) -> list[Any]:
    stand.kafka.create("__consumer_offsets")
    for number in range(400):
        stand.send(HeartbeatRequest(group_id=f"{number}" + "g" * 1_000), 4)
    assert len(stand.kafka.broker.groups._partitions) > 100
    return [each._partitions for each in stand.kafka.broker._coordinators.values()]


def connections(stand: Stand) -> list[Any]:
    opened = [stand.kafka.begin(ApiVersionsRequest(), 0) for _ in range(100)]
    [listener] = [each for each in stand.kafka.node.listeners if each._connections]
    assert len(listener._connections) >= 100
    for each in opened:
        each.abandon()
    assert not listener._connections and not listener._limits.by_host
    return []


def fetch_all(session_epoch: int = -1) -> FetchRequest:
    """A Fetch of a hundred partitions."""
    of = FetchRequest.Topic
    partitions = [of.Partition(partition=index, fetch_offset=0) for index in range(100)]
    topics = [of(topic="t", partitions=partitions)]
    return FetchRequest(session_epoch=session_epoch, topics=topics)


def positions(stand: Stand) -> list[Any]:
    stand.kafka.create("t", 100)
    for number in range(100):
        stand.send_openly(fetch_all(), FETCH, f"{number}" + "c" * 5_000)
    for reader in stand.kafka.broker.readers.present(stand.clock.now_ms()):
        assert len(list(reader.positions(stand.kafka.broker.partitions.get))) == 100
    assert stand.kafka.broker.readers._positions > 2_000
    return [stand.kafka.broker.readers]


def sessions(stand: Stand) -> list[Any]:
    stand.kafka.create("t", 100)
    ids = [stand.send_openly(fetch_all(0), FETCH).session_id for _ in range(140)]
    assert all(ids[:125]) and not any(ids[125:]), "without a session the request is served too"
    return [stand.kafka.broker.sessions._sessions, stand.kafka.broker.sessions._of_connections]


def shared(stand: Stand) -> list[Any]:
    asyncio.run(_share_much(stand))
    assert 10_000 < stand.kafka.broker.shares.sessions._partitions <= 12_500
    return [stand.kafka.broker.shares.sessions]


async def _share_much(stand: Stand) -> None:
    of = ShareFetchRequest.FetchTopic
    parts = [of.FetchPartition(partition_index=index) for index in range(1_000)]
    for number in range(15):
        request = share_fetch_request({}, member_id=str(uuid.UUID(int=number + 1)))
        request.topics = [of(topic_id=bytes(15) + b"x", partitions=parts)]
        exchange = stand.kafka.begin(request, 2)
        assert exchange.is_done == (number < 12), "a client beyond the limit is slowed down"
        if exchange.is_done:
            assert exchange.response.error_code == 0
        else:
            exchange.abandon()


def produced(stand: Stand) -> list[Any]:
    stand.kafka.create("t")
    for number in range(700):
        name = f"{number}" + "c" * (900 if number % 2 else 5_000)
        response = stand.send(produce_request(batch(b"v")), 9, name)
        assert response.responses[0].partition_responses[0].error_code == 0
    [cache] = [each for each in gc.get_objects() if isinstance(each, ProduceCache) and each._count]
    return [cache._known, stand.measures.requests._repeated]


def lags(stand: Stand) -> list[Any]:
    stand.kafka.create("t")
    stand.kafka.create("__consumer_offsets")
    tracker = LagTracker(stand.kafka.broker)
    for number in range(140):
        commit(stand.kafka, f"{number}" + "g" * (5_000 if number % 20 == 0 else 10), 0)
    for _ in range(370):
        list(tracker.sample())
        stand.clock.advance(10_000)
    assert len(tracker.histories) == 125 and max(len(name) for _, name in tracker.histories) < 20
    return [tracker.histories, tracker._stamps, tracker._next_stamps]


def failed_creations(stand: Stand) -> list[Any]:
    creation = stand.kafka.broker.auto_creation
    for number in range(80):
        topic = NewTopic(name=f"{number}" + "t" * 300, num_partitions=1, replication_factor=1)
        now(creation.create_internal([topic], stand.clock.now_ms(), 1_000, None))
    assert 0 < len(creation._failures) <= 62 and not creation._creations
    return [creation._failures]


def record_keys(stand: Stand) -> list[Any]:
    stand.kafka.create("t")
    stand.kafka.create("__consumer_offsets")
    for number in range(400):
        commit(stand.kafka, f"{number}" + "g" * 2_000, 0)
    assert len(offset_record._offset_keys) > 100
    return [offset_record._offset_keys]


def member_hashes(_: Stand) -> list[Any]:
    for number in range(100):
        members = [f"{number}-{each}" + "m" * 1_000 for each in range(100)]
        java_order.strings_in_order(members, 128)
    assert len(java_order._spread_hash_codes) > 100
    return [java_order._spread_hash_codes, java_order._mixed_hash_codes]


def token_credentials(_: Stand) -> list[Any]:
    credentials = TokenCredentials(lambda: bytes(16))
    for number in range(20):
        credentials.credential(f"{number}", ALGORITHMS["SCRAM-SHA-512"], "secret")
    assert len(credentials._derived) <= 10
    return [credentials._derived]


def schemas(stand: Stand) -> list[Any]:
    checks = SchemaChecks(lambda use: "no" * 10_000, sync_inline, stand.clock)
    stand.kafka.broker.schema_refusal = checks.refusal
    stand.kafka.create("t", confluent_value_schema_validation="true")
    for first in range(0, 4_000, 10):
        values = (with_id(id, b"") for id in range(first, first + 10))
        assert produce(stand.kafka, batch(*values)).error_code == Error.INVALID_RECORD
    assert 200 < len(checks._known) < 4_000 and not checks._waiting
    return [checks._known]


FILL: dict[str, Callable[[Stand], list[Any]]] = {
    "Instances of client telemetry": telemetry_instances,
    "Metrics that clients push": pushed_metrics,
    "Decisions of the authorizer": decisions,
    "Accounts of client quotas": accounts,
    "Rates of new connections": connection_rates,
    "Traffic by client software": software,
    "Warnings that repeat": warnings,
    "Coordinators of keys": coordinators,
    "Connections": connections,
    "Readers": positions,
    "Fetch sessions": sessions,
    "Share sessions": shared,
    "Repeated Produce requests": produced,
    "Lag of groups and readers": lags,
    "Creations of topics": failed_creations,
    "Keys of coordinators' records": record_keys,
    "Hashes of member ids": member_hashes,
    "Credentials of delegation tokens": token_credentials,
    "Schemas that records name": schemas,
}
FILLED_ELSEWHERE = {
    "Expressions of subscriptions": "tests/coordinator",
    "Sessions of the console": "tests/console",
    "Parsed schemas": "tests/registry",
    "Users of the schema registry": "tests/registry",
}
SHARED = (Partition, EndOffsets)
"""What the stores refer to, but do not hold."""
CONSTANTS: list[tuple[Any, str]] = [
    (instances, "_MOST"),
    (client_metrics, "MOST_SERIES"),
    (client_metrics, "MOST_CHARACTERS"),
    (acl_index, "_DECISIONS_BYTES"),
    (client_quotas, "_MOST_BYTES"),
    (address_quotas, "_MOST_ADDRESSES"),
    (Clients, "MOST"),
    (repeated_warnings, "_MOST"),
    (equal_lines, "_MOST"),
    (shards, "_PARTITIONS_BYTES"),
    (readers, "MOST_READERS"),
    (readers, "MOST_POSITIONS"),
    (fetch_sessions, "MOST_PARTITIONS"),
    (share_sessions, "MOST_PARTITIONS"),
    (produce_cache, "_MOST"),
    (schema_checks, "_VERDICTS_BYTES"),
    (lag, "_MOST_HISTORIES"),
    (lag, "_MOST_STAMPS"),
    (auto_creation, "_MOST_FAILURES"),
    (offset_record._offset_keys, "_most_bytes"),
    (java_order._spread_hash_codes, "_most_bytes"),
    (java_order._mixed_hash_codes, "_most_bytes"),
]


@pytest.mark.parametrize("store", list(FILL))
def test_a_store_stays_within_its_bound(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in CONSTANTS:
        monkeypatch.setattr(owner, name, getattr(owner, name) // SMALLER)
    monkeypatch.setattr(TokenCredentials, "_MOST", 10)
    stand = Stand(tmp_path)
    roots = FILL[store](stand)
    bound = re.match(r"(\d+) MiB", table()[store])
    assert (bound is None) == (roots == []), "stores without a bound in bytes hold nothing"
    if bound is not None:
        most_bytes = (int(bound[1]) << 20) // SMALLER
        assert held_bytes(*roots, shared=SHARED) <= most_bytes + _BASE_BYTES
    stand.kafka.stop()


def test_every_store_is_filled_by_a_test() -> None:
    assert FILL.keys() | FILLED_ELSEWHERE.keys() == STORES.keys()


def table() -> dict[str, str]:
    """The bound of each store, by name."""
    text = DOCUMENT.read_text().partition("## What clients can make a node remember")[2]
    rows = re.findall(r"^\| ([^|]+) \|[^|]+\| ([^|]+) \|[^|]+\|$", text.partition("\n## ")[0], re.M)
    return dict(rows[1:])
