"""`wirekafka features`: list the features of a cluster, and change their levels."""

from __future__ import annotations

from typing import Annotated

import typer

from wirekafka.cli.configs import pairs
from wirekafka.cli.output import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    note,
    show_json,
    show_table,
)
from wirekafka.client.admin.features import ChangeKind, level_name, level_of, update_features
from wirekafka.client.client import Client

_COLUMNS = ("feature", "level", "name", "lowest", "highest")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Levels = Annotated[
    list[str],
    typer.Argument(
        metavar="FEATURE=LEVEL...",
        help="A level is a number or, for metadata.version, a release such as 4.0.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Let the controller check the change, and make none.")
]
Unsafe = Annotated[bool, typer.Option("--unsafe", help="Lower levels even if metadata is lost.")]


@app.command("list")
def list_(
    bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """Print the level of each feature, and the levels that the broker supports."""
    with Client(bootstrap, command_config) as client:
        connection = client.any()
        supported, levels = connection.supported_levels(), connection.finalized_levels()
    rows = [
        (name, levels.get(name, 0), level_name(name, levels.get(name, 0)), *supported[name])
        for name in sorted(supported)
    ]
    if as_json:
        show_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
        return
    show_table(_COLUMNS, rows)


@app.command()
def upgrade(
    features: Levels,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Raise features to levels, all or none, after all nodes run a release that supports them."""
    levels = _levels(features)
    with Client(bootstrap, command_config) as client:
        update_features(client, levels, ChangeKind.UPGRADE, dry_run=dry_run)
    _report(levels, dry_run=dry_run)


@app.command()
def downgrade(
    features: Levels,
    unsafe: Unsafe = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Lower features to levels, all or none."""
    levels = _levels(features)
    with Client(bootstrap, command_config) as client:
        update_features(client, levels, _downgrade(unsafe), dry_run=dry_run)
    _report(levels, dry_run=dry_run)


@app.command()
def disable(
    features: Annotated[list[str], typer.Argument(metavar="FEATURE...", help="The features.")],
    unsafe: Unsafe = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Lower features to level 0, all or none."""
    levels = dict.fromkeys(features, 0)
    with Client(bootstrap, command_config) as client:
        update_features(client, levels, _downgrade(unsafe), dry_run=dry_run)
    _report(levels, dry_run=dry_run)


def _levels(words: list[str]) -> dict[str, int]:
    return {name: level_of(name, text) for name, text in pairs(words, "feature").items()}


def _downgrade(unsafe: bool) -> ChangeKind:
    return ChangeKind.UNSAFE_DOWNGRADE if unsafe else ChangeKind.SAFE_DOWNGRADE


def _report(levels: dict[str, int], *, dry_run: bool) -> None:
    done = "could set" if dry_run else "set"
    note(f"{done} {', '.join(f'{name} to {level}' for name, level in levels.items())}")
