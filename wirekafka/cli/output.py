"""Output of commands: tables for people, JSON for scripts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wirekafka.visible_text import json_text, one_line

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="WIREKAFKA_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        help="Bootstrap brokers.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="WIREKAFKA_COMMAND_CONFIG",
        metavar="FILE",
        help="Properties of a Kafka client, for clusters with security.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts to read.")]
BOOTSTRAP = "127.0.0.1:9092"


def show_json(value: Any) -> None:
    """One JSON document on one line."""
    print(json_text(value))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows in columns: drawn on a terminal, only aligned in a pipe, where nothing is cut off."""
    cells = [["-" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, cells)
        return
    lines = [[column.upper().replace(" ", "-") for column in columns], *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip())


def show_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, as_json: bool, none: str
) -> None:
    """Rows as JSON objects or as a table; instead of a table without rows, the remark `none`."""
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        show_table(columns, rows)
    else:
        note(none)


def show_line(text: str) -> None:
    """One line of text."""
    print(one_line(text))


def note(text: str) -> None:
    """Print a remark on standard error."""
    print(one_line(text), file=sys.stderr)


def _draw(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns)
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)
