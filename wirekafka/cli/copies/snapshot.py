"""`wirekafka snapshot`: consistent copies of a node's data, whether the node runs or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wirekafka.cli.output import AsJson, show_json, show_line
from wirekafka.client.client import CliError
from wirekafka.log.files import RealDisk
from wirekafka.server.snapshots.taking import take
from wirekafka.snapshot.creation import Created, SnapshotOptions
from wirekafka.snapshot.manifest import UnusableSnapshot
from wirekafka.snapshot.placing import Sharing

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="The log directory of a node that runs on this machine or is stopped; of a stopped"
        " node with several: DIR,DIR,...",
    ),
]
Copies = Annotated[
    bool,
    typer.Option(
        "--copy",
        help="Copy every file, rather than link those that do not change: for data that Apache"
        " Kafka goes on to use.",
    ),
]


@app.command()
def create(
    data: Data,
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A directory that does not exist yet.")
    ],
    *,
    copy: Copies = False,
    as_json: AsJson = False,
) -> None:
    """Copy a node's data as it is at one instant; the copy is a log directory."""
    sharing = Sharing.COPIES if copy else Sharing.LINKS
    show_created(created(data, target, SnapshotOptions(sharing=sharing)), as_json)


def created(data: str, target: Path, options: SnapshotOptions) -> Created:
    """Take a snapshot. Raises CliError."""
    try:
        return take(RealDisk(), paths_of(data), str(target.absolute()), options)
    except UnusableSnapshot as error:
        raise CliError(str(error)) from None


def paths_of(data: str) -> list[str]:
    """The absolute paths of log directories."""
    return [str(Path(path).absolute()) for path in data.split(",")]


def show_created(made: Created, as_json: bool) -> None:
    """Print what a snapshot consists of."""
    if as_json:
        show_json(
            {
                "path": made.path,
                "at_ms": made.at_ms,
                "logs": made.logs,
                "size_bytes": made.size_bytes,
                "linked_bytes": made.linked_bytes,
                "copied_bytes": made.copied_bytes,
            }
        )
        return
    show_line(
        f"{made.path}: {made.logs} logs, {made.size_bytes:,} bytes,"
        f" of which {made.linked_bytes:,} are shared with the node"
    )
