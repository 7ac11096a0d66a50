"""The Iceberg table of a topic, written from Kafka's files by many executors, and then continued.

usage: python -m spark_examples.table_backfill [--rows N] [--directory DIR --topic TOPIC
       --tables DIR [--tier URL] [--registry URL] [--mode MODE] [--partition-spec SPEC]]

Without --directory, a broker first writes such a directory. The executors translate parts of the
log with the code of a broker's worker, and the driver commits their files in the log's order, with
the marks that a worker writes: a broker that is started with `--tables` goes on from there. The
directory, the tier and the tables have to be reached under the same names by all executors.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.schema_registry import SchemaRegistryClient

from spark_examples.airline import ExampleFailed, connect, create_topic, flights, publish
from spark_examples.avro_flights import SECOND, serialized
from spark_examples.live_broker import free_address, live_broker
from spark_examples.session import kafka_session, run
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.config.table_mode import TableMode
from wirekafka.reader import Split
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.translation.backfill import PartTranslator, TranslatedPart
from wirekafka.translation.settings import TableSettings
from wirekafka.translation.topic_files import TopicFiles

PARTS_OF_A_COMMIT = 16
LATER = 10
"""Flights that are produced after the backfill."""
LONGEST_WAIT_S = 120


@dataclass(frozen=True, slots=True)
class Backfill:
    """What each executor has to know."""

    directory: str
    topic: str
    tables: str
    tier: str | None
    registry: str | None
    mode: str
    partition_spec: str


def main() -> None:
    arguments = parse_arguments()
    if arguments.directory is not None:
        backfill = Backfill(
            directory=arguments.directory,
            topic=arguments.topic,
            tables=arguments.tables,
            tier=arguments.tier,
            registry=arguments.registry,
            mode=arguments.mode,
            partition_spec=arguments.partition_spec,
        )
        rows, commits = backfilled(backfill, arguments.part_bytes)
        print(f"table_backfill: {rows} rows in {commits} commits")
        return
    with tempfile.TemporaryDirectory() as scratch:
        rows, commits = demonstrated(Path(scratch), arguments)
    print(f"table_backfill: {rows} rows in {commits} commits, and {LATER} by the broker")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="flights to write, if any")
    parser.add_argument("--directory", help="a broker's log directory")
    parser.add_argument("--tier", metavar="URL", help="the store with older segments")
    parser.add_argument("--topic", default="flights", help="topic to read (flights)")
    parser.add_argument("--tables", metavar="URL", help="where the tables are")
    parser.add_argument("--registry", metavar="URL", help="the registry with the values' schemas")
    parser.add_argument("--mode", default="value_schema_id_prefix", help="wirekafka.table.mode")
    parser.add_argument(
        "--partition-spec",
        default="(day(redpanda.timestamp))",
        help="wirekafka.table.partition.spec; each partition of a part is a file",
    )
    parser.add_argument(
        "--part-bytes", type=int, default=64 << 20, help="about so much log is one task"
    )
    arguments = parser.parse_args()
    if bool(arguments.directory) != bool(arguments.tables):
        parser.error("--directory and --tables belong together")
    return arguments


def demonstrated(scratch: Path, arguments: argparse.Namespace) -> tuple[int, int]:
    """Backfill what a broker has written; the broker continues the table."""
    registry = free_address()
    settings = (
        f"wirekafka.schema.registry.listener={registry}",
        f"wirekafka.tables.url={scratch / 'tables'}",
    )
    topic, total = arguments.topic, arguments.rows + LATER
    backfill = Backfill(
        directory=str(scratch / "data"),
        topic=topic,
        tables=str(scratch / "tables"),
        tier=None,
        registry=f"http://{registry}",
        mode=arguments.mode,
        partition_spec=arguments.partition_spec,
    )
    with live_broker(scratch / "data", *settings) as bootstrap:
        create_topic(bootstrap, topic)
        publish_flights(bootstrap, backfill, arguments.rows)
    # It has written down what is committed. Now it serves the registry, and has no table to write.
    with live_broker(scratch / "data", *settings) as bootstrap:
        rows, commits = backfilled(backfill, arguments.part_bytes)
        become_a_table(bootstrap, backfill)
        publish_flights(bootstrap, backfill, LATER)
        await_ends(backfill, total)
    if rows != arguments.rows:
        raise ExampleFailed(f"the table has {rows} of {arguments.rows} flights")
    return rows, commits


def publish_flights(bootstrap: str, backfill: Backfill, rows: int) -> None:
    assert backfill.registry is not None
    with SchemaRegistryClient({"url": backfill.registry}) as client:
        publish(
            bootstrap,
            backfill.topic,
            serialized(client, backfill.topic, flights(rows), [SECOND]),
            rows,
        )


def become_a_table(bootstrap: str, backfill: Backfill) -> None:
    """From now on, the broker writes the topic's table."""
    options = {
        "wirekafka.table.mode": backfill.mode,
        "wirekafka.table.partition.spec": backfill.partition_spec,
        "wirekafka.table.target.lag.ms": "1000",
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in options.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, backfill.topic, incremental_configs=entries)
    admin = connect(bootstrap)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)


def await_ends(backfill: Backfill, total: int) -> None:
    """Wait until the table has so many records. Raises ExampleFailed."""
    driver, deadline_s = translator(backfill), time.monotonic() + LONGEST_WAIT_S
    while (found := sum(driver.open().ends.values())) < total:
        if time.monotonic() > deadline_s:
            raise ExampleFailed(f"the table has {found} of {total} records")
        time.sleep(0.5)


def backfilled(backfill: Backfill, part_bytes: int) -> tuple[int, int]:
    """Have the executors write files, and commit these; the rows and the commits."""
    driver = translator(backfill)
    splits = driver.splits(part_bytes)
    if not splits:
        return 0, 0
    spark = kafka_session("table-backfill", **{"spark.jars.packages": ""})
    tasks = spark.sparkContext.parallelize(splits, len(splits))
    # In the order of the splits, so of the log; the next ones are translated meanwhile.
    translated = tasks.map(lambda split: part(backfill, split)).toLocalIterator(
        prefetchPartitions=True
    )
    rows = commits = 0
    while parts := list(islice(translated, PARTS_OF_A_COMMIT)):
        driver.commit(parts)
        rows, commits = rows + sum(each.rows for each in parts), commits + 1
    spark.stop()
    return rows, commits


def part(backfill: Backfill, split: Split) -> TranslatedPart:
    """What an executor does with a part of the log."""
    return translator(backfill).translated(split)


def translator(backfill: Backfill) -> PartTranslator:
    """A translator of this process."""
    files = TopicFiles([backfill.directory], {}, tier=backfill.tier)
    topic_id = files.topic_id(backfill.topic)
    if topic_id is None:
        raise ExampleFailed(f"the directory has no id of the topic {backfill.topic}")
    return PartTranslator(
        backfill.topic,
        topic_id,
        TableSettings(mode=TableMode.parse(backfill.mode), partition_spec=backfill.partition_spec),
        files=files,
        catalog=open_catalog(backfill.tables),
        namespace="redpanda",
        registry=None if backfill.registry is None else SchemaRegistry(backfill.registry),
    )


if __name__ == "__main__":
    run("table_backfill", main)
