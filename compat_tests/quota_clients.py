"""Producers of one library that share a client id, until the process is killed.

`python -m compat_tests.quota_clients LIBRARY` reads one line: the bootstrap server, topic, client
id, count of producers and size of values, with tabs. Twice a second it prints the bytes of all
acknowledged values so far. Java's are in `java/QuotaClients.java`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import kafka

QUEUED = 5
"""How many records of a producer wait for their acknowledgement."""
_REQUEST_MS = 300_000


class Counted:
    """The bytes of all values so far."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._lock = threading.Lock()

    def add(self, size_bytes: int) -> None:
        """Count a value."""
        with self._lock:
            self.size_bytes += size_bytes


def by_librdkafka(words: list[str], counted: Counted) -> None:
    """Keep records of one producer in the queue."""
    bootstrap, topic, client_id, _, size = words
    value = bytes(int(size))
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "acks": 1,
            "batch.num.messages": 1,
            "linger.ms": 0,
            "message.timeout.ms": 0,
            "socket.timeout.ms": _REQUEST_MS,
        }
    )
    free = QUEUED

    def delivered(error: Any, message: Any) -> None:
        nonlocal free
        free += 1
        if error is None:
            counted.add(len(value))

    while True:
        while free:
            free -= 1
            producer.produce(topic, value, on_delivery=delivered)
        producer.poll(0.2)


def by_kafka_python(words: list[str], counted: Counted) -> None:
    """Keep records of one producer in the queue."""
    bootstrap, topic, client_id, _, size = words
    value = bytes(int(size))
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        acks=1,
        batch_size=len(value),
        enable_idempotence=False,
        request_timeout_ms=_REQUEST_MS,
        delivery_timeout_ms=2 * _REQUEST_MS,
    )
    queued = threading.Semaphore(QUEUED)

    def delivered(_: object) -> None:
        counted.add(len(value))
        queued.release()

    while True:
        queued.acquire()
        future = producer.send(topic, value)
        future.add_callback(delivered)
        future.add_errback(lambda _: queued.release())


RUN: dict[str, Callable[[list[str], Counted], None]] = {
    "librdkafka": by_librdkafka,
    "kafka-python": by_kafka_python,
}


def main() -> None:
    words = sys.stdin.readline().rstrip("\n").split("\t")
    counted, run = Counted(), RUN[sys.argv[1]]
    for _ in range(int(words[3])):
        threading.Thread(target=run, args=(words, counted), daemon=True).start()
    while True:
        print(counted.size_bytes, flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
