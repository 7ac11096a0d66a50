"""`wirekafka branch`: a second node that begins with the data of another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wirekafka.cli.copies.snapshot import Data, paths_of, show_created
from wirekafka.cli.output import AsJson
from wirekafka.client.client import CliError
from wirekafka.log.files import RealDisk
from wirekafka.server.snapshots.branch import GROUP_TOPICS, branch
from wirekafka.snapshot.manifest import UnusableSnapshot


def command(
    data: Data,
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="A directory that does not exist yet.")
    ],
    *,
    reset_groups: Annotated[
        bool,
        typer.Option("--reset-groups", help="Begin without groups and their committed offsets."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a node that begins with another's data, in a cluster of its own.

    Transactions that are open at that instant are aborted in the branch. Start it with
    `wirekafka serve --data NEW`.
    """
    emptied = GROUP_TOPICS if reset_groups else frozenset()
    try:
        made = branch(RealDisk(), paths_of(data), str(new.absolute()), emptied=emptied)
    except UnusableSnapshot as error:
        raise CliError(str(error)) from None
    show_created(made, as_json)
