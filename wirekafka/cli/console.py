"""`wirekafka console`: serves web pages about a Kafka cluster."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wirekafka.cli.output import BOOTSTRAP, Bootstrap, CommandConfig
from wirekafka.cli.tables import CatalogName, CatalogProperties, Namespace, table_place
from wirekafka.client.client import Client, CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.server.equal_lines import EqualLines

if TYPE_CHECKING:
    from wirekafka.config.table_place import TablePlace
    from wirekafka.console.settings import ConsoleSettings


def command(
    context: typer.Context,
    brokers: Annotated[
        str | None, typer.Argument(metavar="HOST:PORT[,...]", help="As --bootstrap-server.")
    ] = None,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Where to serve; 0: a free one.")
    ] = 8080,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on. There is no TLS.")
    ] = "127.0.0.1",
    command_config: CommandConfig = None,
    clusters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Several clusters: a TOML file with a table of settings for each, instead of"
            " --bootstrap-server, --command-config, --schema-registry and --tables.",
        ),
    ] = None,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Serve the forms that change something, too.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name by which browsers may reach it."),
    ] = None,
    disk_price: Annotated[
        float | None,
        typer.Option(metavar="PRICE", min=0, help="Of a GB on a broker's disk, a month."),
    ] = None,
    tier_price: Annotated[
        float | None,
        typer.Option(metavar="PRICE", min=0, help="Of a GB in remote storage, a month."),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A schema registry, to decode keys and values by."),
    ] = None,
    tables: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the Iceberg tables of topics are, to show them."),
    ] = None,
    namespace: Namespace = "redpanda",
    catalog_name: CatalogName = "wirekafka",
    catalog_properties: CatalogProperties = None,
) -> None:
    """Serve web pages about a Kafka cluster until Ctrl-C, SIGTERM or SIGHUP.

    With SASL but without sasl.jaas.config in the file of --command-config, visitors log in as
    users of the brokers, and are known to the schema registry by the same name and password.
    """
    try:
        from wirekafka.console.sampler import Sampler
        from wirekafka.console.service import clusters_server, console_server
        from wirekafka.console.settings import ConsoleSettings, Prices
        from wirekafka.server.text_logs import TextFormatter
    except ModuleNotFoundError as error:
        raise CliError(f"the console needs `pip install 'wirekafka[console]'`: {error}") from None
    if brokers is not None and _given(context, ["bootstrap"]):
        raise CliError("give the brokers once: as an argument, or by --bootstrap-server")
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(EqualLines(handler))
    handler.setFormatter(TextFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level="INFO")
    settings = ConsoleSettings(
        bootstrap=brokers or bootstrap,
        address=Address(host, port),
        allow_changes=allow_changes,
        hosts=frozenset(allow_host or ()),
        prices=Prices(disk=disk_price, tier=tier_price),
    )
    if clusters is not None:
        if wrong := _given(context, _OF_ONE):
            raise CliError(f"{wrong[0]} is for a console of one cluster, without --clusters")
        server = clusters_server(_of_several(clusters, settings), Sampler)
    else:
        place = None
        if tables is not None:
            place = table_place(tables, namespace, catalog_name, catalog_properties)
        one = _of_one(settings, command_config, schema_registry, place)
        server = console_server(one, Sampler)
    server.serve(lambda: print(f"wirekafka console: http://{server.address}/", flush=True))


def _of_one(
    settings: ConsoleSettings,
    command_config: Path | None,
    schema_registry: str | None,
    tables: TablePlace | None,
) -> ConsoleSettings:
    """The settings of a console of one cluster, whose brokers answer. Raises CliError."""
    from wirekafka.console.registry_access import URL, registry_of

    config = ClientConfig.read(command_config) if command_config else None
    registry = schema_registry or (config.sources.text(URL) if config else None)
    complete = replace(settings, config=config, schema_registry=registry, tables=tables)
    registry_of(complete)  # A URL that is none is reported now, not to the first visitor.
    if not complete.asks_for_login:
        with Client(complete.bootstrap, config) as client:
            client.any()
    return complete


def _of_several(file: Path, settings: ConsoleSettings) -> Sequence[ConsoleSettings]:
    """The settings of each cluster of a file. Some may not answer now. Raises CliError."""
    from wirekafka.console.cluster_file import read_clusters
    from wirekafka.console.registry_access import registry_of

    found = read_clusters(file, settings)
    for each in found:
        registry_of(each)
        if not each.asks_for_login:
            # Wrong addresses and credentials are reported; a cluster that is down is no mistake.
            Client(each.bootstrap, each.config).close()
    return found


def _given(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Which of these parameters the command line has; the environment does not count."""
    found = []
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            found.append(_OF_ONE.get(name, name))
    return found


_OF_ONE = {
    "brokers": "HOST:PORT",
    "bootstrap": "--bootstrap-server",
    "command_config": "--command-config",
    "schema_registry": "--schema-registry",
    "tables": "--tables",
}
"""The options whose place is in the file of several clusters."""
