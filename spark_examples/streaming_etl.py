"""Streaming ETL: JSON flights to Parquet exactly once, bad records to a dead-letter topic.

usage: python -m spark_examples.streaming_etl HOST:PORT [--rows 40000] [--output DIRECTORY]

Publishes half of the flights with some broken records among them, runs the three queries until
they have read it, publishes the other half and runs them again: they go on from their checkpoints.
Delays are averaged by airport in windows of three hours, which a watermark closes.
"""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples import airline
from spark_examples.airline import ExampleFailed, Record, console
from spark_examples.session import TIMEOUTS, kafka_session, run

BROKEN = (b"", b"{", b'{"carrier": 7', b"not JSON", b'{"flight": "many"}', b"\xff\xfe")
EVERY = 500
"""A broken record follows every so many good ones."""


def main() -> None:
    parser = airline.parser(__doc__, rows=40_000)
    parser.add_argument("--output", help="directory of files and checkpoints; temporary if not")
    parser.add_argument("--topic", help="read this topic as it is, instead of publishing flights")
    arguments = parser.parse_args()
    bootstrap = arguments.bootstrap
    airline.require(bootstrap, *([arguments.topic] if arguments.topic else []))
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(arguments.output or scratch)
        if arguments.topic:
            etl = Etl(kafka_session("streaming-etl"), bootstrap, arguments.topic, output)
            etl.run_until_read()
            flights, dead, windows = etl.results()
        else:
            source = airline.create_topic(bootstrap, airline.unique("flights"))
            etl = Etl(kafka_session("streaming-etl"), bootstrap, source, output)
            flights, dead, windows = in_two_halves(etl, arguments.rows)
            airline.delete_topics(bootstrap, etl.source, etl.dead_letters)
        etl.spark.stop()
    print(f"streaming_etl: {flights} flights, {dead} dead letters, {windows} windows closed")


def in_two_halves(etl: "Etl", rows: int) -> tuple[int, int, int]:
    broken = 0
    for start in (0, rows // 2):
        records = list(with_broken(airline.flights(rows // 2, start)))
        broken += sum(record.key == b"broken" for record in records)
        airline.publish(etl.bootstrap, etl.source, records, len(records))
        etl.run_until_read()
        console.print(f"Files and topics after this half: {etl.results()}")
    found = etl.results()
    if found[:2] != (rows // 2 * 2, broken):
        raise ExampleFailed(f"{found[:2]} flights and dead letters, not {(rows // 2 * 2, broken)}")
    return found


def with_broken(flights: object) -> Iterator[Record]:
    bad = itertools.cycle(BROKEN)
    for number, record in enumerate(airline.as_records(flights, "origin")):  # type: ignore[arg-type]
        yield record
        if number % EVERY == 0:
            yield Record(b"broken", next(bad), record.time_ms)


class Etl:
    """Three queries on one topic, each with its own checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, source: str, output: Path):
        self.spark = spark
        self.bootstrap = bootstrap
        self.source = source
        self.dead_letters = f"{source}-dead-letters"
        self.output = output

    def run_until_read(self) -> None:
        airline.create_topic(self.bootstrap, self.dead_letters)
        flights = self.parsed().where("flight.carrier IS NOT NULL").select("flight.*")
        bad = self.parsed().where("flight.carrier IS NULL")
        queries = [
            self.to_files(flights, "flights"),
            self.to_files(delays(flights), "delays"),
            self.to_dead_letters(bad),
        ]
        for query in queries:
            query.awaitTermination()

    def parsed(self) -> DataFrame:
        records = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 10_000)
            .options(**TIMEOUTS)
            .load()
        )
        flight = f.from_json(f.col("value").cast("string"), airline.FLIGHT)
        return records.withColumn("flight", flight)

    def to_files(self, rows: DataFrame, name: str):  # type: ignore[no-untyped-def]
        """Exactly once: the sink notes each batch's files, and a repeated batch is dropped."""
        writer = rows.writeStream.format("parquet").option("path", str(self.output / name))
        return self.start(writer, name)

    def to_dead_letters(self, bad: DataFrame):  # type: ignore[no-untyped-def]
        place: list[Column] = [
            header("topic", f.col("topic")),
            header("partition", f.col("partition")),
            header("offset", f.col("offset")),
        ]
        letters = bad.select("key", "value", f.array(*place).alias("headers"))
        writer = (
            letters.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.dead_letters)
            .option("includeHeaders", "true")
        )
        return self.start(writer, "dead-letters")

    def start(self, writer, name: str):  # type: ignore[no-untyped-def]
        checkpoint = str(self.output / "checkpoints" / name)
        return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    def results(self) -> tuple[int, int, int]:
        """How many flights are in files, records in the dead-letter topic, windows closed."""
        letters = (
            self.spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.dead_letters)
            .options(**TIMEOUTS)
            .load()
        )
        flights, delays = (
            self.spark.read.schema(schema).parquet(str(self.output / name)).count()
            for name, schema in (("flights", airline.FLIGHT), ("delays", "flights LONG"))
        )
        if not flights:
            raise ExampleFailed(f"no record of topic {self.source} fits the schema of a flight")
        return flights, letters.count(), delays


def delays(flights: DataFrame) -> DataFrame:
    return (
        flights.withWatermark("time_hour", "6 hours")
        .groupBy(f.window("time_hour", "3 hours"), "origin")
        .agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("departure_delay"))
    )


def header(key: str, value: Column) -> Column:
    return f.struct(f.lit(key).alias("key"), value.cast("string").cast("binary").alias("value"))


if __name__ == "__main__":
    run("streaming_etl", main)
