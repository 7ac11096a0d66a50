"""Configurations of topics, brokers and groups: describe, alter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from wirekafka.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wirekafka.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wirekafka.cli.output import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    note,
    show_json,
    show_table,
)
from wirekafka.client.client import Client, CliError, Connection, check

TOPIC, BROKER = 2, 4
KINDS = {"topic": TOPIC, "broker": BROKER, "client-metrics": 16, "group": 32}
_SET, _DELETE = 0, 1
_SOURCES = {
    1: "topic",
    2: "broker, dynamic",
    3: "cluster, dynamic",
    4: "broker, static",
    5: "default",
    7: "client metrics",
    8: "group",
}
_DEFAULT_SOURCE = 5

Entry = DescribeConfigsResponse.Result.ResourceResult

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
    entries = [e for e in entries if every or e.config_source != _DEFAULT_SOURCE]
    if as_json:
        show_json(
            [
                {
                    "name": e.name,
                    "value": e.value,
                    "read_only": e.read_only,
                    "sensitive": e.is_sensitive,
                    "source": _SOURCES.get(e.config_source, "unknown"),
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
                _SOURCES.get(e.config_source, "unknown"),
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


def described(client: Client, kind: int, name: str) -> list[Entry]:
    """A resource's options, by name."""
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    [result] = (
        _owner(client, kind, name)
        .send(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
        .results
    )
    check(result.error_code, name, result.error_message)
    return sorted(result.configs, key=lambda entry: entry.name)


def alter_configs(client: Client, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
    """Set options, or delete those whose value is None."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(
            name=key, value=value, config_operation=_DELETE if value is None else _SET
        )
        for key, value in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configs=configs)]
    )
    response = _owner(client, kind, name).send(request, IncrementalAlterConfigsResponse)
    for result in response.responses:
        check(result.error_code, name, result.error_message)


def _kind(word: str) -> int:
    if word not in KINDS:
        raise CliError(f"no kind {word!r} of configuration: one of {', '.join(KINDS)}")
    return KINDS[word]


def _owner(client: Client, kind: int, name: str) -> Connection:
    """The connection for a resource: a broker serves only its own configuration."""
    if kind != BROKER or not name:
        return client.any()
    if not name.isdigit():
        raise CliError(f"bad broker id {name!r}: expected a number")
    client.metadata([])
    return client.node(int(name))
