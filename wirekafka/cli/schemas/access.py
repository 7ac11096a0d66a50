"""The schema registry that commands use: an option, a variable, or a property of clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wirekafka.client.client import CliError
from wirekafka.config.client_config import ClientConfig

if TYPE_CHECKING:
    from wirekafka.client.schema_registry import SchemaRegistry

RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        envvar="WIREKAFKA_SCHEMA_REGISTRY",
        metavar="URL",
        help="The schema registry; by default schema.registry.url of --command-config.",
    ),
]
SchemaType = Annotated[
    str | None,
    typer.Option(
        "--schema-type",
        metavar="TYPE",
        help="Schemas are files in this format, whatever their names: avro, json or protobuf.",
    ),
]


def opened_registry(url: str | None, command_config: Path | None) -> SchemaRegistry:
    """The registry of a URL or of the properties. Raises CliError, also if there is none."""
    from wirekafka.client.registry_settings import registry_of

    config = None if command_config is None else ClientConfig.read(command_config)
    registry = registry_of(config, url)
    if registry is None:
        raise CliError(
            "no schema registry: give --schema-registry URL, set WIREKAFKA_SCHEMA_REGISTRY,"
            " or schema.registry.url in the file of --command-config"
        )
    return registry
