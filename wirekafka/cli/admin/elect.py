"""`wirekafka elect`: elections of the leaders of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, CommandConfig, show_rows
from wirekafka.client.admin.elections import LeaderChoice, LeaderResult, elect_leaders
from wirekafka.client.client import Client, CliError, check

_COLUMNS = ("topic", "partition", "result")


def command(
    *,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="A topic; may be repeated."),
    ] = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="N", help="A partition of the only topic; default: all."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All partitions of all topics.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Where no replica is in sync, elect another one: records are lost."
        ),
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Give partitions their preferred leader, the first of their replicas.

    Partitions that have it already are reported so; with --all, they are left out. The exit status
    is 1 if an election failed.
    """
    if bool(topics) == every:
        raise CliError("of which partitions? give --topic, or --all")
    if partitions and len(topics or ()) != 1:
        raise CliError("--partition needs one --topic")
    choice = LeaderChoice.UNCLEAN if unclean else LeaderChoice.PREFERRED
    with Client(bootstrap, command_config) as client:
        wanted = None if every else _wanted(client, topics or (), partitions)
        results = elect_leaders(client, choice, wanted)
    failures = []
    rows = []
    for each in results:
        failure = _failure(each)
        failures += [failure] if failure else []
        rows.append((each.topic, each.partition, _word(each, failure)))
    show_rows(_COLUMNS, rows, as_json=as_json, none="no partition needed an election")
    if failures:
        raise CliError("; ".join(failures))


def _wanted(
    client: Client, topics: Sequence[str], partitions: Sequence[int] | None
) -> dict[str, list[int]]:
    if partitions:
        return {topics[0]: sorted(set(partitions))}
    return {
        topic.name or "": [each.partition_index for each in topic.partitions]
        for topic in client.topics(topics)
    }


def _failure(result: LeaderResult) -> str | None:
    if not result.was_needed:
        return None
    try:
        check(result.error_code, f"{result.topic}-{result.partition}", result.message)
    except CliError as error:
        return str(error)
    return None


def _word(result: LeaderResult, failure: str | None) -> str:
    if failure:
        return "failed"
    return "elected" if result.was_needed else "not needed"
