"""Avro records of two versions of a schema, read by `from_avro` with the schemas of a registry.

usage: python -m spark_examples.registered_schemas [--rows N] [--bootstrap HOST:PORT --registry URL]

Without --bootstrap, a broker with a registry runs in this process. Confluent's serializer writes
the first half of the flights with one version of their schema, and the others with the next one,
which has a field more. Spark reads the id before each value, fetches the schema of each id once,
and decodes all records as the latest version.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

import wirekafka
from spark_examples.airline import (
    ExampleFailed,
    console,
    create_topic,
    delete_topics,
    flights,
    publish,
    unique,
)
from spark_examples.avro_flights import serialized
from spark_examples.session import AVRO, TIMEOUTS, kafka_session, run

PREFIX_BYTES = 5
"""A byte 0 and the schema's id of four bytes come before each value."""


def main() -> None:
    arguments = parse_arguments()
    table = flights(arguments.rows)
    with cluster(arguments) as (bootstrap, url), SchemaRegistryClient({"url": url}) as registry:
        topic = create_topic(bootstrap, unique("flights"))
        publish(bootstrap, topic, serialized(registry, topic, table), len(table))
        spark = kafka_session("registered-schemas", AVRO)
        found: pd.DataFrame = by_carrier(decoded(spark, bootstrap, topic, registry)).toPandas()
        versions = registry.get_versions(f"{topic}-value")
        spark.stop()
        delete_topics(bootstrap, topic)
    compare(found, table)
    for row in found.itertuples():
        console.print(f"{row.carrier}  {row.flights:6}  {row.distance:10.0f} miles")
    print(f"registered_schemas: {len(table)} flights, {len(versions)} versions of their schema")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="flights to use (20000)")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a Kafka broker")
    parser.add_argument("--registry", metavar="URL", help="the schema registry beside it")
    arguments = parser.parse_args()
    if bool(arguments.bootstrap) != bool(arguments.registry):
        parser.error("--bootstrap and --registry belong together")
    return arguments


@contextmanager
def cluster(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The addresses of the given broker and registry, or of those that run meanwhile."""
    if arguments.bootstrap:
        yield arguments.bootstrap, arguments.registry
        return
    with wirekafka.Broker(schema_registry=True) as broker:
        yield broker.bootstrap_servers, broker.schema_registry_url


def decoded(
    spark: SparkSession, bootstrap: str, topic: str, registry: SchemaRegistryClient
) -> DataFrame:
    """The records of a topic as the latest version of their schema."""
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .options(**TIMEOUTS)
        .load()
        .withColumn("id", schema_id(f.col("value")))
    )
    ids = [row.id for row in records.select("id").distinct().collect()]
    latest = registry.get_latest_version(f"{topic}-value").schema.schema_str
    payload = f.expr(f"substring(value, {PREFIX_BYTES + 1})")
    flight = f.coalesce(
        *(
            # The schema by which the value was written, and the one by which it is read.
            f.when(
                f.col("id") == id,
                from_avro(payload, registry.get_schema(id).schema_str, {"avroSchema": latest}),
            )
            for id in ids
        )
    )
    return records.select(flight.alias("flight")).select("flight.*")


def schema_id(value: Column) -> Column:
    """The id before a value, a number of four bytes."""
    prefix = f.substring(value, 2, PREFIX_BYTES - 1)
    return f.conv(f.hex(prefix), 16, 10).cast("int")


def by_carrier(flights_read: DataFrame) -> DataFrame:
    return (
        flights_read.groupBy("carrier")
        .agg(
            f.count("*").alias("flights"),
            f.sum("distance").alias("distance"),
            f.count("dep_delay").alias("with_delay"),
        )
        .orderBy("carrier")
    )


def compare(found: pd.DataFrame, table: pd.DataFrame) -> None:
    """Raises ExampleFailed unless pandas counts the same."""
    # Flights of the first version have no delay.
    known = table.assign(dep_delay=table["dep_delay"].where(table.index >= len(table) // 2))
    expected = known.groupby("carrier").agg(
        flights=("carrier", "size"), distance=("distance", "sum"), with_delay=("dep_delay", "count")
    )
    found = found.set_index("carrier")
    if not (found.astype(float) == expected.astype(float)).all(axis=None):
        raise ExampleFailed("Spark's figures differ from those of pandas")


if __name__ == "__main__":
    run("registered_schemas", main)
