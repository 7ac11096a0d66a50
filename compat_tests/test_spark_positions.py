"""The position of a Spark query, which commits no offsets, in the broker's metrics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from compat_tests.conftest import RunningBroker
from compat_tests.spark_session import progress
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from tests.ports import free_ports

TOPIC, PARTITIONS = "flights", 2
PER_S = 200
BATCHES = 6
WITHIN_S = 1.0


def positions(port: int) -> dict[int, int]:
    """The next offset of the furthest reader of each partition."""
    found = dict.fromkeys(range(PARTITIONS), 0)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        for family in text_string_to_metric_families(answer.read().decode()):
            for sample in family.samples if family.name == "wirekafka_reader_position" else ():
                labels = sample.labels
                if labels["topic"] == TOPIC and labels["client"].startswith("spark-kafka-source"):
                    index = int(labels["partition"])
                    found[index] = max(found[index], int(sample.value))
    return found


@contextmanager
def producing(bootstrap: str) -> Iterator[list[int]]:
    """Produce to all partitions until the end; yields how many records each has got."""
    stop, counts = threading.Event(), [0] * PARTITIONS
    producer = Producer({"bootstrap.servers": bootstrap})

    def run() -> None:
        while not stop.wait(PARTITIONS / PER_S):
            for index in range(PARTITIONS):
                producer.produce(TOPIC, b"a record", partition=index)
                counts[index] += 1
            producer.poll(0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        stop.set()
        thread.join(30)
        assert producer.flush(30) == 0


def ends_of(batch: dict[str, Any]) -> dict[int, int]:
    """Where the query says that a batch has ended, by partition."""
    [source] = batch["sources"]
    offsets = source["endOffset"]
    named = json.loads(offsets) if isinstance(offsets, str) else offsets
    return {int(index): offset for index, offset in named[TOPIC].items()}


def test_the_position_of_a_query_follows_its_own_end_offsets(
    spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    if broker.is_reference:
        pytest.skip("metrics that only wirekafka has")
    [port] = free_ports(1)
    with live_broker(tmp_path / "data", f"wirekafka.metrics.listener={port}") as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(30)
        query = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        try:
            with producing(bootstrap) as counts:
                reached_s = _follow(query, port)
            assert max(reached_s) < WITHIN_S
            # Nothing is produced any more: both come to the end, and stay there.
            wanted = dict(enumerate(counts))
            eventually(lambda: ends_of(progress(query)[-1]) == wanted)
            eventually(lambda: positions(port) == wanted, WITHIN_S)
        finally:
            query.stop()


def _follow(query: Any, port: int) -> list[float]:
    """How long each batch's end was ahead of the position that the broker reports."""
    seen: set[int] = set()
    reached_s: list[float] = []

    def new_batches() -> list[dict[str, Any]]:
        return [
            each for each in progress(query) if each["numInputRows"] and each["batchId"] not in seen
        ]

    while len(reached_s) < BATCHES:
        for batch in eventually(new_batches, 60):
            seen.add(batch["batchId"])
            ends, reported_s = ends_of(batch), time.monotonic()

            def has_passed(ends: dict[int, int] = ends) -> bool:
                known = positions(port)
                return all(known[index] >= end for index, end in ends.items())

            eventually(has_passed, 10)
            reached_s.append(time.monotonic() - reported_s)
    return reached_s
