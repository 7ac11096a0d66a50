"""Quotas of users, client ids and IP addresses: list, set, remove."""

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
from wirekafka.client.admin.quotas import alter_quotas, list_quotas
from wirekafka.client.client import Client, CliError
from wirekafka.quotas.precedence import CLIENT_ID, IP, USER

_DEFAULT = "(default)"

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="A user; '' is the default of users.")
]
ClientId = Annotated[
    str | None,
    typer.Option("--client", metavar="ID", help="A client id; '' is the default of client ids."),
]
Address = Annotated[
    str | None,
    typer.Option("--ip", metavar="ADDRESS", help="An IP address; '' is the default of addresses."),
]


@app.command("list")
def list_(
    bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """Print all quotas and whom they are for."""
    with Client(bootstrap, command_config) as client:
        entries = list_quotas(client)
    rows = []
    for entry in entries:
        names = {part.entity_type: part.entity_name for part in entry.entity}
        for value in sorted(entry.values, key=lambda value: value.key):
            rows.append(
                {
                    kind: (names[kind] or "") if kind in names else None
                    for kind in (USER, CLIENT_ID, IP)
                }
                | {"quota": value.key, "value": value.value}
            )
    if as_json:
        show_json(rows)
        return
    show_table(
        (USER, CLIENT_ID, IP, "quota", "value"),
        [
            (
                *(_DEFAULT if row[kind] == "" else row[kind] for kind in (USER, CLIENT_ID, IP)),
                row["quota"],
                f"{row['value']:.12g}",
            )
            for row in rows
        ],
    )


@app.command("set")
def set_quotas(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE...")],
    *,
    user: User = None,
    client: ClientId = None,
    ip: Address = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Set quotas, such as producer_byte_rate=1048576, of one user, client id or both."""
    changes: dict[str, float | None] = {}
    for quota, text in pairs(quotas, "quota").items():
        try:
            changes[quota] = float(text)
        except ValueError:
            raise CliError(f"bad value {text!r} of {quota}: expected a number") from None
    with Client(bootstrap, command_config) as connected:
        alter_quotas(connected, _entity(user, client, ip), changes)
    note(f"set {', '.join(quotas)}")


@app.command("remove")
def remove_quotas(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA...")],
    *,
    user: User = None,
    client: ClientId = None,
    ip: Address = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Remove quotas of one user, client id or both."""
    with Client(bootstrap, command_config) as connected:
        alter_quotas(connected, _entity(user, client, ip), dict.fromkeys(quotas))
    note(f"removed {', '.join(quotas)}")


def _entity(user: str | None, client: str | None, ip: str | None) -> dict[str, str]:
    given = {USER: user, CLIENT_ID: client, IP: ip}
    entity = {kind: name for kind, name in given.items() if name is not None}
    if not entity:
        raise CliError("whose quota? give --user, --client, both, or --ip")
    return entity
