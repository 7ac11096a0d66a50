"""`wirekafka cluster`: brokers, the quorum of controllers, disks, and brokers that are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

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
from wirekafka.client.admin.cluster import (
    describe_cluster,
    describe_quorum,
    log_directories,
    quorum_of,
    unregister_broker,
)
from wirekafka.client.admin.features import newest_release
from wirekafka.client.client import Client, CliError
from wirekafka.errors import Error
from wirekafka.log.checkpoints import uuid_text
from wirekafka.protocol.describe_cluster import DescribeClusterResponse
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsResponse
from wirekafka.protocol.describe_quorum import ReplicaState

_BROKER_COLUMNS = ("broker", "address", "rack", "version", "state")
_QUORUM_COLUMNS = ("node", "role", "directory", "end", "lag", "caught_up_ms")
_DIRECTORY_COLUMNS = ("broker", "directory", "state", "replicas", "size", "free", "total")
_OFFLINE, _FAILED = "offline", "failed"
_BAD_STATES = (_OFFLINE, _FAILED)
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def describe(
    bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """Print the cluster's id, its brokers and the node that is the active controller.

    The version is the newest release of Kafka whose metadata.version the broker supports.
    """
    with Client(bootstrap, command_config) as client:
        cluster = describe_cluster(client)
        controller = _controller(client, cluster)
        client.metadata([])
        rows = [
            (
                each.broker_id,
                f"{each.host}:{each.port}",
                each.rack,
                None if each.is_fenced else _version(client, each.broker_id),
                "fenced" if each.is_fenced else "in service",
            )
            for each in sorted(cluster.brokers, key=lambda each: each.broker_id)
        ]
    if as_json:
        brokers = [dict(zip(_BROKER_COLUMNS, row, strict=True)) for row in rows]
        show_json({"cluster": cluster.cluster_id, "controller": controller, "brokers": brokers})
        return
    count = f"{len(rows)} broker{'s' if len(rows) != 1 else ''}"
    show_line(f"cluster {cluster.cluster_id}  {count}  controller {controller}")
    show_table(_BROKER_COLUMNS, rows)


@app.command()
def quorum(
    bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """Print the leader of the metadata quorum, its voters and observers, and their lag.

    The lag is in records; caught_up_ms is how long ago a replica had all of them.
    """
    with Client(bootstrap, command_config) as client:
        response = describe_quorum(client)
    found = quorum_of(response)
    ends = {each.replica_id: each.log_end_offset for each in found.current_voters}
    end = ends.get(found.leader_id, max(ends.values(), default=-1))
    now_ms = time.time_ns() // 1_000_000
    rows = [
        _replica_row(each, role, end, now_ms)
        for role, replicas in (("voter", found.current_voters), ("observer", found.observers))
        for each in replicas
    ]
    rows = [(row[0], "leader" if row[0] == found.leader_id else row[1], *row[2:]) for row in rows]
    if as_json:
        addresses = {
            node.node_id: [f"{each.name}://{each.host}:{each.port}" for each in node.listeners]
            for node in response.nodes
        }
        replicas = [
            dict(zip(_QUORUM_COLUMNS, row, strict=True)) | {"listeners": addresses.get(row[0], [])}
            for row in rows
        ]
        show_json(
            {
                "leader": found.leader_id,
                "epoch": found.leader_epoch,
                "high_watermark": found.high_watermark,
                "replicas": replicas,
            }
        )
        return
    show_line(
        f"leader {found.leader_id}  epoch {found.leader_epoch}"
        f"  high watermark {found.high_watermark}"
    )
    show_table(_QUORUM_COLUMNS, rows)


@app.command("log-dirs")
def log_dirs(
    *,
    brokers: Annotated[
        list[int] | None,
        typer.Option("--broker", metavar="ID", help="Only this broker; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print the log directories of brokers: the size of their replicas, free and total bytes.

    The exit status is 1 if a directory is offline, or a broker does not answer.
    """
    with Client(bootstrap, command_config) as client:
        known = sorted(each.node_id for each in client.metadata([]).brokers)
        if unknown := set(brokers or ()) - set(known):
            raise CliError(f"no broker {', '.join(map(str, sorted(unknown)))} in the cluster")
        rows, failures = [], []
        for broker in brokers or known:
            try:
                found = log_directories(client, broker)
            except CliError as error:
                failures.append(f"broker {broker}: {error}")
                continue
            rows += [_directory_row(broker, each) for each in found]
    if as_json:
        show_json([dict(zip(_DIRECTORY_COLUMNS, row, strict=True)) for row in rows])
    else:
        show_table(_DIRECTORY_COLUMNS, [(*row[:4], *map(_size, row[4:])) for row in rows])
    offline = [f"broker {row[0]}: {row[1]} is {row[2]}" for row in rows if row[2] in _BAD_STATES]
    if failures or offline:
        raise CliError("; ".join([*failures, *offline]))


@app.command()
def unregister(
    broker: Annotated[int, typer.Argument(metavar="ID", help="The broker's id.")],
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Remove the registration of a broker that is stopped and does not return."""
    with Client(bootstrap, command_config) as client:
        unregister_broker(client, broker)
    note(f"unregistered broker {broker}")


def _controller(client: Client, cluster: DescribeClusterResponse) -> int:
    """The leader of the quorum; brokers name any of them as the controller to their clients."""
    try:
        return quorum_of(describe_quorum(client)).leader_id
    except CliError:
        return cluster.controller_id  # Of a cluster without a quorum, or for a user without rights.


def _version(client: Client, broker: int) -> str | None:
    """The release of a broker; None if it does not answer or does not say."""
    try:
        return newest_release(client.node(broker).supported_levels())
    except CliError:
        return None


def _replica_row(
    replica: ReplicaState, role: str, end: int, now_ms: int
) -> tuple[int, str, str | None, int, int, int | None]:
    directory = bytes(replica.replica_directory_id)
    caught_up_ms = replica.last_caught_up_timestamp
    return (
        replica.replica_id,
        role,
        uuid_text(directory) if any(directory) else None,
        replica.log_end_offset,
        max(0, end - replica.log_end_offset),
        None if caught_up_ms < 0 else max(0, now_ms - caught_up_ms),
    )


def _directory_row(
    broker: int, found: DescribeLogDirsResponse.Result
) -> tuple[int, str, str, int, int, int | None, int | None]:
    sizes = list(_sizes(found))
    return (
        broker,
        found.log_dir,
        _state(found),
        len(sizes),
        sum(sizes),
        None if found.usable_bytes < 0 else found.usable_bytes,
        None if found.total_bytes < 0 else found.total_bytes,
    )


def _state(found: DescribeLogDirsResponse.Result) -> str:
    if found.error_code == Error.KAFKA_STORAGE_ERROR:
        return _OFFLINE
    if found.error_code:
        return _FAILED
    return "cordoned" if found.is_cordoned else "online"


def _sizes(found: DescribeLogDirsResponse.Result) -> Iterator[int]:
    for topic in found.topics:
        for partition in topic.partitions:
            yield partition.partition_size


def _size(count: int | None) -> str | None:
    """A number of bytes for people, with three digits."""
    if count is None:
        return None
    value, units = float(count), iter(_UNITS)
    unit = next(units)
    while value >= 999.5 and unit != _UNITS[-1]:
        value, unit = value / 1000, next(units)
    return f"{value:.3g} {unit}"
