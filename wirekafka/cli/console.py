"""`wirekafka console`: serves web pages about a Kafka cluster."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from wirekafka.cli.output import BOOTSTRAP, Bootstrap, CommandConfig
from wirekafka.cli.tables import CatalogName, CatalogProperties, Namespace, table_place
from wirekafka.client.client import Client, CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.server.equal_lines import EqualLines


def command(
    context: typer.Context,
    address: Annotated[
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

    With SASL but without sasl.jaas.config in FILE, visitors log in as users of the brokers, and
    are known to the schema registry by the same name and password.
    """
    try:
        from wirekafka.console.registry_access import URL, registry_of
        from wirekafka.console.sampler import Sampler
        from wirekafka.console.service import console_server
        from wirekafka.console.settings import ConsoleSettings, Prices
        from wirekafka.server.text_logs import TextFormatter
    except ModuleNotFoundError as error:
        raise CliError(f"the console needs `pip install 'wirekafka[console]'`: {error}") from None
    if address is not None:
        source = context.get_parameter_source("bootstrap")
        if source is not None and source.name == "COMMANDLINE":
            raise CliError("give the brokers once: as an argument, or by --bootstrap-server")
        bootstrap = address
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(EqualLines(handler))
    handler.setFormatter(TextFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level="INFO")
    config = ClientConfig.read(command_config) if command_config else None
    place = None
    if tables is not None:
        place = table_place(tables, namespace, catalog_name, catalog_properties)
    settings = ConsoleSettings(
        bootstrap=bootstrap,
        address=Address(host, port),
        config=config,
        allow_changes=allow_changes,
        hosts=frozenset(allow_host or ()),
        prices=Prices(disk=disk_price, tier=tier_price),
        schema_registry=schema_registry or (config.sources.text(URL) if config else None),
        tables=place,
    )
    registry_of(settings)  # A URL that is none is reported now, not to the first visitor.
    if not settings.asks_for_login:
        with Client(bootstrap, settings.config) as client:
            client.any()
    server = console_server(settings, Sampler)
    server.serve(lambda: print(f"wirekafka console: http://{server.address}/", flush=True))
