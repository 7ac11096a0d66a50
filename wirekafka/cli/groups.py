"""Groups of all types: list, describe, reset offsets, delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from wirekafka.client.admin.groups import delete_group
from wirekafka.client.client import Client, CliError, check
from wirekafka.client.group_types import CLASSIC, TYPES, GroupType, ReportedGroup, type_of
from wirekafka.client.offset_reset import plan_reset
from wirekafka.protocol.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from wirekafka.cli.clients import Report

_LATEST = -1
_READER = "reader"
_TYPE_NAMES = ", ".join(TYPES)
_PARTITION_COLUMNS: Sequence[str] = (
    "topic",
    "partition",
    "committed",
    "end",
    "lag",
    "member",
    "host",
)
_LAG_COLUMNS: Sequence[str] = (
    "kind",
    "name",
    "topic",
    "partition",
    "position",
    "end",
    "lag",
    "behind_s",
    "idle_s",
)
_HISTORY_COLUMNS: Sequence[str] = ("kind", "name", "at_ms", "lag", "behind_s")
_MEMBER_COLUMNS: Sequence[str] = ("member", "client", "host", "epoch", "count", "partitions")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.command("list")
def list_groups(
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help=f"Only groups of this type: {_TYPE_NAMES}."),
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only groups in this state, as Empty."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the groups of all brokers; --type and --state can be repeated."""
    wanted_types = {each.lower() for each in types or ()}
    wanted_states = {each.lower() for each in states or ()}
    if unknown := wanted_types - TYPES.keys():
        raise CliError(f"unknown type {', '.join(sorted(unknown))}: expected {_TYPE_NAMES}")
    with Client(bootstrap, command_config) as client:
        rows = []
        for broker in client.metadata([]).brokers:
            response = client.node(broker.node_id).send(ListGroupsRequest(), ListGroupsResponse)
            check(response.error_code, f"broker {broker.node_id}")
            rows += [
                (g.group_id, g.group_type or CLASSIC, g.group_state, g.protocol_type)
                for g in response.groups
            ]
    rows = sorted(
        row
        for row in rows
        if (not wanted_types or row[1].lower() in wanted_types)
        and (not wanted_states or row[2].lower() in wanted_states)
    )
    columns = ("group", "type", "state", "protocol")
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    show_table(columns, rows)


@app.command()
def describe(
    name: Name,
    *,
    members: Annotated[
        bool, typer.Option("--members", help="Print the members instead of the partitions.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print a group's state, and its offset and lag in each partition, or its members."""
    with Client(bootstrap, command_config) as client:
        kind = type_of(client, name)
        group = kind.describe(client, name)
        roles = tuple(group.members[0].tasks) if group.members else ()
        columns = (*_MEMBER_COLUMNS, *roles) if members else _PARTITION_COLUMNS
        rows = _member_rows(group) if members else _partition_rows(client, group, kind)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    if as_json:
        show_json(
            {
                "group": name,
                "type": group.type,
                "state": group.state,
                "assignor": group.assignor,
                "epoch": group.epoch,
                "members": found if members else [each.member_id for each in group.members],
            }
            | ({} if group.topology is None else {"topology": group.topology})
            | ({} if members else {"partitions": found})
        )
        return
    epoch = "" if group.epoch is None else f"epoch {group.epoch}"
    words = (name, group.type, group.state, f"{len(group.members)} members", group.assignor, epoch)
    show_line("  ".join(word for word in words if word))
    show_table(columns, rows)
    for subtopology, topics in (group.topology or {}).items():
        parts = (f"{part} {' '.join(names)}" for part, names in topics.items() if names)
        show_line(f"subtopology {subtopology}: {', '.join(parts)}")


@app.command("lag")
def lag(
    *,
    history: Annotated[
        bool, typer.Option("--history", help="Show the last hour of each group and reader.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print how far groups and readers are behind, in records and seconds.

    Only of wirekafka brokers with --metrics or --console, on their own machine.
    """
    from wirekafka.cli.clients import reports

    what, columns = ("history", _HISTORY_COLUMNS) if history else ("lag", _LAG_COLUMNS)
    with Client(bootstrap, command_config) as client:
        found = list(reports(client, bootstrap))
    if any(what not in report for report in found):
        raise CliError("the broker keeps no lag: start it with --metrics or --console")
    rows = list(_without_members(found, what))
    if as_json:
        show_json(rows)
        return
    show_table(columns, [[row[column] for column in columns] for row in rows])


def _without_members(found: Sequence[Report], what: str) -> Iterator[dict[str, Any]]:
    """The rows of all brokers, without readers that another broker has as members of groups."""
    for report in found:
        members = {
            each["name"] for other in found if other is not report for each in other["members"]
        }
        for row in report[what]:
            if row["kind"] != _READER or row["name"] not in members:
                yield row


def _member_rows(group: ReportedGroup) -> list[tuple[Any, ...]]:
    return [
        (
            member.member_id,
            member.client_id,
            member.host,
            member.epoch,
            len(member.partitions),
            " ".join(f"{topic}-{index}" for topic, index in sorted(member.partitions)),
            *(" ".join(tasks) for tasks in member.tasks.values()),
        )
        for member in sorted(group.members, key=lambda each: each.member_id)
    ]


def _partition_rows(client: Client, group: ReportedGroup, kind: GroupType) -> list[tuple[Any, ...]]:
    offsets = kind.offsets(client, group.name)
    owners = {partition: member for member in group.members for partition in member.partitions}
    known = sorted(offsets.keys() | owners.keys())
    ends = client.known_offsets(known, _LATEST)
    for topic, index in known:
        if (topic, index) not in ends:
            note(f"{topic}-{index} has no leader that answers: its end and lag are not known")
    rows = []
    for partition in known:
        found, end = offsets.get(partition), ends.get(partition)
        offset = None if found is None else found.offset
        lag = None if found is None else found.lag
        if found is not None and lag is None and end is not None:
            lag = max(end - found.offset, 0)
        member = owners.get(partition)
        rows.append(
            (*partition, offset, end, lag, member and member.member_id, member and member.host)
        )
    return rows


@app.command("reset-offsets")
def reset_offsets(
    name: Name,
    *,
    topics: Annotated[
        list[str],
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:P,...]", help="All or some of a topic's partitions."
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="earliest, latest, an offset, +N or -N from what is "
            "committed, or an ISO 8601 time.",
        ),
    ],
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show, but change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change the committed offsets of a group, which must have no members."""
    with Client(bootstrap, command_config) as client:
        plan = plan_reset(client, name, topics, to)
        if not dry_run:
            plan.apply(client)
    rows = [(*p, plan.before.get(p), plan.after[p]) for p in sorted(plan.after)]
    columns = ("topic", "partition", "before", "after")
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    show_table(columns, rows)


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups' names.")],
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Delete groups without members, and their offsets."""
    with Client(bootstrap, command_config) as client:
        for name in names:
            delete_group(client, name)
            note(f"deleted {name}")
