"""Reading partitions to their ends with librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, TopicPartition


def read_to_end(
    bootstrap: str,
    places: list[TopicPartition],
    isolation: str = "read_committed",
    timeout_s: float = 60,
) -> Iterator[Message]:
    """Every record from the given offsets on, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign(places)
    ended: set[tuple[str, int]] = set()
    deadline = time.monotonic() + timeout_s
    try:
        while len(ended) < len(places):
            if time.monotonic() > deadline:
                missing = {(place.topic, place.partition) for place in places} - ended
                raise AssertionError(f"no end of {sorted(missing)} within {timeout_s} s")
            # A call waits until it has the maximum number of messages, so its timeout is short.
            for message in consumer.consume(5000, 0.05):
                if message.error():
                    ended.add((message.topic(), message.partition()))
                else:
                    yield message
    finally:
        consumer.close()
