"""Spark side by side: a batch read, the sink, and the latency of a stream's micro-batches.

    python -m benchmarks.spark
    python -m benchmarks.spark --full
    python -m benchmarks.spark --full --only read
    python -m benchmarks.spark --against other=127.0.0.1:9099

Both brokers run together and one Spark serves both, by turns, after a turn that does not count.
Figures go to benchmarks/results/spark.json and spark.md, beside those of cases that were not run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
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
from benchmarks.interruption import until_interrupted
from benchmarks.peers import ApacheKafka, Peer, Running, Target, Wirekafka
from spark_examples.session import kafka_session

RECORD_BYTES = 200
PARTITIONS = 2
RATE = 1000
RESULTS = Path(__file__).resolve().parent / "results" / "spark.json"


@dataclass(frozen=True, slots=True)
class Size:
    """The number of records and turns."""

    records: int
    turns: int
    stream_s: int


@dataclass(frozen=True, slots=True)
class Case:
    """What is timed, by turns; `fills` where it reads a topic that was written before."""

    name: str
    run: Callable[[SparkSession, Target, Size], float]
    fills: bool = False


QUICK = Size(records=500_000, turns=3, stream_s=10)
FULL = Size(records=5_000_000, turns=3, stream_s=15)

Figures = dict[str, list[float]]
"""Peer -> the figure of each turn."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="5 million records")
    parser.add_argument("--records", type=int, help="another number of records")
    parser.add_argument("--turns", type=int, help="another number of turns")
    parser.add_argument("--only", choices=CASES, help="one case")
    parser.add_argument(
        "--against",
        type=Running,
        metavar="NAME=HOST:PORT",
        help="a running broker to compare with, instead of Apache Kafka",
    )
    arguments = parser.parse_args()
    size = FULL if arguments.full else QUICK
    size = replace(
        size, records=arguments.records or size.records, turns=arguments.turns or size.turns
    )
    peers: list[Peer] = [Wirekafka(), arguments.against or ApacheKafka()]
    cases = [CASES[arguments.only]] if arguments.only else list(CASES.values())
    return until_interrupted(lambda: _compare(cases, peers, size))


def _compare(cases: Sequence[Case], peers: Sequence[Peer], size: Size) -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as scratch:
        figures = measure(cases, peers, size, Path(scratch))
    show(figures)
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    print(f"{len(cases)} cases in {minutes} min {seconds} s: {RESULTS.with_suffix('.md')}")
    return 0


def save(case: str, found: Figures, size: Size) -> None:
    """Write the results: what was measured, and of other cases what is there."""
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    load = {"load at the end": " ".join(f"{each:.1f}" for each in os.getloadavg())}
    results[case] = {"machine": report.machine() | load, **asdict(size), "figures": found}
    results = {case.name: results[case.name] for case in CASES.values() if case.name in results}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    RESULTS.with_suffix(".md").write_text("\n".join(markdown(results)) + "\n")


def markdown(results: dict[str, Any]) -> Iterator[str]:
    peers = list(next(iter(results.values()))["figures"])
    yield "# Spark with either broker, in turn"
    yield ""
    yield f"`python -m benchmarks.spark`: medians, and least to most. Records of {RECORD_BYTES} "
    yield f"bytes, {PARTITIONS} partitions, Spark and both brokers on one machine."
    yield ""
    yield f"| Case | {' | '.join(peers)} | {peers[0]} to {peers[1]} |"
    yield f"|---|{'---|' * len(peers)}---|"
    for name, case in results.items():
        found = case["figures"]
        times = statistics.median(found[peers[0]]) / statistics.median(found[peers[1]])
        amount = (
            f"{RATE:,} records/s for {case['stream_s']} s"
            if name.startswith("micro")
            else f"{case['records']:,} records"
        )
        cells = " | ".join(summary(found[peer]) for peer in peers)
        yield f"| {name}, {amount}, {case['turns']} turns | {cells} | {times:.2f} |"
    yield ""
    for name, case in results.items():
        machine = ", ".join(f"{key} {value}" for key, value in case["machine"].items())
        yield f"- {name}: {machine}"


def summary(found: Sequence[float]) -> str:
    return f"{statistics.median(found):,.0f} ({min(found):,.0f} to {max(found):,.0f})"


def measure(
    cases: Sequence[Case], peers: Sequence[Peer], size: Size, scratch: Path
) -> dict[str, Figures]:
    """Case -> peer -> the figure of each turn; saved as each case is done."""
    found: dict[str, Figures] = {case.name: {} for case in cases}
    columns = (
        TextColumn("{task.description:44}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(*columns, console=Console(stderr=True)))
        task = bar.add_task("", total=len(cases) * len(peers) * (size.turns + 1))
        targets = []
        for number, peer in enumerate(peers):
            directory = scratch / str(number)
            directory.mkdir()
            target = stack.enter_context(peer.start(directory))  # type: ignore[arg-type]
            if any(case.fills for case in cases):
                bar.update(task, description=f"filling {target.name}")
                fill(target, size.records)
            targets.append(target)
        spark = kafka_session("spark-benchmark", **{"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        for case in cases:
            for turn in range(size.turns + 1):
                # By turns, since the second broker benefits from caches filled by the first.
                for target in targets if turn % 2 else reversed(targets):
                    bar.update(task, description=f"{case.name}: {target.name}")
                    figure = case.run(spark, target, size)
                    if turn:
                        found[case.name].setdefault(target.name, []).append(round(figure, 1))
                    bar.advance(task)
            save(case.name, found[case.name], size)
    return found


def fill(target: Target, records: int) -> None:
    """The topic that the batch reads."""
    create(target, "bench-read")
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "linger.ms": 20,
            "log_level": 0,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
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
    admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})
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
        f.lit("v" * RECORD_BYTES).alias("value")
    )
    started = time.perf_counter()
    (
        frame.write.format("kafka")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .option("topic", topic)
        .save()
    )
    return size.records / (time.perf_counter() - started)


def micro_batch(spark: SparkSession, target: Target, size: Size) -> float:
    """Median duration of the micro-batches of a stream that is fed RATE records a second."""
    topic = create(target, f"bench-stream-{time.monotonic_ns()}")
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 5, "log_level": 0})
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            load(spark.readStream, target, topic)
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        started = time.perf_counter()
        for number in range(size.stream_s * RATE):
            producer.produce(topic, b"v" * RECORD_BYTES)
            ahead_s = number / RATE - (time.perf_counter() - started)
            if ahead_s > 0.01:
                producer.poll(ahead_s)
                time.sleep(max(number / RATE - (time.perf_counter() - started), 0))
        producer.flush(30)
        durations = [
            progress.durationMs["triggerExecution"]
            for progress in query.recentProgress
            if progress.numInputRows
        ]
        query.stop()
    # The first batches compile their plans.
    return float(statistics.median(durations[2:] or durations))


def load(reader: Any, target: Target, topic: str) -> Any:
    return (
        reader.format("kafka")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def show(figures: dict[str, Figures]) -> None:
    shown = Table("case", *next(iter(figures.values())), title="medians (least to most)")
    for case, by_peer in figures.items():
        shown.add_row(case, *map(summary, by_peer.values()))
    Console().print(shown)


CASES = {
    "read": Case("batch read, records/s", batch_read, fills=True),
    "write": Case("sink write, records/s", sink_write),
    "stream": Case("micro-batch p50, ms", micro_batch),
}


if __name__ == "__main__":
    sys.exit(main())
