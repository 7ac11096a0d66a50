"""Writing by Spark: its own kafka sink beside `wirekafka`, exactly once and not.

    python -m benchmarks.spark_sink
    python -m benchmarks.spark_sink --records 2000000 --turns 5 --only "200 B, zstd"

All write the same Parquet files as a stream of few micro-batches to one Apache Kafka, in one Spark
on two cores (local[2]), by turns, after a turn that does not count. Spark's own sink repeats
records after failures. CPU is of Spark, with its Python processes, and of the broker.

    python -m benchmarks.spark_sink --visible

How late a reader with read_committed sees a slow batch: how long before the end of the batch its
transaction began, by the offsets of the topic while a batch is computed that takes ten seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.peers import ApacheKafka, Target
from benchmarks.spark_scan import Case, Scan, lines, timed
from spark_examples.session import kafka_session
from wirekafka.spark import Source

PARTITIONS = 4
FILES = 10
FORMS = ("kafka", "wirekafka", "wirekafka, at least once")
CASES = [Case(200, codec) for codec in ("none", "zstd")]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--batches", type=int, default=5, choices=(1, 2, 5, 10))
    parser.add_argument("--only", choices=[case.name for case in CASES])
    parser.add_argument("--visible", action="store_true")
    arguments = parser.parse_args()
    os.environ["SPARK_MASTER"] = "local[2]"
    cases = [case for case in CASES if arguments.only in (None, case.name)]
    with tempfile.TemporaryDirectory(prefix="spark-sink-") as scratch, ExitStack() as stack:
        broker = stack.enter_context(ApacheKafka().start(Path(scratch)))
        spark = kafka_session("spark-sink", **{"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        spark.dataSource.register(Source)
        if arguments.visible:
            print(visibility(spark, broker, Path(scratch)), flush=True)
            cases = []
        for case in cases:
            fill(Path(scratch, case.name), case, arguments.records)
            rows = (
                spark.readStream.schema("key STRING, value BINARY")
                .option("maxFilesPerTrigger", FILES // arguments.batches)
                .parquet(str(Path(scratch, case.name)))
            )
            found = measure(
                rows, broker, Path(scratch), case, turns=arguments.turns, records=arguments.records
            )
            for line in lines(case, found, arguments.records):
                print(line, flush=True)
    print(f"load at the end: {' '.join(f'{each:.1f}' for each in os.getloadavg())}")
    return 0


def fill(directory: Path, case: Case, records: int) -> None:
    """Write the files; values are half random, and so zstd makes them about half as large."""
    directory.mkdir()
    source = np.random.default_rng(1)
    count = records // FILES
    for number in range(FILES):
        octets = np.zeros((count, case.value_bytes), np.uint8)
        half = case.value_bytes // 2
        octets[:, :half] = source.integers(0, 256, (count, half), np.uint8)
        values = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(case.value_bytes), count, [None, pa.py_buffer(octets.tobytes())]
        )
        keys = pa.array(np.arange(number * count, (number + 1) * count)).cast(pa.string())
        table = pa.table({"key": keys, "value": values.cast(pa.binary())})
        pq.write_table(table, directory / f"{number}.parquet", compression="none")


def measure(
    rows: DataFrame, broker: Target, scratch: Path, case: Case, *, turns: int, records: int
) -> dict[str, list[Scan]]:
    """The runs of each sink, by turns."""
    found: dict[str, list[Scan]] = {form: [] for form in FORMS}
    for turn in range(turns + 1):
        for form in FORMS if turn % 2 else reversed(FORMS):
            topic = f"sink-{case.codec}-{turn}-{FORMS.index(form)}"
            create(broker, topic)
            checkpoint = scratch / "checkpoints" / topic
            run = timed(broker, partial(write, rows, broker, form, topic, checkpoint, case.codec))
            assert count_of(broker, topic) >= records, form
            delete(broker, topic)
            if turn:
                found[form].append(run)
    return found


def write(
    rows: DataFrame, broker: Target, form: str, topic: str, checkpoint: Path, codec: str
) -> None:
    """Run the stream until all that is available is written."""
    writer = rows.writeStream.format(form.partition(",")[0])
    match form:
        case "wirekafka":
            writer = writer.option("transactional.id", topic)
        case "wirekafka, at least once":
            writer = writer.option("exactlyOnce", "false")
    query = (
        writer.option("kafka.bootstrap.servers", broker.bootstrap)
        .option("kafka.compression.type", codec)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def create(broker: Target, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def delete(broker: Target, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)


def count_of(
    broker: Target, topic: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> int:
    """The offsets of a topic that readers see, without and with the ends of transactions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    wanted = {TopicPartition(topic, each): OffsetSpec.latest() for each in range(PARTITIONS)}
    listed = admin.list_offsets(wanted, isolation_level=isolation)
    return sum(each.result(30).offset for each in listed.values())


def visibility(spark: SparkSession, broker: Target, scratch: Path) -> str:
    """Write a batch whose computation takes ten seconds, and watch what readers see meanwhile."""
    create(broker, "visible")

    rows = spark.range(0, 2_000, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    rows.write.parquet(str(scratch / "slow"))
    stream = spark.readStream.schema("value STRING").parquet(str(scratch / "slow"))

    @f.udf("string")
    def delayed(value: str) -> str:
        time.sleep(0.01)
        return value * 50

    writer = stream.select(delayed("value").alias("value")).writeStream.format("wirekafka")
    query = (
        writer.option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", "visible")
        .option("transactional.id", "visible")
        .option("checkpointLocation", str(scratch / "checkpoints" / "visible"))
        .trigger(availableNow=True)
        .start()
    )
    started = time.perf_counter()
    first: dict[IsolationLevel, float] = {}
    while query.isActive:
        for isolation in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
            if isolation not in first and count_of(broker, "visible", isolation):
                first[isolation] = time.perf_counter() - started
    ended = time.perf_counter() - started
    uncommitted = first.get(IsolationLevel.READ_UNCOMMITTED, ended)
    committed = first.get(IsolationLevel.READ_COMMITTED, ended)
    return (
        f"batch of {ended:.1f} s: the first record is in the log after {uncommitted:.2f} s, and"
        f" visible with read_committed {committed - uncommitted:.3f} s later"
    )


if __name__ == "__main__":
    sys.exit(main())
