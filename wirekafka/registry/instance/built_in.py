"""The schema registry of `serve --schema-registry`: in the process of a broker.

It has threads and an event loop of its own, and connects to the broker as any client does, so that
all records of `_schemas` are the broker's and several brokers may have one registry each. Its
threads share the interpreter with the broker: they hand it over after at most a millisecond.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from wirekafka.config.address import ANYWHERE, Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.endpoints.listeners import ListenerEndpoint, listeners
from wirekafka.config.option import ConfigError
from wirekafka.config.own import (
    SCHEMA_REGISTRY_CERTIFICATE,
    SCHEMA_REGISTRY_CLIENT,
    SCHEMA_REGISTRY_KEY,
    SCHEMA_REGISTRY_LISTENER,
    schema_registry_listener,
)
from wirekafka.registry.instance.node_access import node_access
from wirekafka.registry.instance.service import RegistrySettings, registry_server, url_of
from wirekafka.web.tls import server_context
from wirekafka.web.web_server import WebServer

if TYPE_CHECKING:
    from wirekafka.server.monitoring.service import Monitoring
    from wirekafka.server.node import Node

logger = logging.getLogger(__name__)

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_HAND_OVER_S = 0.001


class BuiltInRegistry:
    """A registry that runs while its node serves."""

    counts_requests = False

    def __init__(self, config: BrokerConfig, own_login: ClientConfig | None = None) -> None:
        """`own_login` is what `--secure` has made for the administrator. Raises ConfigError."""
        if "broker" not in config.process_roles:
            raise ConfigError(SCHEMA_REGISTRY_LISTENER, None, "only a broker has a schema registry")
        self._client = _client_config(config, listeners(config).bound[0], own_login)
        self._config = config
        sources = config.sources
        certificate = sources.static_value(SCHEMA_REGISTRY_CERTIFICATE)
        key = sources.static_value(SCHEMA_REGISTRY_KEY)
        self._tls = (
            server_context(Path(certificate), Path(key) if key else None) if certificate else None
        )
        self._server: WebServer | None = None
        self.url: str | None = None
        """Where clients on this machine reach it; None before it serves."""

    def serving(self, node: Node, monitoring: Monitoring | None) -> None:
        """Serve as soon as the topic is read; call it on the node's event loop. Raises OSError."""
        address = schema_registry_listener(self._config.sources)
        assert address is not None
        host, port = node.address
        settings = RegistrySettings(
            bootstrap=str(Address("127.0.0.1" if host in ANYWHERE else host, port)),
            address=address,
            config=self._client,
            tls=self._tls,
            waits_for_brokers=True,
        )
        if address.host not in _LOOPBACK and self._tls is None:
            logger.warning("The schema registry at http://%s is served without TLS", address)
        sys.setswitchinterval(min(sys.getswitchinterval(), _HAND_OVER_S))
        self._server = server = registry_server(settings)
        server.start()
        name, self.url = "schema-registry-start", url_of(server, settings)
        certificate = self._config.sources.static_value(SCHEMA_REGISTRY_CERTIFICATE)
        trusted = Path(certificate) if certificate else None
        node.validate_by(node_access(self.url, self._client, trusted))
        threading.Thread(target=_report, args=(server, self.url), name=name, daemon=True).start()

    async def stopping(self) -> None:
        """Serve no more; the node still answers, so that the registry can leave its group."""
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)


def _report(server: WebServer, url: str) -> None:
    try:
        server.wait_until_open()
    except Exception as error:
        logger.error("The schema registry cannot be served: %s", error)
    else:
        logger.info("The schema registry is served at %s", url)


def _client_config(
    config: BrokerConfig, listener: ListenerEndpoint, own_login: ClientConfig | None
) -> ClientConfig | None:
    """The settings of connections to the broker. Raises ConfigError if they need a file."""
    file = config.sources.static_value(SCHEMA_REGISTRY_CLIENT)
    if file:
        return ClientConfig.read(Path(file))
    if own_login is not None:
        return own_login
    if listener.protocol == "PLAINTEXT":
        return None
    message = (
        f"the schema registry needs --schema-registry-config FILE: {listener.name} has"
        f" {listener.protocol}"
    )
    raise ConfigError(SCHEMA_REGISTRY_CLIENT, None, message, message)
