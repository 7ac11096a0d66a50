"""A Kafka Streams application counts exactly, though it and the broker are killed repeatedly."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from compat_tests.reading import read_to_end
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.protocol.list_groups import ListGroupsRequest

SOURCE = Path(__file__).with_name("java") / "WordCount.java"
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]
LINES = 6000
ROUNDS = 6
PARTITIONS = 2


class WordCount:
    """The application, which can be killed and started again."""

    def __init__(self, java_tools: JavaTools, mortal: MortalBroker, state: Path, protocol: str):
        # One source file needs no build: java compiles it as it starts.
        self._command = java_tools.command(
            str(SOURCE), mortal.bootstrap, "word-count", "lines", "counts", str(state), protocol
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalBroker]:
    """A broker that expels members of streams groups as soon as classic ones."""
    broker = MortalBroker(
        tmp_path / "data",
        "group.streams.min.session.timeout.ms=6000",
        "group.streams.session.timeout.ms=6000",
        "group.streams.min.heartbeat.interval.ms=1000",
        "group.streams.heartbeat.interval.ms=1000",
        "group.streams.initial.rebalance.delay.ms=500",
    )
    broker.start()
    yield broker
    broker.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_streams_counts_exactly_once_under_kills(
    mortal: MortalBroker, java_tools: JavaTools, tmp_path: Path, protocol: str
) -> None:
    admin = AdminClient({"bootstrap.servers": mortal.bootstrap})
    topics = [NewTopic("lines", PARTITIONS), NewTopic("counts", PARTITIONS)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    application = WordCount(java_tools, mortal, tmp_path / "state", protocol)
    application.start()
    expected = dict.fromkeys(WORDS, 0)
    chance = random.Random(7)
    try:
        for number in range(ROUNDS):
            _write(mortal.bootstrap, chance, expected, LINES // ROUNDS)
            # Kill while records are being processed, not afterwards.
            wanted = sum(expected.values()) * chance.uniform(0.6, 0.9)
            eventually(lambda wanted=wanted: _total(mortal.bootstrap) >= wanted, 120, 0.2)
            if number % 2:
                application.kill()
                application.start()
            else:
                mortal.kill()
                mortal.start()
        eventually(lambda: _total(mortal.bootstrap) >= sum(expected.values()), 180, 0.5)
        assert _group_type(mortal.bootstrap) == protocol
    finally:
        application.kill()
    counts = _counts(mortal.bootstrap)
    # Not only the last count: each number from 1 on was written once, in order.
    assert counts == {word: list(range(1, total + 1)) for word, total in expected.items()}


def _group_type(bootstrap: str) -> str:
    listed = Wire.to(bootstrap).ask(ListGroupsRequest(states_filter=[], types_filter=[]), 5)
    (group,) = listed.groups
    kind: str = group.group_type
    return kind


def _write(bootstrap: str, chance: random.Random, expected: dict[str, int], lines: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for _ in range(lines):
        words = chance.choices(WORDS, k=3)
        for word in words:
            expected[word] += 1
        producer.produce("lines", key=words[0], value=" ".join(words))
    assert producer.flush(60) == 0


def _total(bootstrap: str) -> int:
    return sum(len(counts) for counts in _counts(bootstrap).values())


def _counts(bootstrap: str) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = defaultdict(list)
    places = [TopicPartition("counts", index, 0) for index in range(PARTITIONS)]
    for message in read_to_end(bootstrap, places):
        counts[message.key().decode()].append(int(message.value()))
    return dict(counts)
