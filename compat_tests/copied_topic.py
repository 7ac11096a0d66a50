"""A topic of numbered records by key, and what is wrong with a copy of it."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.java_tools import JavaTools
from tests import kafka_jars

KEYS = 100
PARTITIONS = 4
_SUMMARY = "Processed a total of"
"""What the consumer writes in the end, however it ends."""
_QUIET_MS = 20_000
"""The consumer ends when it has got nothing for this long."""


@dataclass
class Copy:
    """What a consumer has found in a topic."""

    records: int = 0
    missing: int = 0
    repeated: int = 0
    disordered: int = 0
    """Records that came after a later record of their key, repeated ones aside."""
    examples: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        """Whether each record is there once, and in order within its key."""
        return not (self.missing or self.repeated or self.disordered)


class CopyCheck:
    """Checks records one by one."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = numbers
        self._seen: Counter[int] = Counter()
        self._latest: dict[str, int] = {}
        self._copy = Copy()

    def note(self, key: str, value: str) -> None:
        """Note the next record of the copy."""
        number, copy = int(value.partition(".")[0]), self._copy
        copy.records += 1
        assert key == key_of(number), f"{key!r} is not the key of {value!r}"
        if self._seen[number]:
            copy.repeated += 1
            self._remember(f"{number} repeated")
        elif number < self._latest.get(key, -1):
            copy.disordered += 1
            self._remember(f"{number} after {self._latest[key]}")
        self._seen[number] += 1
        self._latest[key] = max(number, self._latest.get(key, -1))

    def result(self) -> Copy:
        """What is wrong with the copy."""
        lost = [number for number in self._numbers if not self._seen[number]]
        self._copy.missing = len(lost)
        for number in lost[:5]:
            self._remember(f"{number} missing")
        return self._copy

    def _remember(self, example: str) -> None:
        if len(self._copy.examples) < 20:
            self._copy.examples.append(example)


def key_of(number: int) -> str:
    """The key of a record."""
    return f"key-{number % KEYS}"


def written(bootstrap: str, topic: str) -> int:
    """How many records a topic has, by its end offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "end", "log_level": 0})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, index), 10)[1]
            for index in range(PARTITIONS)
        )
    finally:
        consumer.close()


def make_topics(bootstrap: str, source: str, target: str, count: int) -> None:
    """Create two topics, and write numbered records to the source."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics(
        [NewTopic(each, PARTITIONS) for each in (source, target)]
    ).values():
        made.result(60)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "linger.ms": 50,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for number in range(count):
        value = f"{number}.".ljust(60, "x")
        while True:
            try:
                producer.produce(
                    source, value, key_of(number), partition=number % KEYS % PARTITIONS
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def checked_copy(bootstrap: str, topic: str, count: int, scratch: Path) -> Copy:
    """Read a topic with Kafka's console consumer, which sees committed records only."""
    tools = JavaTools(kafka_jars.tools_jars(), scratch)
    command = tools.command(
        "kafka-console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--isolation-level", "read_committed", "--timeout-ms", str(_QUIET_MS)),
        *("--formatter-property", "print.key=true"),
    )
    check = CopyCheck(range(count))
    log = scratch / "consumer.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            key, _, value = line.rstrip("\n").partition("\t")
            check.note(key, value)
    assert _SUMMARY in log.read_text(), log.read_text()
    return check.result()
