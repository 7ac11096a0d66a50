"""The console of `serve --console`: in the process of a broker, on threads of its own.

The console connects to the broker as any client does, so that users and ACLs apply. Values without
a request in Kafka's protocol are read on the broker's event loop, in steps of a millisecond. The
console's threads share the interpreter with the broker: they hand it over after at most a
millisecond.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wirekafka.client.credentials import MECHANISMS
from wirekafka.client.pool import ClientPool
from wirekafka.config.address import ANYWHERE, Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.endpoints.listeners import ListenerEndpoint, listeners
from wirekafka.config.option import ConfigError
from wirekafka.config.own import (
    CONSOLE_CLIENT,
    CONSOLE_LISTENER,
    SCHEMA_REGISTRY_CERTIFICATE,
    console_allows_changes,
    console_listener,
    tables_url,
)
from wirekafka.config.table_place import TablePlace
from wirekafka.console.insight import Inside
from wirekafka.console.sampler import Sampler
from wirekafka.console.service import console_server
from wirekafka.console.settings import LOOPBACK, ConsoleSettings
from wirekafka.console.source import Source
from wirekafka.server.monitoring.service import Monitoring
from wirekafka.server.monitoring.wire_tap import WireWatches
from wirekafka.server.node import Node
from wirekafka.web.web_server import WebServer

if TYPE_CHECKING:
    from wirekafka.registry.instance.built_in import BuiltInRegistry

logger = logging.getLogger(__name__)

_HAND_OVER_S = 0.001


class BuiltInConsole:
    """A console that runs while its node serves."""

    counts_requests = True

    def __init__(
        self, config: BrokerConfig, authority: Path | None, registry: BuiltInRegistry | None = None
    ) -> None:
        """`authority` is the certificate that `--secure` has made. Raises ConfigError.

        `registry` is the schema registry of the same broker, which serves before the console.
        """
        if "broker" not in config.process_roles:
            raise ConfigError(CONSOLE_LISTENER, None, "only a broker has a console")
        self._listener = listeners(config).bound[0]
        self._client = _client_config(config, self._listener, authority)
        self._config, self._registry = config, registry
        self._tables = _table_place(config)
        self._server: WebServer | None = None
        self._inside: Inside | None = None

    def serving(self, node: Node, monitoring: Monitoring | None) -> None:
        """Serve pages; call it on the node's event loop. Raises OSError."""
        address = console_listener(self._config.sources)
        assert address is not None and monitoring is not None and monitoring.lag is not None
        host, port = node.address
        certificate = self._config.sources.static_value(SCHEMA_REGISTRY_CERTIFICATE)
        settings = ConsoleSettings(
            bootstrap=str(Address("127.0.0.1" if host in ANYWHERE else host, port)),
            address=address,
            config=self._client,
            allow_changes=console_allows_changes(self._config.sources),
            schema_registry=None if self._registry is None else self._registry.url,
            registry_certificate=Path(certificate) if certificate else None,
            tables=self._tables,
            mirrors=node.mirroring is not None,
        )
        if address.host not in LOOPBACK:
            logger.warning("The console at http://%s is served without TLS", address)

        sys.setswitchinterval(min(sys.getswitchinterval(), _HAND_OVER_S))
        inside = self._inside = Inside(node, monitoring.measures, monitoring.lag)

        wire = WireWatches(node, asyncio.get_running_loop())

        def open_source(pool: ClientPool) -> Source:
            return Sampler(pool, inside, wire)

        self._server = console_server(settings, open_source)
        self._server.start()
        logger.info("The console is served at http://%s/", self._server.address)

    async def stopping(self) -> None:
        """Serve no more pages."""
        if self._inside is not None:
            self._inside.close()
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)


def _table_place(config: BrokerConfig) -> TablePlace | None:
    """Where the broker's tables are; None if it has none. Raises ConfigError."""
    if tables_url(config.sources) is None:
        return None
    from wirekafka.server.tabling.settings import TablingSettings

    settings = TablingSettings.of(config)
    assert settings is not None, "there is a URL"
    properties = dict(settings.catalog)
    name = properties.pop("name")
    return TablePlace(settings.url, settings.namespace, name, properties)


def _client_config(
    config: BrokerConfig, listener: ListenerEndpoint, authority: Path | None
) -> ClientConfig | None:
    """The settings of connections to the broker. Raises ConfigError if they need a file."""
    file = config.sources.static_value(CONSOLE_CLIENT)
    if file:
        return ClientConfig.read(Path(file))
    if listener.protocol == "PLAINTEXT":
        return None
    values = {"security.protocol": listener.protocol}
    if listener.protocol.startswith("SASL_"):
        enabled = config.for_listener(listener.name).sasl_enabled_mechanisms
        mechanism = next((each for each in MECHANISMS if each in enabled), None)
        if mechanism is None:
            raise _needs_file(f"none of {', '.join(MECHANISMS)} is in sasl.enabled.mechanisms")
        # This broker may be sent passwords: it has the console in its own process.
        values["sasl.mechanism"] = "PLAIN" if "PLAIN" in enabled else mechanism
    if listener.protocol.endswith("SSL"):
        if authority is None:
            raise _needs_file(f"{listener.name} has TLS")
        values |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    return ClientConfig(values, "the console")


def _needs_file(reason: str) -> ConfigError:
    message = f"the console needs --console-config FILE: {reason}"
    return ConfigError(CONSOLE_CLIENT, None, reason, message)
