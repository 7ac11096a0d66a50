"""The help of a command that is parsed without typer, in the layout of all other commands."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterable

_WIDEST = 80
_OPTION_COLUMN = 34
_HELP = "show this message and exit"


class HelpLayout(argparse.HelpFormatter):
    """Usage and options under the headings of typer's help, whose texts are sentences."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size().columns
        super().__init__(
            prog, max_help_position=_OPTION_COLUMN, width=max(40, min(columns, _WIDEST) - 2)
        )

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        """The name of the command alone: its options are listed below."""
        if usage is not argparse.SUPPRESS:
            self._add_item(lambda: f"Usage: {self._prog} [OPTIONS]{os.linesep}{os.linesep}", [])

    def start_section(self, heading: str | None) -> None:
        """A section, whose heading begins with a capital letter."""
        super().start_section(heading and heading.capitalize())

    def _format_text(self, text: str) -> str:
        """A paragraph, indented as in the help of other commands."""
        self._indent()
        try:
            return super()._format_text(text)
        finally:
            self._dedent()

    def _expand_help(self, action: argparse.Action) -> str:
        text = _HELP if isinstance(action, argparse._HelpAction) else super()._expand_help(action)
        return f"{text[:1].upper()}{text[1:]}."
