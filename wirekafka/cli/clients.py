"""`wirekafka clients`: each client's fetch position and lag, quotas, or Spark queries."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

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
from wirekafka.client.client import Client, CliError, check
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.server.local_socket import SOCKET

if TYPE_CHECKING:
    from wirekafka.console.source import GroupLag
    from wirekafka.console.spark_queries import QueryProgress

_THROTTLED = ("client", "user", "quota", "limit", "rate", "throttled_s")
_COLUMNS = ("client", "host", "topic", "partition", "last_fetched", "end", "lag", "idle_s")
_QUERY_COLUMNS = (
    "query",
    "batch",
    "records",
    "total_records",
    "committed_s",
    "source",
    "lag",
    "behind_s",
    "idle_s",
)
_TIMEOUT_S = 10.0

Report: TypeAlias = dict[str, list[dict[str, Any]]]
"""A broker's report: rows by their subject."""


def command(
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    throttled: Annotated[
        bool,
        typer.Option(
            "--throttled", help="Show what clients use of their quotas on bytes and work."
        ),
    ] = False,
    queries: Annotated[
        bool,
        typer.Option(
            "--queries",
            help="Show Spark queries: the last batch of wirekafka's sink, and the source's lag.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show each client's last fetched offset and lag, on the broker's own machine.

    The broker forgets them when it restarts, and the longest idle when there are many.
    """
    if queries:
        _show_queries(bootstrap, command_config, as_json=as_json)
        return
    what, columns = ("quotas", _THROTTLED) if throttled else ("clients", _COLUMNS)
    with Client(bootstrap, command_config) as client:
        rows = [row for report in reports(client, bootstrap) for row in report[what]]
    if as_json:
        show_json(rows)
        return
    show_table(columns, [[row[column] for column in columns] for row in rows])


def reports(client: Client, bootstrap: str) -> Iterator[Report]:
    """The reports of all brokers on this machine to its users. Raises CliError."""
    for broker in client.metadata([]).brokers:
        response = client.node(broker.node_id).send(
            DescribeLogDirsRequest(), DescribeLogDirsResponse
        )
        check(response.error_code, f"broker {broker.node_id}")
        yield _ask([result.log_dir for result in response.results], bootstrap)


def _show_queries(bootstrap: str, command_config: CommandConfig, *, as_json: bool) -> None:
    """Markers of sinks are read from any Kafka; sources are known on the broker's machine only."""
    from wirekafka.console.spark_queries import query_progress, sink_markers

    with Client(bootstrap, command_config) as client:
        markers, problems = sink_markers(client)
        readers: list[GroupLag] = []
        try:
            readers = _query_readers(reports(client, bootstrap))
        except CliError as error:
            problems.append(str(error))
    rows = [_query_row(each) for each in query_progress(markers, readers)]
    rows.sort(key=lambda row: str(row["query"]))
    for problem in problems:
        note(problem)
    if as_json:
        show_json(rows)
        return
    show_table(_QUERY_COLUMNS, [[row[column] for column in _QUERY_COLUMNS] for row in rows])


def _query_readers(found: Iterable[Report]) -> list[GroupLag]:
    """The readers of Spark queries at all brokers; seconds are known where lag is tracked."""
    from wirekafka.console.source import GroupLag

    readers: dict[str, GroupLag] = {}
    for row in [row for report in found for row in report.get("lag", report["clients"])]:
        if row["is_query"]:
            name = row["name"] if "name" in row else row["client"]
            new = GroupLag(name, "reader", "", 0, 0, 0, None, row["idle_s"] * 1000, is_query=True)
            readers[name] = _with_partition(readers.get(name, new), row)
    return list(readers.values())


def _with_partition(reader: GroupLag, row: dict[str, Any]) -> GroupLag:
    behind_s, behind_ms = row.get("behind_s"), None
    if behind_s is not None and reader.behind_ms is not None:
        behind_ms = max(reader.behind_ms, round(behind_s * 1000))
    return reader._replace(
        lag=reader.lag + row["lag"],
        behind_ms=behind_ms,
        partitions=reader.partitions + 1,
        idle_ms=min(reader.idle_ms, row["idle_s"] * 1000),
    )


def _query_row(query: QueryProgress) -> dict[str, Any]:
    marker = query.marker
    at_ms = None if marker is None else marker.at_ms
    return {
        "query": query.name,
        "query_id": None if marker is None else marker.query,
        "checkpoint": None if marker is None else marker.checkpoint,
        "batch": None if marker is None else marker.batch,
        "records": None if marker is None else marker.records,
        "total_records": None if marker is None else marker.total_records,
        "at_ms": at_ms,
        "committed_s": None if at_ms is None else max(round(time.time() - at_ms / 1000), 0),
        "source": " ".join(each.name for each in query.sources) or None,
        "lag": query.lag,
        "behind_s": None if query.behind_ms is None else query.behind_ms / 1000,
        "idle_s": None if query.idle_ms is None else query.idle_ms // 1000,
    }


def _ask(directories: Iterable[str], bootstrap: str) -> Report:
    """The report of the broker that uses one of these log directories, read from its socket."""
    for directory in directories:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_TIMEOUT_S)
            try:
                asked.connect(os.path.join(directory, SOCKET))
                answer = b"".join(iter(lambda: asked.recv(1 << 16), b""))
                report: Report = json.loads(answer)
            except (OSError, ValueError):
                continue
            return report
    raise CliError(
        f"the broker at {bootstrap} reports clients only on its own machine, "
        "to whoever may read its data, and only if it is wirekafka"
    )
