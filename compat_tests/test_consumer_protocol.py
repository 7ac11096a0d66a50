"""Consumers with `group.protocol=consumer`: the broker assigns their partitions (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from compat_tests.java_tools import JavaTools
from spark_examples.live_broker import live_broker
from tests.eventually import eventually

_FAST = (
    "group.consumer.min.session.timeout.ms=2000",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.assignment.interval.ms=0",
)
_RECORDS = 300


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_broker(tmp_path_factory.mktemp("wirekafka") / "data", *_FAST) as address:
        yield address


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 6, 1)])[name].result(20)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(_RECORDS):
        producer.produce(name, str(number), str(number % 50))
    assert producer.flush(20) == 0
    return name


@contextmanager
def consumer(bootstrap: str, group: str, topics: list[str], **settings: str) -> Iterator[Consumer]:
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
        | {name.replace("_", "."): value for name, value in settings.items()}
    )
    client.subscribe(topics)
    try:
        yield client
    finally:
        client.close()


def poll_until(
    clients: list[Consumer], condition: Callable[[], bool], seen: list[str], timeout_s: float = 30
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, [len(c.assignment()) for c in clients]
        for client in clients:
            for message in client.consume(100, 0.05):
                assert message.error() is None, message.error()
                seen.append(message.value().decode())


def shares(*clients: Consumer) -> list[int]:
    return sorted(len(client.assignment()) for client in clients)


def test_librdkafka_members_share_a_topic_and_take_over(bootstrap: str, topic: str) -> None:
    seen: list[str] = []
    with consumer(bootstrap, topic, [topic]) as first:
        poll_until([first], lambda: shares(first) == [6] and len(seen) == _RECORDS, seen)
        with consumer(bootstrap, topic, [topic]) as second:
            poll_until([first, second], lambda: shares(first, second) == [3, 3], seen)
            assert {(p.topic, p.partition) for p in first.assignment()}.isdisjoint(
                {(p.topic, p.partition) for p in second.assignment()}
            )
        poll_until([first], lambda: shares(first) == [6], seen)
    assert set(seen) == {str(number) for number in range(_RECORDS)}


def test_librdkafka_follows_a_regular_expression_and_growing_topics(
    bootstrap: str, topic: str
) -> None:
    seen: list[str] = []
    with consumer(bootstrap, topic, [f"^{topic[:-3]}.*"]) as client:
        poll_until([client], lambda: shares(client) == [6], seen)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_partitions([NewPartitions(topic, 9)])[topic].result(20)
        poll_until([client], lambda: shares(client) == [9], seen)


def test_librdkafka_static_member_keeps_its_partitions(bootstrap: str, topic: str) -> None:
    seen: list[str] = []
    with consumer(bootstrap, topic, [topic], group_instance_id="b") as other:
        with consumer(bootstrap, topic, [topic], group_instance_id="a") as first:
            poll_until([first, other], lambda: shares(first, other) == [3, 3], seen)
            had = {(each.topic, each.partition) for each in first.assignment()}
        with consumer(bootstrap, topic, [topic], group_instance_id="a") as again:
            poll_until([again, other], lambda: shares(again, other) == [3, 3], seen)
            assert {(each.topic, each.partition) for each in again.assignment()} == had


def test_javas_console_consumer_reads_commits_and_is_described(
    bootstrap: str, topic: str, java_tools: JavaTools
) -> None:
    read = java_tools.run(
        "kafka-console-consumer",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--group",
        topic,
        "--from-beginning",
        "--max-messages",
        str(_RECORDS),
        "--consumer-property",
        "group.protocol=consumer",
    )
    # The tool also prints the new names of deprecated options.
    numbers = [int(line) for line in read.splitlines() if line.isdigit()]
    assert sorted(numbers) == list(range(_RECORDS))
    listed = java_tools.run("kafka-groups", "--bootstrap-server", bootstrap, "--list")
    assert any(
        line.split()[:3] == [topic, "Consumer", "consumer"] for line in listed.splitlines()
    ), listed
    described = java_tools.run(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", topic
    )
    rows = [line.split() for line in described.splitlines() if line.startswith(topic)]
    assert sum(int(row[3]) for row in rows) == _RECORDS, described


def test_group_is_loaded_again_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with live_broker(data, *_FAST) as address:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(20)
        producer = Producer({"bootstrap.servers": address})
        producer.produce("t", "one", partition=0)
        assert producer.flush(20) == 0
        seen: list[str] = []
        with consumer(address, "g", ["t"]) as client:
            poll_until([client], lambda: seen == ["one"], seen)
    with live_broker(data, *_FAST) as address:
        producer = Producer({"bootstrap.servers": address})
        producer.produce("t", "two", partition=0)
        assert producer.flush(20) == 0
        with consumer(address, "g", ["t"]) as client:
            poll_until([client], lambda: "two" in seen, seen)
            assert seen == ["one", "two"]
            eventually(lambda: len(client.committed(client.assignment(), timeout=5)) == 4)
