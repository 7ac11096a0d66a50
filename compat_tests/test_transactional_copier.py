"""Kafka's own exactly-once copier, while the broker is killed repeatedly."""

from __future__ import annotations

import json

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from compat_tests.reading import read_to_end
from tests.repetitions import repetitions

MESSAGES = repetitions("WIREKAFKA_COPIED_MESSAGES", usual=20_000, thorough=100_000)
KILLS = repetitions("WIREKAFKA_COPIER_KILLS", usual=4, thorough=20)
TRANSACTION = 500


def test_copier_loses_and_duplicates_nothing_while_the_broker_is_killed(
    mortal: MortalBroker, java_tools: JavaTools
) -> None:
    _fill(mortal.bootstrap)
    copier = java_tools.start(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        "--broker-list", mortal.bootstrap, "--transactional-id", "copier",
        "--consumer-group", "copiers", "--input-topic", "source", "--input-partition", "0",
        "--output-topic", "copy", "--max-messages", str(MESSAGES),
        "--transaction-size", str(TRANSACTION), "--enable-random-aborts",
    )  # fmt: skip
    kills = 0
    last = {}
    assert copier.stdout is not None
    for line in copier.stdout:
        if not line.startswith("{"):
            continue
        last = json.loads(line)
        done = last.get("consumed", 0)
        if kills < KILLS and done >= (kills + 1) * MESSAGES / (KILLS + 2):
            mortal.kill()
            mortal.start()
            kills += 1
    assert copier.wait(60) == 0
    assert (last["stage"], last["remaining"], kills) == ("ShutdownComplete", 0, KILLS)
    copied = [
        message.value() for message in read_to_end(mortal.bootstrap, [TopicPartition("copy", 0, 0)])
    ]
    assert len(copied) == MESSAGES
    assert sorted(map(int, copied)) == list(range(MESSAGES))


def _fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("source", 1), NewTopic("copy", 1)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(MESSAGES):
        producer.produce("source", value=str(number))
        if number % 10_000 == 0:
            producer.flush()
    assert producer.flush(60) == 0
