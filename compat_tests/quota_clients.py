"""Clients of one library that share a client id, until the process is killed.

`python -m compat_tests.quota_clients LIBRARY` reads one line: what they do, the bootstrap server,
topic, client id, count of clients and an amount, with tabs. Twice a second it prints how much they
have done so far: the bytes of all values that were acknowledged (`produce`, the amount is the size
of a value, and `pace`, a value of each client per that many ms) or received (`consume`, that of a
fetch), the topics created and deleted (`change`), or the clients that got a response (`connect`, a
new client per that many ms). Java's are in `java/QuotaClients.java`.
"""

from __future__ import annotations

import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient, NewTopic

QUEUED = 5
"""How many records of a producer wait for their acknowledgement."""
PACED_BYTES = 4_000
_REQUEST_MS = 300_000
_AGAIN_S = 0.1


class Work(NamedTuple):
    """What each client needs."""

    bootstrap: str
    topic: str
    client_id: str
    amount: int


class Counted:
    """How much all clients have done so far."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self, amount: int) -> None:
        """Count what one of them has done."""
        with self._lock:
            self.total += amount


class _WithLibrdkafka:
    def __init__(self, work: Work):
        self._work = work
        self._settings: dict[str, Any] = {
            "bootstrap.servers": work.bootstrap,
            "client.id": work.client_id,
            "socket.timeout.ms": _REQUEST_MS,
            "log_level": 0,
        }

    def produce(self, counted: Counted) -> None:
        """Keep records of one producer in the queue."""
        self._produce(counted, bytes(self._work.amount), 0)

    def pace(self, counted: Counted) -> None:
        """Produce in a steady rhythm."""
        self._produce(counted, bytes(PACED_BYTES), self._work.amount / 1000)

    def _produce(self, counted: Counted, value: bytes, interval_s: float) -> None:
        producer = confluent_kafka.Producer(
            {
                **self._settings,
                "acks": 1,
                "batch.num.messages": 1,
                "linger.ms": 0,
                "message.timeout.ms": 0,
            }
        )
        free = QUEUED

        def delivered(error: Any, message: Any) -> None:
            nonlocal free
            free += 1
            if error is None:
                counted.add(len(value))

        for _ in _rhythm(interval_s):
            producer.poll(0)
            while not free:
                producer.poll(0.2)
            free -= 1
            producer.produce(self._work.topic, value, on_delivery=delivered)

    def consume(self, counted: Counted) -> None:
        """Read the topic without pause."""
        consumer = confluent_kafka.Consumer(
            {
                **self._settings,
                "group.id": "unused",
                "fetch.message.max.bytes": self._work.amount,
                "queued.max.messages.kbytes": 1024,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(self._work.topic, 0, 0)])
        while True:
            for message in consumer.consume(100, 0.2):
                if message.error() is None:
                    counted.add(len(message.value()))

    def change(self, counted: Counted) -> None:
        """Create a topic and delete it, again and again."""
        admin = AdminClient(self._settings)
        limit_s = _REQUEST_MS / 1000

        def create(name: str) -> None:
            admin.create_topics([NewTopic(name, 1, 1)], request_timeout=limit_s)[name].result()

        def delete(name: str) -> None:
            admin.delete_topics([name], request_timeout=limit_s)[name].result()

        _change(self._work, counted, create, delete)

    def connect(self, counted: Counted) -> None:
        """Connect, get a response, and disconnect, in a steady rhythm."""
        for _ in _rhythm(self._work.amount / 1000):
            AdminClient(self._settings).list_topics(timeout=60)
            counted.add(1)


class _WithKafkaPython:
    def __init__(self, work: Work):
        self._work = work
        self._settings: dict[str, Any] = {
            "bootstrap_servers": work.bootstrap,
            "client_id": work.client_id,
            "request_timeout_ms": _REQUEST_MS,
        }

    def produce(self, counted: Counted) -> None:
        """Keep records of one producer in the queue."""
        self._produce(counted, bytes(self._work.amount), 0)

    def pace(self, counted: Counted) -> None:
        """Produce in a steady rhythm."""
        self._produce(counted, bytes(PACED_BYTES), self._work.amount / 1000)

    def _produce(self, counted: Counted, value: bytes, interval_s: float) -> None:
        producer = kafka.KafkaProducer(
            **self._settings,
            acks=1,
            batch_size=len(value),
            enable_idempotence=False,
            delivery_timeout_ms=2 * _REQUEST_MS,
        )
        queued = threading.Semaphore(QUEUED)

        def delivered(_: object) -> None:
            counted.add(len(value))
            queued.release()

        for _ in _rhythm(interval_s):
            queued.acquire()
            future = producer.send(self._work.topic, value)
            future.add_callback(delivered)
            future.add_errback(lambda _: queued.release())

    def consume(self, counted: Counted) -> None:
        """Read the topic without pause."""
        consumer = kafka.KafkaConsumer(
            **self._settings,
            connections_max_idle_ms=2 * _REQUEST_MS,
            max_partition_fetch_bytes=self._work.amount,
            fetch_max_bytes=self._work.amount,
        )
        partition = kafka.TopicPartition(self._work.topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        for record in consumer:
            counted.add(len(record.value))

    def change(self, counted: Counted) -> None:
        """Create a topic and delete it, again and again."""
        admin = kafka.KafkaAdminClient(**self._settings)

        def create(name: str) -> None:
            admin.create_topics({name: {"num_partitions": 1}})

        def delete(name: str) -> None:
            admin.delete_topics([name])

        _change(self._work, counted, create, delete)

    def connect(self, counted: Counted) -> None:
        """Connect, get a response, and disconnect, in a steady rhythm."""
        for _ in _rhythm(self._work.amount / 1000):
            try:
                admin = kafka.KafkaAdminClient(**self._settings)
            except kafka.errors.KafkaError:
                continue
            admin.close()
            counted.add(1)


def _rhythm(interval_s: float) -> Iterator[None]:
    """Yields once in every interval, later if the time between took longer."""
    due_s = time.monotonic() + random.uniform(0, interval_s)
    while True:
        if (wait_s := due_s - time.monotonic()) > 0:
            time.sleep(wait_s)
        due_s = max(due_s, time.monotonic() - interval_s) + interval_s
        yield


def _change(work: Work, counted: Counted, *changes: Callable[[str], None]) -> None:
    """Make these changes of a topic, each as often as it takes, then those of the next one."""
    while True:
        name = f"{work.topic}-{secrets.token_hex(6)}"
        for change in changes:
            while not _is_allowed(change, name):
                time.sleep(_AGAIN_S)
            counted.add(1)


def _is_allowed(change: Callable[[str], None], name: str) -> bool:
    try:
        change(name)
    except (kafka.errors.ThrottlingQuotaExceededError, kafka.errors.NodeNotReadyError):
        return False  # With the latter nothing was sent: the client waits for the throttle time.
    except confluent_kafka.KafkaException as failure:
        if failure.args[0].code() != confluent_kafka.KafkaError.THROTTLING_QUOTA_EXCEEDED:
            raise
        return False
    return True


CLIENTS = {"librdkafka": _WithLibrdkafka, "kafka-python": _WithKafkaPython}


def main() -> None:
    what, bootstrap, topic, client_id, count, size = sys.stdin.readline().rstrip("\n").split("\t")
    work, counted = Work(bootstrap, topic, client_id, int(size)), Counted()
    for _ in range(int(count)):
        run = getattr(CLIENTS[sys.argv[1]](work), what)
        threading.Thread(target=run, args=(counted,), daemon=True).start()
    while True:
        print(counted.total, flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
