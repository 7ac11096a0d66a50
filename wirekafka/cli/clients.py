"""`wirekafka clients`: each client's fetch position and lag, or its use of quotas."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeAlias

import typer

from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, CommandConfig, show_json, show_table
from wirekafka.client.client import Client, CliError, check
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.server.local_socket import SOCKET

_THROTTLED = ("client", "user", "quota", "limit", "rate", "throttled_s")
_COLUMNS = ("client", "host", "topic", "partition", "last_fetched", "end", "lag", "idle_s")
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
    as_json: AsJson = False,
) -> None:
    """Show each client's last fetched offset and lag, on the broker's own machine.

    The broker forgets them when it restarts, and the longest idle when there are many.
    """
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
