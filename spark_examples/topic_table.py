"""A topic that is an Iceberg table as well: Avro flights are produced, and Spark queries the table.

usage: python -m spark_examples.topic_table [--rows N] [--bootstrap HOST:PORT --registry URL
                                             --tables DIR]

Without --bootstrap, a broker with a registry and tables runs meanwhile. Confluent's serializer
writes the first half of the flights with one version of their schema, and the others with the next
one, which has a field more: the table gets the column by itself. Spark reads the table's files; no
query reads the topic.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

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
from spark_examples.live_broker import free_address, live_broker
from spark_examples.session import ICEBERG, TABLES, kafka_session, run, topic_tables

OPTIONS = {
    "wirekafka_table_mode": "value_schema_id_prefix",
    "wirekafka_table_target_lag_ms": "1000",
    # The flights are from all hours of a year; each partition of a commit is a file.
    "wirekafka_table_partition_spec": "(day(redpanda.timestamp))",
}
LONGEST_WAIT_S = 120


@dataclass(frozen=True, slots=True)
class Lake:
    """Where the broker, its registry and the directory of its tables are."""

    bootstrap: str
    registry: str
    tables: Path


def main() -> None:
    arguments = parse_arguments()
    table = flights(arguments.rows)
    with lake(arguments) as found, SchemaRegistryClient({"url": found.registry}) as registry:
        topic = create_topic(found.bootstrap, unique("flights"), 4, **OPTIONS)
        publish(found.bootstrap, topic, serialized(registry, topic, table), len(table))
        spark = kafka_session("topic-table", *ICEBERG, **topic_tables(found.tables))
        name = f"{TABLES}.redpanda.`{topic}`"
        await_rows(spark, name, len(table))
        carriers: pd.DataFrame = by_carrier(spark, name).toPandas()
        [partitions] = spark.sql(f"SELECT count(*) FROM {name}.partitions").collect()
        spark.stop()
        delete_topics(found.bootstrap, topic)
    compare(carriers, table)
    for row in carriers.itertuples():
        console.print(f"{row.carrier}  {row.flights:6}  {row.distance:10} miles")
    print(f"topic_table: {len(table)} flights in a table of {partitions[0]} days")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="flights to use (20000)")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that serves tables")
    parser.add_argument("--registry", metavar="URL", help="the schema registry beside it")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="the directory of its tables")
    arguments = parser.parse_args()
    given = [bool(each) for each in (arguments.bootstrap, arguments.registry, arguments.tables)]
    if any(given) != all(given):
        parser.error("--bootstrap, --registry and --tables belong together")
    return arguments


@contextmanager
def lake(arguments: argparse.Namespace) -> Iterator[Lake]:
    """The given broker, registry and tables, or those that exist meanwhile."""
    if arguments.bootstrap:
        yield Lake(arguments.bootstrap, arguments.registry, arguments.tables)
        return
    registry = free_address()
    with tempfile.TemporaryDirectory() as scratch:
        tables = Path(scratch, "tables")
        settings = (
            f"wirekafka.schema.registry.listener={registry}",
            f"wirekafka.tables.url={tables}",
        )
        with live_broker(Path(scratch, "data"), *settings) as bootstrap:
            yield Lake(bootstrap, f"http://{registry}", tables)


def await_rows(spark: SparkSession, name: str, count: int) -> None:
    """Wait until the table has so many rows. Raises ExampleFailed."""
    deadline_s = time.monotonic() + LONGEST_WAIT_S
    found = 0
    while found < count:
        if time.monotonic() > deadline_s:
            raise ExampleFailed(f"the table has {found} of {count} rows")
        time.sleep(0.5)
        try:
            found = spark.table(name).count()
        except AnalysisException:
            # The first commit has still to make the table.
            continue


def by_carrier(spark: SparkSession, name: str) -> DataFrame:
    return spark.sql(f"""
        SELECT carrier,
               count(*) AS flights,
               sum(distance) AS distance,
               count(dep_delay) AS with_delay,
               count(DISTINCT redpanda.partition, redpanda.offset) AS places
        FROM {name}
        GROUP BY carrier
        ORDER BY carrier
    """)


def compare(found: pd.DataFrame, table: pd.DataFrame) -> None:
    """Raises ExampleFailed unless pandas counts the same, each record once."""
    # Flights of the first version have no delay.
    known = table.assign(dep_delay=table["dep_delay"].where(table.index >= len(table) // 2))
    expected = known.groupby("carrier").agg(
        flights=("carrier", "size"),
        distance=("distance", "sum"),
        with_delay=("dep_delay", "count"),
        places=("carrier", "size"),
    )
    if not (found.set_index("carrier").astype(int) == expected.astype(int)).all(axis=None):
        raise ExampleFailed("Spark's figures of the table differ from those of pandas")


if __name__ == "__main__":
    run("topic_table", main)
