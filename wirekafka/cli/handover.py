"""`wirekafka handover`: prints the server.properties for Apache Kafka on these directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wirekafka.client.client import CliError
from wirekafka.log.directories.handover import examine, server_properties
from wirekafka.log.directories.log_directory import METADATA_LOG, UnusableDirectory
from wirekafka.log.files import RealDisk
from wirekafka.replication.raft.quorum_state import QuorumState


def command(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Every log directory of one broker that has been stopped."
        ),
    ],
    *,
    host: Annotated[str, typer.Option(help="The host that Kafka listens on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Its port; its controller takes the next one.", min=1, max=65534)
    ] = 9092,
) -> None:
    """Check that Apache Kafka can take over, and print the server.properties it needs."""
    paths = [str(path.resolve()) for path in directories]
    try:
        found = examine(RealDisk(), paths)
        metadata = f"{found.directories[0]}/{METADATA_LOG}"
        quorum = QuorumState.read(RealDisk(), metadata)
    except UnusableDirectory as error:
        raise CliError(str(error)) from None
    if quorum is not None and quorum.voters not in (None, (found.node_id,)):
        raise CliError(
            f"node {found.node_id} is one of a cluster with the controllers"
            f" {list(quorum.voters or ())}: Kafka takes its place with the settings of that"
            " cluster, as docs/how-to/use-all-cores.md shows"
        )
    print(server_properties(found, host, port), end="")
