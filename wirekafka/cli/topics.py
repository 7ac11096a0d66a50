"""Topics: list, create, delete, describe, alter."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from wirekafka.cli.configs import pairs
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
from wirekafka.client.client import Client, CliError, check
from wirekafka.client.configurations import TOPIC, alter_configs, described
from wirekafka.client.topic_changes import (
    Result,
    TopicCreation,
    create_topics,
    delete_topics,
    grow_topic,
)
from wirekafka.errors import Error
from wirekafka.protocol.metadata import MetadataResponse

_TOPIC_SOURCE = 1

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics' names.")]
Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", metavar="KEY=VALUE", help="Set a topic option; may be repeated."
    ),
]


@app.command("list")
def list_topics(
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the topics' names."""
    with Client(bootstrap, command_config) as client:
        topics = client.metadata().topics
    names = sorted(topic.name or "" for topic in topics if internal or not topic.is_internal)
    if as_json:
        show_json(names)
        return
    for name in names:
        show_line(name)


@app.command()
def create(
    names: Names,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many; -1 is the broker's default.")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", help="Copies of each; -1 is the broker's default."
        ),
    ] = -1,
    config: Config = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Ignore topics that exist.")
    ] = False,
) -> None:
    """Create topics."""
    new = TopicCreation(partitions, replication_factor, pairs(config, "--config"))
    with Client(bootstrap, command_config) as client:
        results = create_topics(client, names, new)
    _report(
        "created",
        [
            result
            for result in results
            if not (if_not_exists and result.error_code == Error.TOPIC_ALREADY_EXISTS)
        ],
    )


@app.command()
def delete(
    names: Names, bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None
) -> None:
    """Delete topics and all their records."""
    with Client(bootstrap, command_config) as client:
        results = delete_topics(client, names)
    _report("deleted", results)


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC...", help="The topics' names; none is all.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print the partitions, leaders, replicas and config overrides of topics."""
    with Client(bootstrap, command_config) as client:
        topics = client.topics(names or None)
        details = [_details(client, each) for each in topics if names or not each.is_internal]
    if as_json:
        show_json(details)
        return
    for detail in details:
        _show(detail)


@app.command()
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="Grow to this many partitions.")
    ] = None,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="KEY", help="Delete an override.")
    ] = None,
) -> None:
    """Add partitions to a topic, or change its options."""
    changes: dict[str, str | None] = {**pairs(config, "--config")}
    changes |= dict.fromkeys(delete_config or [])
    if partitions is None and not changes:
        raise CliError("nothing to alter: give --partitions, --config or --delete-config")
    with Client(bootstrap, command_config) as client:
        if changes:
            alter_configs(client, TOPIC, name, changes)
        if partitions is not None:
            grow_topic(client, name, partitions)
    note(f"altered {name}")


def _report(done: str, results: Iterable[Result]) -> None:
    """Report the topics that succeeded; raise CliError with one line for all failed topics."""
    failures = []
    for name, error_code, message in results:
        if error_code:
            failures.append((f"topic {name}", error_code, message))
        else:
            note(f"{done} {name}")
    lines = []
    for subject, error_code, message in failures:
        try:
            check(error_code, subject, message)
        except CliError as error:
            lines.append(str(error))
    if lines:
        raise CliError("; ".join(lines))


def _details(client: Client, topic: MetadataResponse.Topic) -> dict[str, Any]:
    overrides = {
        entry.name: entry.value
        for entry in described(client, TOPIC, topic.name or "")
        if entry.config_source == _TOPIC_SOURCE
    }
    return {
        "name": topic.name,
        "id": str(uuid.UUID(bytes=topic.topic_id)),
        "internal": topic.is_internal,
        "configs": overrides,
        "partitions": [
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": partition.replica_nodes,
                "isr": partition.isr_nodes,
            }
            for partition in sorted(topic.partitions, key=lambda p: p.partition_index)
        ],
    }


def _show(detail: dict[str, Any]) -> None:
    configs = ", ".join(f"{key}={value}" for key, value in sorted(detail["configs"].items()))
    show_line(f"{detail['name']}  id {detail['id']}  {configs}".rstrip())
    show_table(
        ("partition", "leader", "replicas", "isr"),
        [
            (p["partition"], p["leader"], _joined(p["replicas"]), _joined(p["isr"]))
            for p in detail["partitions"]
        ],
    )


def _joined(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))
