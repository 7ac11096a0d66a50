"""A year of flights analysed from Kafka's files: no broker runs, and no connector is needed.

usage: python -m spark_examples.stored_year [--directory DIR --topic TOPIC] [--rows N]

Without --directory, a broker first writes such a directory, and is stopped. The directory may be
of any Kafka from 3.3 on, also of one that runs.
"""

import argparse
import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples.airline import (
    ExampleFailed,
    as_records,
    console,
    create_topic,
    event_times_ms,
    flights,
    publish,
)
from spark_examples.live_broker import live_broker
from spark_examples.session import kafka_session, run
from wirekafka.spark import Source

SCHEMA = "carrier STRING, time_hour TIMESTAMP, dep_delay DOUBLE"
FLIGHTS = 336_776
"""All flights from New York in 2013."""
DECEMBER = pd.Timestamp("2013-12-01", tz="UTC")


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.directory
        if directory is None:
            directory = Path(scratch, "data")
            year = flights_of_all_months(arguments.rows)
            write(directory, arguments.topic, year)
        spark = kafka_session("stored-year", **{"spark.jars.packages": ""})
        spark.dataSource.register(Source)
        months: pd.DataFrame = by_month(stored(spark, directory, arguments.topic)).toPandas()
        december = stored(
            spark,
            directory,
            arguments.topic,
            startingTimestamp=str(int(DECEMBER.timestamp() * 1000)),
            startingOffsetsByTimestampStrategy="latest",
        ).count()
        spark.stop()
        if arguments.directory is None:
            compare(months, december, year)
    for month in months.itertuples():
        console.print(f"{month.month}  {month.flights:6}  {month.delay:5.1f} min")
    console.print(f"stored_year: {months.flights.sum()} flights, {december} from December on")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", type=Path, default=None, help="a broker's log directory")
    parser.add_argument("--topic", default="flights", help="topic to read (flights)")
    parser.add_argument("--rows", type=int, default=FLIGHTS, help="flights to write, if any")
    return parser.parse_args()


def flights_of_all_months(rows: int) -> pd.DataFrame:
    """So many flights, evenly taken from the year."""
    year = flights(FLIGHTS)
    return year.iloc[:: max(1, len(year) // rows)].head(rows)


def write(directory: Path, topic: str, year: pd.DataFrame) -> None:
    """Have a broker write the flights, and stop it."""
    with live_broker(directory) as bootstrap:
        create_topic(bootstrap, topic, partitions=4)
        publish(bootstrap, topic, as_records(year, "tailnum"), len(year))


def stored(spark: SparkSession, directory: Path, topic: str, **options: str) -> DataFrame:
    """The records of a topic, read from files; of the columns only those that are needed."""
    return (
        spark.read.format("wirekafka")
        .option("subscribe", topic)
        .option("columns", "value,timestamp")
        .options(**options)
        .load(str(directory))
    )


def by_month(records: DataFrame) -> DataFrame:
    flight = f.from_json(f.col("value").cast("string"), SCHEMA)
    return (
        records.select(f.date_format("timestamp", "yyyy-MM").alias("month"), flight.alias("flight"))
        .groupBy("month")
        .agg(f.count("*").alias("flights"), f.avg("flight.dep_delay").alias("delay"))
        .orderBy("month")
    )


def compare(months: pd.DataFrame, december: int, year: pd.DataFrame) -> None:
    """Raise ExampleFailed unless pandas computes the same."""
    times = pd.to_datetime(event_times_ms(year), unit="ms", utc=True)
    counts = times.dt.strftime("%Y-%m").value_counts()
    if dict(zip(months.month, months.flights, strict=True)) != counts.to_dict():
        raise ExampleFailed("Spark and pandas count different flights of the months")
    if december < (times >= DECEMBER).sum():
        raise ExampleFailed("flights of December are missing")


if __name__ == "__main__":
    run("stored_year", main)
