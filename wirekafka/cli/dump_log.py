"""`wirekafka dump-log`: prints any file of a log directory, with internal records decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wirekafka.cli.output import AsJson, show_json
from wirekafka.client.client import CliError
from wirekafka.coordinator.record_decoders import decoder_for
from wirekafka.log.dump import UnknownFile, dump, readable
from wirekafka.log.files import RealDisk


def command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Files such as 00000000000000000000.log, .index, .timeindex, "
            ".txnindex, .snapshot, .checkpoint, or a checkpoint by name.",
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Print the batches and records of a log file, or the entries of a file beside one."""
    for path in files:
        if not path.is_file():
            reason = "not a file" if path.exists() else "no such file"
            raise CliError(f"cannot read {path}: {reason}")
        if len(files) > 1 and not as_json:
            print(f"{path}:")
        _print(path, as_json)


def _print(path: Path, as_json: bool) -> None:
    damage = None
    try:
        for entry in dump(RealDisk(), str(path.resolve()), decoder_for(str(path.resolve()))):
            if as_json:
                show_json(entry)
            else:
                print(readable(entry))
            damage = entry.get("error", damage)
    except UnknownFile:
        raise CliError(f"{path} is not a known kind of log directory file") from None
    if damage is not None:
        raise CliError(f"{path}: {damage}")
