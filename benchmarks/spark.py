"""Spark side by side: a batch read, the sink, and the latency of a stream's micro-batches.

    python -m benchmarks.spark
    python -m benchmarks.spark --full
    python -m benchmarks.spark --against other=127.0.0.1:9099

Both brokers run together and one Spark serves both, by turns, after a turn that does not count.
Figures go to benchmarks/results/spark.json; --full takes 5 million records and five turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import report
from benchmarks.peers import ApacheKafka, Peer, Running, Target, Wirekafka
from spark_examples.session import kafka_session

RECORD_BYTES = 200
PARTITIONS = 2
RATE = 1000
RESULTS = Path(__file__).resolve().parent / "results" / "spark.json"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done."""

    records: int
    turns: int
    stream_s: int


QUICK = Size(records=500_000, turns=3, stream_s=15)
FULL = Size(records=5_000_000, turns=5, stream_s=60)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="5 million records, five turns")
    parser.add_argument("--records", type=int, help="another number of records")
    parser.add_argument("--against", type=Running, metavar="NAME=HOST:PORT",
                        help="a running broker to compare with, instead of Apache Kafka")
    arguments = parser.parse_args()
    size = FULL if arguments.full else QUICK
    if arguments.records:
        size = Size(arguments.records, size.turns, size.stream_s)
    peers: list[Peer] = [Wirekafka(), arguments.against or ApacheKafka()]
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as scratch:
        figures = measure(peers, size, Path(scratch))
    show(figures)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(
        {"machine": report.machine(), "records": size.records, "turns": size.turns,
         "figures": figures}, indent=1) + "\n")
    return 0


def measure(peers: list[Peer], size: Size, scratch: Path) -> dict[str, dict[str, list[float]]]:
    """Case -> peer -> the figure of each turn."""
    cases: dict[str, Callable[[SparkSession, Target, Size], float]] = {
        "batch read, records/s": batch_read,
        "sink write, records/s": sink_write,
        "micro-batch p50, ms": micro_batch,
    }
    found: dict[str, dict[str, list[float]]] = {case: {} for case in cases}
    columns = (TextColumn("{task.description:44}"), BarColumn(20), MofNCompleteColumn(),
               TimeElapsedColumn())
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(*columns, console=Console(stderr=True)))
        task = bar.add_task("", total=len(cases) * len(peers) * (size.turns + 1))
        targets = []
        for number, peer in enumerate(peers):
            directory = scratch / str(number)
            directory.mkdir()
            target = stack.enter_context(peer.start(directory))  # type: ignore[arg-type]
            fill(target, size.records)
            targets.append(target)
        spark = kafka_session("spark-benchmark", **{"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        for case, run in cases.items():
            for turn in range(size.turns + 1):
                for target in targets:
                    bar.update(task, description=f"{case}: {target.name}")
                    figure = run(spark, target, size)
                    if turn:
                        found[case].setdefault(target.name, []).append(round(figure, 1))
                    bar.advance(task)
    return found


def fill(target: Target, records: int) -> None:
    """The topic that the batch reads."""
    create(target, "bench-read")
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 20,
                         "queue.buffering.max.messages": 1_000_000})
    value = b"v" * RECORD_BYTES
    for number in range(records):
        while True:
            try:
                producer.produce("bench-read", value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit(f"spark: {target.name} did not take the records")


def create(target: Target, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    return name


def batch_read(spark: SparkSession, target: Target, size: Size) -> float:
    started = time.perf_counter()
    frame = load(spark.read, target, "bench-read")
    row = frame.agg(f.sum(f.length("value")).alias("bytes")).collect()[0]
    if row["bytes"] != size.records * RECORD_BYTES:
        raise SystemExit(f"spark: {target.name} gave {row['bytes']} bytes")
    return size.records / (time.perf_counter() - started)


def sink_write(spark: SparkSession, target: Target, size: Size) -> float:
    topic = create(target, f"bench-write-{time.monotonic_ns()}")
    frame = spark.range(size.records, numPartitions=PARTITIONS).select(
        f.lit("v" * RECORD_BYTES).alias("value"))
    started = time.perf_counter()
    (
        frame.write.format("kafka").option("kafka.bootstrap.servers", target.bootstrap)
        .option("topic", topic).save()
    )
    return size.records / (time.perf_counter() - started)


def micro_batch(spark: SparkSession, target: Target, size: Size) -> float:
    """Median duration of the micro-batches of a stream that is fed RATE records a second."""
    topic = create(target, f"bench-stream-{time.monotonic_ns()}")
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 5})
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            load(spark.readStream, target, topic)
            .writeStream.format("noop").option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds").start()
        )
        started = time.perf_counter()
        for number in range(size.stream_s * RATE):
            producer.produce(topic, b"v" * RECORD_BYTES)
            ahead_s = number / RATE - (time.perf_counter() - started)
            if ahead_s > 0.01:
                producer.poll(ahead_s)
                time.sleep(max(number / RATE - (time.perf_counter() - started), 0))
        producer.flush(30)
        durations = [progress.durationMs["triggerExecution"]
                     for progress in query.recentProgress if progress.numInputRows]
        query.stop()
    # The first batches compile their plans.
    return float(statistics.median(durations[2:] or durations))


def load(reader: Any, target: Target, topic: str) -> Any:
    return (
        reader.format("kafka").option("kafka.bootstrap.servers", target.bootstrap)
        .option("subscribe", topic).option("startingOffsets", "earliest").load()
    )


def show(figures: dict[str, dict[str, list[float]]]) -> None:
    shown = Table("case", *next(iter(figures.values())), title="medians (least to most)")
    for case, by_peer in figures.items():
        shown.add_row(case, *(
            f"{statistics.median(found):,.0f} ({min(found):,.0f} to {max(found):,.0f})"
            for found in by_peer.values()))
    Console().print(shown)


if __name__ == "__main__":
    sys.exit(main())
