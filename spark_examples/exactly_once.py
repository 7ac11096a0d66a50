"""Kafka to Spark to Kafka, each flight once, although the driver dies between two batches.

usage: python -m spark_examples.exactly_once HOST:PORT [--rows 30000]

Two queries read the same topic of flights and write the late ones to a topic each, one by Spark's
kafka sink and one by `wirekafka`, in micro-batches. The driver dies after a sink has written a
batch, and before Spark has noted it in the checkpoint; the next driver writes this batch again.
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples import airline
from spark_examples.airline import ExampleFailed, console
from spark_examples.session import TIMEOUTS, kafka_session, run
from wirekafka.spark import Source

PARTITIONS = 4
BATCHES = 3
LATE_MINUTES = 15
SINKS = ("kafka", "wirekafka")


def main() -> None:
    arguments = airline.parser(__doc__, rows=30_000).parse_args()
    bootstrap = arguments.bootstrap
    airline.require(bootstrap)
    source = airline.create_topic(bootstrap, airline.unique("flights"), PARTITIONS)
    targets = {
        sink: airline.create_topic(bootstrap, airline.unique(f"late-{sink}"), PARTITIONS)
        for sink in SINKS
    }
    flights = airline.flights(arguments.rows)
    late = int((flights["dep_delay"] > LATE_MINUTES).sum())
    airline.publish(bootstrap, source, airline.as_records(flights, "tailnum"), len(flights))
    spark = kafka_session("exactly-once")
    spark.dataSource.register(Source)
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as scratch:
        for sink, target in targets.items():
            checkpoint = Path(scratch, sink)
            # Spark rounds down the share of each partition: the last batch is no small rest.
            limit = arguments.rows // BATCHES + PARTITIONS
            late_flights = stream(spark, bootstrap, source, limit=limit)
            for life in range(2):
                write(late_flights, sink, bootstrap, target, checkpoint)
                if not life:
                    forget_last_commit(checkpoint)
    counts = {sink: count(spark, bootstrap, target) for sink, target in targets.items()}
    spark.stop()
    airline.delete_topics(bootstrap, source, *targets.values())
    for sink, found in counts.items():
        console.print(f"The sink {sink} wrote {found:,} records for {late:,} late flights.")
    if counts["wirekafka"] != late:
        raise ExampleFailed(f"{late} late flights, but {counts['wirekafka']} were written")
    print(
        f"exactly_once: {late} late flights, each once;"
        f" Spark's own sink repeated {counts['kafka'] - late}"
    )


def stream(spark: SparkSession, bootstrap: str, topic: str, *, limit: int) -> DataFrame:
    """The late flights, from Spark's own source, in micro-batches of about `limit` records."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", limit)
        .options(**TIMEOUTS)
        .load()
    )
    delay = f.get_json_object(f.col("value").cast("string"), "$.dep_delay").cast("double")
    return records.where(delay > LATE_MINUTES).select("key", "value", "timestamp")


def write(flights: DataFrame, sink: str, bootstrap: str, topic: str, checkpoint: Path) -> None:
    """Write all that is available."""
    writer = flights.writeStream.format(sink).option("kafka.bootstrap.servers", bootstrap)
    if sink == "wirekafka":
        writer = writer.option("transactional.id", topic)
    query = (
        writer.option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """Leave the checkpoint as a driver does that dies between the sink's commit and Spark's."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def count(spark: SparkSession, bootstrap: str, topic: str) -> int:
    """The records that a reader of committed transactions sees."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .options(**TIMEOUTS)
        .load()
        .count()
    )


if __name__ == "__main__":
    run("exactly_once", main)
