"""The commands that advices of findings name: each has its subcommand and its options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from wirekafka.cli import serve
from wirekafka.cli.main import build

DOCTOR = Path(__file__).resolve().parent.parent.parent / "wirekafka" / "doctor"
_COMMAND = re.compile(r"`wirekafka ([a-z][^`]*)`")


def commands() -> Iterator[str]:
    """The commands in the texts of the package, with VALUE for what is filled in."""
    for source in sorted(DOCTOR.rglob("*.py")):
        tree = ast.parse(source.read_text())
        whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {id(part) for each in whole for part in each.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield from _COMMAND.findall("".join(map(_text, node.values)))
            elif isinstance(node, ast.Constant) and id(node) not in parts:
                yield from _COMMAND.findall(_text(node))


def options(name: str, *words: str) -> set[str]:
    """The options of a command, or of the subcommand that the first word names."""
    if name == "serve":
        return set(serve._parser()._option_string_actions)
    group: Any = typer.main.get_command(build([name]))
    chosen = group.commands[name]
    if hasattr(chosen, "commands"):
        chosen = chosen.commands[words[0]]
    return {option for each in chosen.params for option in each.opts}


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "VALUE"


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_command_in_an_advice_exists_with_its_options(command: str) -> None:
    name, *words = command.split()
    assert {word for word in words if word.startswith("--")} <= options(name, *words)


def test_commands_are_found_in_advices() -> None:
    found = set(commands())
    assert "elect --all" in found
    assert "groups delete VALUE" in found
    assert len(found) > 15
