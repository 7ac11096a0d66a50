"""`wirekafka users`: list users with SCRAM passwords, add and remove them, change passwords."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, CommandConfig, note, show_rows
from wirekafka.client.admin.users import ScramUser, delete_credentials, list_users, set_password
from wirekafka.client.client import Client, CliError
from wirekafka.security.sasl.scram import ALGORITHMS, FEWEST_ITERATIONS, MOST_ITERATIONS

_COLUMNS = ("user", "mechanism", "iterations")
_STDIN = Path("-")
_MECHANISM_NAMES = ", ".join(ALGORITHMS)

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="USER", help="The user's name, without User:.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism", metavar="NAME", help=f"Only this one of {_MECHANISM_NAMES}; default: all."
    ),
]
Iterations = Annotated[
    int | None,
    typer.Option(
        "--iterations",
        metavar="N",
        min=FEWEST_ITERATIONS,
        max=MOST_ITERATIONS,
        help=f"Rounds of the hash, from {FEWEST_ITERATIONS} to {MOST_ITERATIONS}.",
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read the password from a file's only line, - from standard input; else it is asked"
        " for.",
    ),
]


@app.command("list")
def list_(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="USER...", help="The users; none is all.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print the users that have SCRAM passwords, and by which mechanisms."""
    with Client(bootstrap, command_config) as client:
        found = list_users(client, names or ())
    show_rows(_COLUMNS, found, as_json=as_json, none="no such user" if names else "no users")


@app.command()
def add(
    name: Name,
    *,
    mechanism: Mechanisms = None,
    iterations: Iterations = None,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Add a user with a password, by which the user can log in at listeners with SCRAM."""
    wanted = _mechanisms(mechanism) or list(ALGORITHMS)
    new = [ScramUser(name, each, iterations or FEWEST_ITERATIONS) for each in wanted]
    with Client(bootstrap, command_config) as client:
        known = [each.mechanism for each in list_users(client, [name])]
        if taken := [each for each in wanted if each in known]:
            raise CliError(
                f"user {name} has a password for {', '.join(taken)}: `wirekafka users password`"
                " changes it"
            )
        set_password(client, new, _password(password_file))
    note(f"added {name} for {', '.join(wanted)}")


@app.command()
def password(
    name: Name,
    *,
    mechanism: Mechanisms = None,
    iterations: Iterations = None,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Change a user's password, for all mechanisms for which the user has one."""
    with Client(bootstrap, command_config) as client:
        old = _known(client, name, _mechanisms(mechanism))
        new = [each._replace(iterations=iterations or each.iterations) for each in old]
        set_password(client, new, _password(password_file))
    note(f"changed the password of {name} for {', '.join(each.mechanism for each in new)}")


@app.command()
def remove(
    names: Annotated[list[str], typer.Argument(metavar="USER...", help="The users' names.")],
    *,
    mechanism: Mechanisms = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Remove users, who can then not log in any more; ACLs and quotas of users stay."""
    wanted = _mechanisms(mechanism)
    with Client(bootstrap, command_config) as client:
        # All are looked up before any is removed.
        found = [(name, _known(client, name, wanted)) for name in names]
        for name, credentials in found:
            delete_credentials(client, credentials)
            note(f"removed {name} for {', '.join(each.mechanism for each in credentials)}")


def _known(client: Client, name: str, wanted: Sequence[str]) -> list[ScramUser]:
    """The user's credentials, all or the wanted. Raises CliError if there is none."""
    found = [
        each for each in list_users(client, [name]) if each.mechanism in (wanted or ALGORITHMS)
    ]
    if not found:
        raise CliError(f"no user {name}" + (f" with {', '.join(wanted)}" if wanted else ""))
    return found


def _mechanisms(words: Sequence[str] | None) -> list[str]:
    found = list(dict.fromkeys(word.upper() for word in words or ()))
    for each in found:
        if each not in ALGORITHMS:
            raise CliError(f"no mechanism {each!r}: one of {_MECHANISM_NAMES}")
    return found


def _password(path: Path | None) -> str:
    """The password from a file, standard input or the terminal. Raises CliError, OSError."""
    if path is None:
        if not sys.stdin.isatty():
            raise CliError("no terminal to ask for the password: give --password-file")
        found = getpass("Password: ")
        if found != getpass("Again: "):
            raise CliError("the passwords differ")
    else:
        try:
            text = sys.stdin.read() if path == _STDIN else path.read_text()
            text.encode()  # Not so in a locale that passes any bytes on.
        except UnicodeError:
            raise CliError(f"{path}: the password is not UTF-8") from None
        lines = text.splitlines()
        if len(lines) > 1:
            raise CliError(f"{path}: expected one line with the password")
        found = "".join(lines)
    if not found:
        raise CliError("the password is empty")
    return found
