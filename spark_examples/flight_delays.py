"""Delays by carrier (a batch) and by hour (a stream), read from and written back to Kafka.

usage: python -m spark_examples.flight_delays HOST:PORT [--flights TOPIC] [--results TOPIC]
"""

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples.session import TIMEOUTS, fail, kafka_session

SCHEMA = "carrier STRING, time_hour TIMESTAMP, dep_delay DOUBLE, arr_delay DOUBLE"


def main() -> None:
    arguments = parse_arguments()
    try:
        spark = kafka_session("flight-delays")
        delays_by_carrier(spark, arguments)
        delays_by_hour(spark, arguments)
        spark.stop()
    except Exception as error:
        fail("flight_delays", error)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("--flights", default="flights", help="topic to read")
    parser.add_argument("--results", default="flight-delays", help="topic to write")
    parser.add_argument("--checkpoint", default=None, help="directory; a new one unless given")
    return parser.parse_args()


def delays_by_carrier(spark: SparkSession, arguments: argparse.Namespace) -> None:
    """Batch: everything in the topic now, one result per carrier."""
    source = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("subscribe", arguments.flights)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .options(**TIMEOUTS)
        .load()
    )
    delays = parsed(source).groupBy("carrier").agg(*totals())
    (
        as_records(delays, f.concat(f.lit("carrier:"), "carrier"))
        .write.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("topic", arguments.results)
        .save()
    )


def delays_by_hour(spark: SparkSession, arguments: argparse.Namespace) -> None:
    """Stream: the same records in several micro-batches; a window's last result is the final."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("subscribe", arguments.flights)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 120_000)
        .options(**TIMEOUTS)
        .load()
    )
    delays = parsed(source).groupBy(f.window("time_hour", "1 hour")).agg(*totals())
    hour = f.date_format("window.start", "yyyy-MM-dd'T'HH:mm'Z'")
    with tempfile.TemporaryDirectory() as scratch:
        query = (
            as_records(delays, f.concat(f.lit("hour:"), hour))
            .writeStream.format("kafka")
            .outputMode("update")
            .option("kafka.bootstrap.servers", arguments.bootstrap)
            .option("topic", arguments.results)
            .option("checkpointLocation", arguments.checkpoint or str(Path(scratch, "checkpoint")))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def parsed(source: DataFrame) -> DataFrame:
    flight = f.from_json(f.col("value").cast("string"), SCHEMA)
    return source.select(flight.alias("flight")).select("flight.*")


def totals() -> list[Column]:
    """Whole numbers, so that the results can be compared exactly: cancelled flights have none."""
    return [
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.sum("dep_delay").cast("long").alias("departure_delay_minutes"),
        f.count("arr_delay").alias("arrived"),
        f.sum("arr_delay").cast("long").alias("arrival_delay_minutes"),
    ]


def as_records(results: DataFrame, key: Column) -> DataFrame:
    columns = ["flights", "departed", "departure_delay_minutes", "arrived", "arrival_delay_minutes"]
    return results.select(key.alias("key"), f.to_json(f.struct(*columns)).alias("value"))


if __name__ == "__main__":
    main()
