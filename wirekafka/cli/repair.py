"""`wirekafka repair`: finds corrupt batches in a stopped broker's logs and can truncate a log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wirekafka.cli.output import AsJson, show_json
from wirekafka.client.client import CliError
from wirekafka.log.directories import repair
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.directories.repair import Damage
from wirekafka.log.files import RealDisk


def command(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A log directory of a broker that has been stopped."),
    ],
    *,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC-PARTITION",
            help="Cut this log at its first bad batch: that batch and all"
            " behind it are lost for good. May be given several times.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every batch of every log; without --cut nothing is changed."""
    if not directory.is_dir():
        raise CliError(f"{directory} is not a directory")
    disk = RealDisk()
    path = str(directory.resolve())
    try:
        if cut:
            for name in cut:
                damage = repair.cut(disk, path, name)
                print(
                    f"{name}: nothing is broken, nothing was cut"
                    if damage is None
                    else f"{name}: cut at byte {damage.position} of {damage.path}; the log now ends"
                    f" at offset {damage.end_offset}, {damage.lost_bytes} bytes are gone"
                )
            return
        damages = list(repair.examine(disk, path))
    except UnusableDirectory as error:
        raise CliError(str(error)) from None
    for damage in damages:
        if as_json:
            show_json(asdict(damage))
        else:
            print(_description(damage))
    if not damages and not as_json:
        print("Every batch is whole")
    if any(not damage.is_torn_tail for damage in damages):
        raise typer.Exit(1)


def _description(damage: Damage) -> str:
    text = (
        f"{damage.log}: {damage.reason} at byte {damage.position} of {damage.path}, at offset"
        f" {damage.end_offset}; "
    )
    if damage.is_torn_tail:
        return text + f"nothing readable follows: the next start cuts {damage.lost_bytes} bytes"
    return text + (
        f"{damage.readable_after} whole batches follow, so it is not served;"
        f" --cut {damage.log} gives up {damage.lost_bytes} bytes from there on"
    )
