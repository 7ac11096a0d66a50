"""`wirekafka clients`: each client's fetch position and lag, for clients without commits too."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable
from typing import Any

from wirekafka.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.cli.client import Client, CliError, check
from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, CommandConfig, show_json, show_table
from wirekafka.server.local_socket import SOCKET

_COLUMNS = ("client", "host", "topic", "partition", "last_fetched", "end", "lag", "idle_s")
_TIMEOUT_S = 10.0


def command(
    bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """Show each client's last fetched offset and lag, on the broker's own machine.

    The broker forgets them when it restarts, and the longest idle when there are many.
    """
    rows: list[dict[str, Any]] = []
    with Client(bootstrap, command_config) as client:
        for broker in client.metadata([]).brokers:
            response = client.node(broker.node_id).send(
                DescribeLogDirsRequest(), DescribeLogDirsResponse
            )
            check(response.error_code, f"broker {broker.node_id}")
            rows += _ask([result.log_dir for result in response.results], bootstrap)
    if as_json:
        show_json(rows)
        return
    show_table(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])


def _ask(directories: Iterable[str], bootstrap: str) -> list[dict[str, Any]]:
    """The report of the broker that uses one of these log directories, read from its socket."""
    for directory in directories:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_TIMEOUT_S)
            try:
                asked.connect(os.path.join(directory, SOCKET))
                answer = b"".join(iter(lambda: asked.recv(1 << 16), b""))
                rows: list[dict[str, Any]] = json.loads(answer)["clients"]
            except (OSError, ValueError):
                continue
            return rows
    raise CliError(
        f"the broker at {bootstrap} reports clients only on its own machine, "
        "to whoever may read its data, and only if it is wirekafka"
    )
