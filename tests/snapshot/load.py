"""A load on a node whose clients note what was acknowledged, and what was sent, at which time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS, PAIRS, FACTS = "records", "pairs", "facts"
GROUP = "readers"
PARTITIONS = 4
_NOTED_EVERY = 50
_VALUE = b"v" * 100


class Noted:
    """The highest offset acknowledged, and the lowest offset sent, around a time."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[int, str, int, int]] = []
        self.sent: list[tuple[int, str, int, int]] = []

    def note(self, sent_ms: int, message: Any) -> None:
        place = message.topic(), message.partition(), message.offset()
        self.sent.append((sent_ms, *place))
        self.acknowledged.append((_now_ms(), *place))


class Load:
    """Producers, a transactional producer, a group that commits, and topics that come and go."""

    def __init__(self, bootstrap: str, rate: int, *, idle_partitions: int = 0):
        self._bootstrap = bootstrap
        self._rate = rate
        self._stopping = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(task,), daemon=True)
            for task in (self._produce, self._transact, self._commit, self._change_topics)
        ]
        self._began = time.monotonic()
        self._idle = idle_partitions
        self.noted = Noted()
        self.sent = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        topics = [
            NewTopic(RECORDS, PARTITIONS, config={"retention.bytes": "67108864"}),
            NewTopic(PAIRS, 2),
            NewTopic(
                FACTS, 1, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            ),
        ]
        if self._idle:
            topics.append(NewTopic("idle", self._idle))
        for made in admin.create_topics(topics).values():
            made.result(60)
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        if self._failures:
            raise self._failures[0]

    def _guarded(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            self._failures.append(error)
            raise

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        while not self._stopping.is_set():
            due = int((time.monotonic() - self._began) * self._rate)
            for number in range(self.sent, min(due, self.sent + 5000)):
                topic = FACTS if number % 20 == 19 else RECORDS
                partition = 0 if topic == FACTS else number % PARTITIONS
                options: dict[str, Any] = {}
                if number // PARTITIONS % _NOTED_EVERY == 0:
                    sent_ms = _now_ms()
                    options["on_delivery"] = lambda error, message, at=sent_ms: self._done(
                        at, error, message
                    )
                producer.produce(
                    topic, _VALUE, key=b"%d" % (number % 997), partition=partition, **options
                )
                self.sent = number + 1
            producer.poll(0.002)
        producer.flush(30)

    def _done(self, sent_ms: int, error: object, message: Any) -> None:
        assert error is None, error
        self.noted.note(sent_ms, message)

    def _transact(self) -> None:
        """Each transaction writes its number to both partitions, or is aborted."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": "pairs"})
        producer.init_transactions(30)
        number = 0
        while not self._stopping.is_set():
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(PAIRS, b"%d" % number, partition=partition)
            if number % 5 == 4:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
            number += 1
            self._stopping.wait(0.02)

    def _commit(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        # At the log end, where a commit is nearest to what may not be in the snapshot.
        while not self._stopping.is_set():
            ends = []
            for partition in range(PARTITIONS):
                place = TopicPartition(RECORDS, partition)
                _, end = consumer.get_watermark_offsets(place, 30)
                ends.append(TopicPartition(RECORDS, partition, end))
            consumer.commit(offsets=ends, asynchronous=False)
            self._stopping.wait(0.01)
        consumer.close()

    def _change_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        producer = Producer({"bootstrap.servers": self._bootstrap})
        while not self._stopping.is_set():
            for made in admin.create_topics([NewTopic("passing", 2)]).values():
                with suppress(KafkaException):  # A repeated request: there is one already.
                    made.result(30)
            for number in range(20):
                with suppress(KafkaException):  # Deleted by a repeated request.
                    producer.produce("passing", b"%d" % number)
            producer.flush(30)
            self._stopping.wait(0.1)
            for deleted in admin.delete_topics(["passing"]).values():
                with suppress(KafkaException):
                    deleted.result(30)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
