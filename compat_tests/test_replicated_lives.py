"""Brokers of both engines are killed, paused and stopped under load: no record is lost or doubled.

`WIREKAFKA_REPLICATED_LIVES` is the number of incidents, `WIREKAFKA_REPLICATED_SEED` chooses them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from tests.eventually import eventually

INCIDENTS = int(os.environ.get("WIREKAFKA_REPLICATED_LIVES", "3"))
SEED = int(os.environ.get("WIREKAFKA_REPLICATED_SEED", "1"))
BROKERS = (1, 2, 3)
TOPIC = "lives"
ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
INDEXES = range(len(ASSIGNMENT))
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
}


class Load:
    """An idempotent producer with acks=all; its keys count up in each partition."""

    def __init__(self, bootstrap: str):
        self.acknowledged: list[dict[int, int]] = [{} for _ in INDEXES]
        """By partition: the offset and the key of each acknowledged record."""
        self.errors: list[KafkaError] = []
        self._produced = [0 for _ in INDEXES]
        self._is_ending = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 240_000,
                "log_level": 0,
            }
        )

    @classmethod
    @contextmanager
    def running(cls, bootstrap: str) -> Iterator[Load]:
        load = cls(bootstrap)
        thread = threading.Thread(target=load._run)
        thread.start()
        try:
            yield load
        finally:
            load._is_ending.set()
            thread.join()

    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged))

    def _run(self) -> None:
        random = Random(SEED)
        while not self._is_ending.is_set():
            for index in INDEXES:
                try:
                    self._producer.produce(
                        TOPIC,
                        b"x" * random.randrange(1_000),
                        str(self._produced[index]),
                        index,
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    continue
                self._produced[index] += 1
            self._producer.poll(0.002)
        assert self._producer.flush(240) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        partition, offset, key = message.partition(), message.offset(), message.key()
        assert partition is not None and offset is not None and key is not None
        self.acknowledged[partition][offset] = int(key)


def records(bootstrap: str) -> list[dict[int, int]]:
    """By partition: the offset and the key of each record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checks",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[dict[int, int]] = [{} for _ in INDEXES]
    ends = [
        consumer.get_watermark_offsets(TopicPartition(TOPIC, index), 30)[1] for index in INDEXES
    ]
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in INDEXES])

    def is_all_read() -> bool:
        for message in consumer.consume(5_000, 1):
            assert message.error() is None, message.error()
            found[message.partition()][message.offset()] = int(message.key())
        return all(len(found[index]) >= ends[index] for index in INDEXES)

    eventually(is_all_read, timeout_s=120)
    consumer.close()
    return found


def fail_a_broker(cluster: Cluster, random: Random, load: Load) -> None:
    """Kill, pause or stop a broker; wait until all are in service and writes continue."""
    broker = random.choice(BROKERS)
    match random.choice(["kill", "pause", "stop"]):
        case "kill":
            cluster.kill(broker)
            if random.random() < 0.5:
                until_more(load)
            cluster.start(broker)
        case "pause":
            cluster.pause(broker)
            if random.random() < 0.5:
                until_more(load)
            cluster.go_on(broker)
        case "stop":
            cluster.stop(broker)
            until_more(load)
            cluster.start(broker)
    until_more(load)


def until_more(load: Load) -> None:
    """Wait until each partition has acknowledged more records."""
    before = [len(each) for each in load.acknowledged]
    eventually(
        lambda: all(len(load.acknowledged[index]) > before[index] for index in INDEXES),
        timeout_s=90,
    )


def stored(cluster: Cluster, broker: int, index: int) -> bytes:
    """The bytes of a partition in a broker's files."""
    directory: Path = cluster.nodes[broker].data / f"{TOPIC}-{index}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


@pytest.mark.timeout(300 + 120 * INCIDENTS)
def test_acknowledged_records_stay_once_and_in_order_and_replicas_agree(tmp_path: Path) -> None:
    shape = Shape(brokers=(KAFKA, WIREKAFKA, WIREKAFKA), is_combined=False, settings=SETTINGS)
    with Cluster.running(shape, tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topic = NewTopic(
            TOPIC,
            len(ASSIGNMENT),
            replica_assignment=ASSIGNMENT,
            config={"segment.bytes": str(1 << 20)},
        )
        admin.create_topics([topic])[TOPIC].result(60)
        random = Random(SEED)
        with Load.running(cluster.bootstrap) as load:
            until_more(load)
            for _ in range(INCIDENTS):
                fail_a_broker(cluster, random, load)
        assert load.errors == []

        def agree() -> bool:
            partitions = admin.list_topics(TOPIC, 10).topics[TOPIC].partitions
            return all(
                sorted(partitions[index].isrs) == list(BROKERS)
                and len({stored(cluster, broker, index) for broker in BROKERS}) == 1
                for index in INDEXES
            )

        eventually(agree, timeout_s=120)
        found = records(cluster.bootstrap)
    for index in INDEXES:
        keys = [found[index][offset] for offset in sorted(found[index])]
        assert keys == list(range(len(keys))), "each once, in the order in which they were sent"
        assert load.acknowledged[index].items() <= found[index].items()
