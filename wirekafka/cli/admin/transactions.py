"""`wirekafka transactions`: list and describe them, find hanging ones and abort these."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from wirekafka.cli.output import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    note,
    show_json,
    show_line,
    show_rows,
    show_table,
)
from wirekafka.client.admin.transactions import (
    OpenProducer,
    TransactionRow,
    abort,
    describe_transaction,
    find_hanging,
    list_transactions,
    producers,
)
from wirekafka.client.client import Client, CliError

_COLUMNS = ("id", "state", "producer", "coordinator", "started", "age_s", "partitions")
_PRODUCER_COLUMNS = (
    "topic",
    "partition",
    "producer",
    "epoch",
    "coordinator_epoch",
    "last_sequence",
    "last_written",
    "start_offset",
    "transaction",
)

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

TransactionalId = Annotated[
    str, typer.Argument(metavar="ID", help="The transactional id of a producer.")
]
Topic = Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic.")]


@app.command("list")
def list_(
    *,
    ended: Annotated[
        bool, typer.Option("--ended", help="Include ids whose last transaction has ended.")
    ] = False,
    older_than: Annotated[
        int | None,
        typer.Option(
            "--older-than",
            metavar="S",
            min=0,
            help="Only transactions that are open for so many seconds.",
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print the open transactions of all coordinators, the oldest first."""
    with Client(bootstrap, command_config) as client:
        found = list_transactions(client, ended=ended)
    now_ms = _now_ms()
    rows = [
        _row(each, now_ms)
        for each in found.listed
        if older_than is None or _age_s(each, now_ms) >= older_than
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(_COLUMNS, [_shown(row) for row in rows])
    else:
        note("no transactions" if ended else "no open transactions")
    if found.undescribed:
        note(f"too many to describe: {found.undescribed} have no start")
    if found.failed:
        raise CliError("; ".join(f"broker {node}: {why}" for node, why in found.failed.items()))


@app.command()
def describe(
    transactional_id: TransactionalId,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print the last transaction of a transactional id, and its partitions while it is open."""
    with Client(bootstrap, command_config) as client:
        found = describe_transaction(client, transactional_id)
    row = _row(found, _now_ms())
    del row["coordinator"]
    row |= {"epoch": found.producer_epoch, "timeout_s": found.timeout_ms / 1000}
    if as_json:
        show_json(row)
        return
    timeout = f"timeout {found.timeout_ms / 1000:g} s"
    age = "" if row["age_s"] is None else f"open for {row['age_s']} s"
    words = (
        found.transactional_id,
        found.state,
        f"producer {found.producer_id} epoch {found.producer_epoch}",
        timeout,
        age,
    )
    show_line("  ".join(word for word in words if word))
    for topic, index in found.partitions:
        show_line(f"{topic}-{index}")


@app.command("producers")
def producers_(
    topic: Topic,
    *,
    partitions: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="N", help="Only this partition; may be repeated."
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print the producers that the leaders of a topic's partitions know.

    A producer with a start offset has an open transaction, whose transactional id is shown;
    "hanging" if no coordinator will end it.
    """
    with Client(bootstrap, command_config) as client:
        found = producers(client, topic, partitions or ())
    _show_producers(found, as_json=as_json, none="no producers")


@app.command("find-hanging")
def find_hanging_(
    *,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Only in this topic; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Find transactions that are open in partitions although no coordinator will end them.

    They keep consumers with read_committed from reading on.
    """
    with Client(bootstrap, command_config) as client:
        found = find_hanging(client, topics or None)
    for topic, index in found.leaderless:
        note(f"{topic}-{index} has no leader: nothing was looked for in it")
    _show_producers(found.producers, as_json=as_json, none="no hanging transactions")


@app.command("abort")
def abort_(
    topic: Topic,
    *,
    partition: Annotated[
        int, typer.Option("--partition", "-p", metavar="N", help="The partition.")
    ],
    start_offset: Annotated[
        int,
        typer.Option(
            "--start-offset", metavar="N", help="The transaction's, as find-hanging prints it."
        ),
    ],
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Abort a hanging transaction in one partition; other transactions are refused."""
    with Client(bootstrap, command_config) as client:
        found = [
            each
            for each in producers(client, topic, [partition])
            if each.is_open and each.start_offset == start_offset
        ]
        if not found:
            raise CliError(f"{topic}-{partition}: no open transaction starts at {start_offset}")
        producer_id = found[0].producer_id
        abort(client, (topic, partition), producer_id, start_offset)
    note(f"aborted the transaction of producer {producer_id} in {topic}-{partition}")


def _show_producers(found: Sequence[OpenProducer], *, as_json: bool, none: str) -> None:
    rows = [
        (
            *each.partition,
            each.producer_id,
            each.producer_epoch,
            _known(each.coordinator_epoch),
            _known(each.last_sequence),
            each.last_timestamp if as_json else _time(each.last_timestamp),
            _known(each.start_offset),
            _transaction(each),
        )
        for each in found
    ]
    show_rows(_PRODUCER_COLUMNS, rows, as_json=as_json, none=none)


def _transaction(producer: OpenProducer) -> str | None:
    if producer.is_hanging:
        return "hanging"
    return producer.transaction.transactional_id if producer.transaction else None


def _row(found: TransactionRow, now_ms: int) -> dict[str, Any]:
    age_s = _age_s(found, now_ms)
    return {
        "id": found.transactional_id,
        "state": found.error or found.state,
        "producer": found.producer_id,
        "coordinator": found.coordinator,
        "started_ms": found.start_ms if age_s >= 0 else None,
        "age_s": age_s if age_s >= 0 else None,
        "partitions": [f"{topic}-{index}" for topic, index in found.partitions],
    }


def _shown(row: dict[str, Any]) -> tuple[Any, ...]:
    started = None if row["started_ms"] is None else _time(row["started_ms"])
    return (
        *(row[name] for name in ("id", "state", "producer", "coordinator")),
        started,
        row["age_s"],
        " ".join(row["partitions"]) or None,
    )


def _age_s(found: TransactionRow, now_ms: int) -> int:
    """How long the transaction is open; -1 if it is not."""
    is_open = found.is_active and found.start_ms > 0
    return max(0, now_ms - found.start_ms) // 1000 if is_open else -1


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _time(at_ms: int) -> str | None:
    if at_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"  # After the year 9999.


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
