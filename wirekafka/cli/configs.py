"""Configurations of topics, brokers and groups: describe, alter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from wirekafka.cli.output import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    note,
    show_json,
    show_table,
)
from wirekafka.client.client import Client, CliError
from wirekafka.client.configurations import DEFAULT_SOURCE, KINDS, SOURCES, alter_configs, described

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Kind = Annotated[str, typer.Argument(metavar="KIND", help=", ".join(KINDS))]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The topic, broker id or group; '' is the default of all brokers."
    ),
]


@app.command()
def describe(
    kind: Kind,
    name: Name,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    every: Annotated[
        bool, typer.Option("--all", help="Include options left at their defaults.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print a resource's options and where their values come from."""
    with Client(bootstrap, command_config) as client:
        entries = described(client, _kind(kind), name)
    entries = [e for e in entries if every or e.config_source != DEFAULT_SOURCE]
    if as_json:
        show_json(
            [
                {
                    "name": e.name,
                    "value": e.value,
                    "read_only": e.read_only,
                    "sensitive": e.is_sensitive,
                    "source": SOURCES.get(e.config_source, "unknown"),
                }
                for e in entries
            ]
        )
        return
    show_table(
        ("name", "value", "source"),
        [
            (
                e.name,
                "(hidden)" if e.is_sensitive else e.value,
                SOURCES.get(e.config_source, "unknown"),
            )
            for e in entries
        ],
    )


@app.command()
def alter(
    kind: Kind,
    name: Name,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set an option; may be repeated."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="KEY", help="Delete a set value; may be repeated."),
    ] = None,
) -> None:
    """Change a resource's options."""
    changes: dict[str, str | None] = {**pairs(assign, "--set"), **dict.fromkeys(delete or [])}
    if not changes:
        raise CliError("nothing to alter: give --set or --delete")
    with Client(bootstrap, command_config) as client:
        alter_configs(client, _kind(kind), name, changes)
    note(f"altered {kind} {name}".rstrip())


def pairs(words: Iterable[str] | None, option: str) -> dict[str, str]:
    """KEY=VALUE words as a dictionary; CliError for a word without =."""
    found = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise CliError(f"bad {option} {word!r}: expected KEY=VALUE")
        found[key] = value
    return found


def _kind(word: str) -> int:
    if word not in KINDS:
        raise CliError(f"no kind {word!r} of configuration: one of {', '.join(KINDS)}")
    return KINDS[word]
