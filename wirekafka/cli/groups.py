"""Consumer groups: list, describe, reset offsets, delete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from wirekafka.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from wirekafka.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wirekafka.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from wirekafka.cli.client import Client, CliError, check
from wirekafka.cli.membership import (
    TopicPartition,
    commit_offsets,
    decode_assignment,
    fetch_offsets,
)
from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, note, show_json, show_table
from wirekafka.errors import Error

_LATEST, _EARLIEST = -1, -2
_EMPTY_STATES = ("Empty", "Dead")

Group = DescribeGroupsResponse.DescribedGroup

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.command("list")
def list_groups(bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False) -> None:
    """Print the groups of all brokers."""
    with Client(bootstrap) as client:
        rows = []
        for broker in client.metadata([]).brokers:
            response = client.node(broker.node_id).send(ListGroupsRequest(), ListGroupsResponse)
            check(response.error_code, f"broker {broker.node_id}")
            rows += [(g.group_id, g.group_type, g.group_state, g.protocol_type)
                     for g in response.groups]
    rows.sort()
    if as_json:
        show_json([dict(zip(("group", "type", "state", "protocol"), row, strict=True))
                   for row in rows])
        return
    show_table(("group", "type", "state", "protocol"), rows)


@app.command()
def describe(name: Name, bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False) -> None:
    """Print a group's state, and how far it is in each partition."""
    with Client(bootstrap) as client:
        group = _described(client, name)
        committed = fetch_offsets(client, name, None)
        owners = _owners(group)
        known = sorted(committed.keys() | owners.keys())
        ends = client.offsets(known, _LATEST)
    rows = []
    for partition in known:
        offset, end = committed.get(partition), ends[partition]
        lag = None if offset is None else max(end - offset, 0)
        member = owners.get(partition)
        rows.append((*partition, offset, end, lag, member and member.member_id,
                     member and member.client_host))
    columns = ("topic", "partition", "committed", "end", "lag", "member", "host")
    if as_json:
        show_json({
            "group": name, "state": group.group_state, "assignor": group.protocol_data,
            "members": [member.member_id for member in group.members],
            "partitions": [dict(zip(columns, row, strict=True)) for row in rows],
        })
        return
    print(f"{name}  {group.group_state}  {len(group.members)} members  "
          f"{group.protocol_data}".rstrip())
    show_table(columns, rows)


@app.command("reset-offsets")
def reset_offsets(
    name: Name,
    *,
    topics: Annotated[list[str], typer.Option(
        "--topic", "-t", metavar="TOPIC[:P,...]", help="All or some of a topic's partitions.")],
    to: Annotated[str, typer.Option(
        "--to", metavar="WHERE", help="earliest, latest, an offset, +N or -N from what is "
        "committed, or an ISO 8601 time.")],
    bootstrap: Bootstrap = BOOTSTRAP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show, but change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move a group's committed offsets; nobody may be in the group."""
    with Client(bootstrap) as client:
        state = _state(client, name)
        if state not in _EMPTY_STATES:
            raise CliError(f"group {name} is {state}: its offsets can be reset only while it is "
                           "Empty")
        partitions = [p for word in topics for p in _partitions(client, word)]
        before = fetch_offsets(client, name, None)
        offsets = _targets(client, partitions, to, before)
        if not dry_run:
            error = commit_offsets(client, name, offsets)
            check(error, f"group {name}")
    rows = [(*p, before.get(p), offsets[p]) for p in sorted(offsets)]
    columns = ("topic", "partition", "before", "after")
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    show_table(columns, rows)


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups' names.")],
    bootstrap: Bootstrap = BOOTSTRAP,
) -> None:
    """Delete groups that nobody is in, and their offsets."""
    with Client(bootstrap) as client:
        for name in names:
            response = client.coordinator(name).send(
                DeleteGroupsRequest(groups_names=[name]), DeleteGroupsResponse)
            for result in response.results:
                check(result.error_code, f"group {name}")
            note(f"deleted {name}")


def _described(client: Client, name: str) -> Group:
    """The group; CliError if there is none."""
    response = client.coordinator(name).send(
        DescribeGroupsRequest(groups=[name]), DescribeGroupsResponse)
    [group] = response.groups
    if group.error_code == Error.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
        raise CliError(f"no group {name}")
    check(group.error_code, f"group {name}", group.error_message)
    return group


def _state(client: Client, name: str) -> str:
    try:
        return _described(client, name).group_state
    except CliError as error:
        # A group that is not there yet may get its first offsets.
        if str(error) == f"no group {name}":
            return "Empty"
        raise


def _owners(group: Group) -> dict[TopicPartition, Any]:
    if group.protocol_type != "consumer":
        return {}
    return {
        partition: member for member in group.members
        for partition in decode_assignment(member.member_assignment)
    }


def _partitions(client: Client, word: str) -> list[TopicPartition]:
    """TOPIC or TOPIC:0,1 as partitions; CliError if there is no such thing."""
    name, colon, listed = word.partition(":")
    every = sorted(p.partition_index for p in client.topic(name).partitions)
    if not colon:
        return [(name, index) for index in every]
    if not all(part.isdigit() for part in listed.split(",")):
        raise CliError(f"bad --topic {word!r}: expected TOPIC or TOPIC:0,1,...")
    chosen = [int(part) for part in listed.split(",")]
    for index in chosen:
        if index not in every:
            raise CliError(f"topic {name} has no partition {index}")
    return [(name, index) for index in chosen]


def _targets(
    client: Client, partitions: list[TopicPartition], to: str,
    before: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where each partition goes, kept between its earliest and latest offset."""
    earliest, latest = (client.offsets(partitions, at) for at in (_EARLIEST, _LATEST))
    if to == "earliest":
        return earliest
    if to == "latest":
        return latest
    if to.lstrip("+-").isdigit():
        start = before if to[0] in "+-" else {}
        wanted = {p: start.get(p, 0) + int(to) for p in partitions}
    else:
        found = client.offsets(partitions, _milliseconds(to))
        wanted = {p: found[p] if found[p] >= 0 else latest[p] for p in partitions}
    return {p: min(max(wanted[p], earliest[p]), latest[p]) for p in partitions}


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise CliError(
            f"bad --to {text!r}: earliest, latest, an offset, +N, -N or an ISO 8601 time"
        ) from None
