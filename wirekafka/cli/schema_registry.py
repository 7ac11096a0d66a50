"""`wirekafka schema-registry`: serves a schema registry over the topic `_schemas` of a cluster."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from wirekafka.cli.output import CommandConfig
from wirekafka.client.client import CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.server.equal_lines import EqualLines


def command(
    bootstrap: Annotated[
        str,
        typer.Argument(
            envvar="WIREKAFKA_BOOTSTRAP", metavar="HOST:PORT[,...]", help="Bootstrap brokers."
        ),
    ],
    *,
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Where to serve; 0: a free one.")
    ] = 8081,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    command_config: CommandConfig = None,
    advertised_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="How other instances reach this one, as http://HOST:PORT."
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Serve with TLS: a certificate, and perhaps its key."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of the certificate.")
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The authority of the other instances' certificates."),
    ] = None,
) -> None:
    """Serve a schema registry until Ctrl-C, SIGTERM or SIGHUP.

    Several instances of one cluster elect a leader, and pass writes on to it. With SASL, users log
    in by HTTP Basic with their passwords of the brokers, and the brokers' ACLs apply.
    """
    try:
        from wirekafka.registry.instance.election import InstanceIdentity
        from wirekafka.registry.instance.service import RegistrySettings, registry_server, url_of
        from wirekafka.server.text_logs import TextFormatter
        from wirekafka.web.tls import client_context, server_context
    except ModuleNotFoundError as error:
        reason = f"the schema registry needs `pip install 'wirekafka[registry]'`: {error}"
        raise CliError(reason) from None
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(EqualLines(handler))
    handler.setFormatter(TextFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level="INFO")
    advertised = None
    if advertised_url is not None:
        url = urlsplit(advertised_url)
        try:
            port_of_url = url.port or (443 if url.scheme == "https" else 80)
            fields = {"scheme": url.scheme, "host": url.hostname, "port": port_of_url}
            advertised = InstanceIdentity.of(fields)
        except ValueError:
            raise CliError(f"bad URL {advertised_url!r}: expected http://HOST:PORT") from None
    settings = RegistrySettings(
        bootstrap=bootstrap,
        address=Address(host, port),
        config=ClientConfig.read(command_config) if command_config else None,
        advertised=advertised,
        tls=None if certificate is None else server_context(certificate, key),
        leader_tls=client_context(authority),
    )
    server = registry_server(settings)
    server.serve(
        lambda: print(f"wirekafka schema registry: {url_of(server, settings)}", flush=True)
    )
