"""Full scans by Spark: its own kafka format beside `wirekafka`, over the wire and from files.

    python -m benchmarks.spark_scan
    python -m benchmarks.spark_scan --records 2000000 --turns 5 --only "1000 B, zstd"

All three read the same topic of one Apache Kafka, in one Spark on two cores (local[2]), by turns,
after a turn that does not count. CPU is of Spark, with its Python processes, and of the broker.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from benchmarks.peers import ApacheKafka, Target
from spark_examples.session import kafka_session
from tests.eventually import eventually
from wirekafka.reader import Log
from wirekafka.spark import Source

PARTITIONS = 2
FORMATS = ("kafka", "wirekafka, wire", "wirekafka, files")


@dataclass(frozen=True, slots=True)
class Case:
    """The size of values, and how producers compress them."""

    value_bytes: int
    codec: str

    @property
    def name(self) -> str:
        return f"{self.value_bytes} B, {self.codec}"


@dataclass(frozen=True, slots=True)
class Scan:
    """The time of a scan, and the CPU that it took in Spark and in the broker."""

    seconds: float
    spark_cpu_s: float
    broker_cpu_s: float


CASES = [Case(size, codec) for size in (200, 1_000) for codec in ("none", "zstd")]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=[case.name for case in CASES])
    arguments = parser.parse_args()
    os.environ["SPARK_MASTER"] = "local[2]"
    cases = [case for case in CASES if arguments.only in (None, case.name)]
    with tempfile.TemporaryDirectory(prefix="spark-scan-") as scratch, ExitStack() as stack:
        broker = stack.enter_context(ApacheKafka().start(Path(scratch)))
        spark = kafka_session("spark-scan", **{"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        spark.dataSource.register(Source)
        for number, case in enumerate(cases):
            topic = f"scan-{number}"
            fill(broker, topic, case, arguments.records)
            scans = measure(spark, broker, topic, arguments.records, arguments.turns)
            for line in lines(case, scans, arguments.records):
                print(line, flush=True)
    print(f"load at the end: {' '.join(f'{each:.1f}' for each in os.getloadavg())}")
    return 0


def fill(broker: Target, topic: str, case: Case, records: int) -> None:
    """Write the topic, and wait until the broker's checkpoint of high watermarks has it all."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": case.codec,
            "linger.ms": 20,
            "log_level": 0,
            "queue.buffering.max.messages": 500_000,
        }
    )
    # Values that are half random: zstd makes them about half as large.
    source = random.Random(1)
    half = case.value_bytes // 2
    values = [source.randbytes(half) + bytes(case.value_bytes - half) for _ in range(1_000)]
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % 1_000], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0, "the broker did not take the records"

    def is_checkpointed() -> bool:
        with Log.open(broker.data) as log:
            ends = [log.offsets(topic, each).end_offset for each in range(PARTITIONS)]
        return sum(ends) == records

    eventually(is_checkpointed, timeout_s=60)


def measure(
    spark: SparkSession, broker: Target, topic: str, records: int, turns: int
) -> dict[str, list[Scan]]:
    """The scans of each format, by turns."""
    found: dict[str, list[Scan]] = {each: [] for each in FORMATS}
    for turn in range(turns + 1):
        for form in FORMATS if turn % 2 else reversed(FORMATS):
            frame = load(spark, broker, topic, form)
            scan = timed(broker, partial(read, frame))
            if turn:
                found[form].append(scan)
    for form in FORMATS:
        assert load(spark, broker, topic, form).count() == records, form
    return found


def load(spark: SparkSession, broker: Target, topic: str, form: str) -> DataFrame:
    reader = spark.read.format(form.partition(",")[0]).option("subscribe", topic)
    if form == "wirekafka, files":
        return reader.load(str(broker.data))
    return (
        reader.option("kafka.bootstrap.servers", broker.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def read(frame: DataFrame) -> None:
    """Read all columns of all rows, and drop them."""
    frame.write.format("noop").mode("overwrite").save()


def timed(broker: Target, action: Callable[[], None]) -> Scan:
    """Do something with Spark: the time that it takes, and the CPU of Spark and of the broker."""
    assert broker.process is not None
    spark_before, broker_before = cpu_s(psutil.Process()), cpu_s(broker.process)
    started = time.perf_counter()
    action()
    return Scan(
        time.perf_counter() - started,
        cpu_s(psutil.Process()) - spark_before,
        cpu_s(broker.process) - broker_before,
    )


def cpu_s(process: psutil.Process) -> float:
    """The CPU of a process and its children, but for the broker's where both are children."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            is_broker = "kafka.Kafka" in each.cmdline()
            if each is process or not is_broker:
                times = each.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        except psutil.NoSuchProcess:
            continue
    return total


def lines(case: Case, scans: dict[str, list[Scan]], records: int) -> Iterator[str]:
    """The medians of a case: records a second, and CPU for a million records."""
    base = statistics.median(scan.seconds for scan in scans["kafka"])
    millions = records / 1e6
    for form, found in scans.items():
        seconds = statistics.median(scan.seconds for scan in found)
        spark_cpu_s = statistics.median(scan.spark_cpu_s for scan in found) / millions
        broker_cpu_s = statistics.median(scan.broker_cpu_s for scan in found) / millions
        yield (
            f"{case.name:12} {form:25} {records / seconds:11,.0f} records/s"
            f"  {base / seconds:5.2f}x  CPU of a million records: Spark {spark_cpu_s:6.2f} s,"
            f" broker {broker_cpu_s:5.2f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
