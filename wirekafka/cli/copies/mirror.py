"""`wirekafka mirror`: how far a mirror is behind its source, and the promotion of its topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wirekafka.cli.clients import reports
from wirekafka.cli.output import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    note,
    show_json,
    show_line,
    show_table,
)
from wirekafka.client.client import Client, CliError
from wirekafka.client.configurations import TOPIC, alter_configs, described
from wirekafka.config.topic_config import MIRROR_PROMOTED, MIRROR_SOURCE

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_COLUMNS = ("topic", "partition", "state", "start", "end", "source_end", "lag", "skipped")


@app.command()
def status(
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show what a node of this machine copies, and how far it is behind its source.

    The exit status is 1 if something is not copied because of an error.
    """
    with Client(bootstrap, command_config) as client:
        found = [report for report in reports(client, bootstrap) if report.get("mirror")]
    if not found:
        raise CliError(f"the broker at {bootstrap} mirrors no cluster")
    [whole], rows = found[0]["mirror"], found[0]["mirrored"]
    if as_json:
        show_json({**whole, "partitions": rows})
    else:
        lag = "unknown" if whole["lag"] is None else whole["lag"]
        show_line(f"{whole['source']}: {whole['state']}, lag {lag}, {whole['bytes']} bytes copied")
        show_table(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])
        _show_reasons(whole, rows)
    if whole["error"] or any(row["reason"] for row in rows):
        raise typer.Exit(1)


@app.command()
def promote(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC...", help="All mirrors by default.")
    ] = None,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Make mirrored topics ordinary topics, which clients write to; nothing more is copied.

    It cannot be undone. Once no mirror is left, new topics of the source are not copied either.
    """
    with Client(bootstrap, command_config) as client:
        names = topics or sorted(topic.name or "" for topic in client.metadata().topics)
        origins = {name: _values(client, name) for name in names}
        for name, values in origins.items():
            if topics and not values.get(MIRROR_SOURCE):
                raise CliError(f"{name} is no mirror")
        mirrors = [
            name
            for name, values in origins.items()
            if values.get(MIRROR_SOURCE) and values.get(MIRROR_PROMOTED) != "true"
        ]
        for name in mirrors:
            alter_configs(client, TOPIC, name, {MIRROR_PROMOTED: "true"})
            show_line(f"{name} is promoted")
    if not mirrors:
        note("nothing to promote")


def _values(client: Client, name: str) -> dict[str, str | None]:
    found = described(client, TOPIC, name, only=(MIRROR_SOURCE, MIRROR_PROMOTED))
    return {each.name: each.value for each in found}


def _show_reasons(whole: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    if whole["error"]:
        show_line(f"error: {whole['error']}")
    for row in rows:
        if row["reason"]:
            partition = "" if row["partition"] is None else f"-{row['partition']}"
            show_line(f"{row['topic']}{partition}: {row['reason']}")
