"""The words that may stand next in a command line: commands, options and their choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wirekafka.visible_text import one_line

if TYPE_CHECKING:
    import argparse

    import typer

_HELP = "--help"


@dataclass(frozen=True, slots=True)
class NextWord:
    """A word that may stand next, and its meaning in a line."""

    word: str
    meaning: str


@dataclass(frozen=True, slots=True)
class KnownOption:
    """An option of a command."""

    names: Sequence[str]
    meaning: str
    takes_value: bool = True
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a command line may go on with: subcommands or options."""

    subcommands: Mapping[str, str] = field(default_factory=dict)
    """The meanings of subcommands by their names."""
    options: Sequence[KnownOption] = ()


@dataclass(frozen=True, slots=True)
class CommandTree:
    """All commands; only the modules that are needed are imported."""

    commands: Mapping[str, str]
    """The meanings of commands by their names."""
    build: Callable[[Sequence[str]], typer.Typer]
    """Returns the application with one command."""
    options_of_serve: Callable[[], Iterable[argparse.Action]]
    """Returns the options of the command that is parsed without typer."""


def show_candidates(words: Sequence[str], tree: CommandTree) -> None:
    """Print the candidates for the last of some words: each with a tabulator and its meaning."""
    for each in candidates(words, tree):
        print(f"{each.word}\t{one_line(each.meaning)}")


def candidates(words: Sequence[str], tree: CommandTree) -> list[NextWord]:
    """The candidates for the last of some words, which may be empty; none where files may stand."""
    *before, current = words or [""]
    if not before:
        place = Continuation(tree.commands, [_flag(_HELP), _flag("--version")])
    elif before[0] == "serve":
        place = Continuation(options=[_option(each) for each in tree.options_of_serve()])
    elif before[0] in tree.commands:
        place = _place(tree.build(before[:1]), before)
    else:
        place = Continuation()
    return [each for each in _offered(place, before, current) if each.word.startswith(current)]


def _offered(place: Continuation, before: Sequence[str], current: str) -> Iterator[NextWord]:
    for option in place.options:
        if before and before[-1] in option.names and option.takes_value:
            for choice in option.choices:
                yield NextWord(choice, "")
            return
    if current.startswith("-"):
        for option in place.options:
            for name in option.names:
                if name.startswith("--"):
                    yield NextWord(name, option.meaning)
        return
    for name, meaning in place.subcommands.items():
        yield NextWord(name, meaning)


def _place(app: typer.Typer, before: Sequence[str]) -> Continuation:
    import typer

    command: Any = typer.main.get_command(app)
    for word in before:
        command = getattr(command, "commands", {}).get(word, command)
    subcommands = {
        name: each.get_short_help_str(limit=80)
        for name, each in getattr(command, "commands", {}).items()
    }
    return Continuation(subcommands, [*_options_of_command(command.params), _flag(_HELP)])


def _options_of_command(parameters: Iterable[Any]) -> Iterator[KnownOption]:
    for each in parameters:
        if each.param_type_name == "option" and not each.hidden:
            yield KnownOption(each.opts, each.help or "", not each.is_flag)


def _option(action: argparse.Action) -> KnownOption:
    choices = [*map(str, action.choices or ())]
    return KnownOption(action.option_strings, action.help or "", action.nargs != 0, choices)


def _flag(name: str) -> KnownOption:
    return KnownOption([name], "", takes_value=False)
