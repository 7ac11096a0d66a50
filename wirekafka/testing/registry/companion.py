"""The schema registry beside a broker under test: its server, its own user, and its faults."""

from __future__ import annotations

import secrets

from starlette.types import ASGIApp

from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.own import RegistryAccess
from wirekafka.registry.faults import SPARED_HEADER, RegistryFaults
from wirekafka.registry.instance.node_access import node_access
from wirekafka.registry.instance.service import RegistrySettings, registry_server, url_of
from wirekafka.testing.registry.schemas import Schemas
from wirekafka.web.web_server import WebServer

_SESSION_TIMEOUT_MS = 6_000
"""The shortest that brokers allow by default: a crashed registry is succeeded by then."""


class CompanionRegistry:
    """Starts and ends with its broker, always at the same port."""

    def __init__(self, host: str) -> None:
        self._host, self._port = host, 0
        self._server: WebServer | None = None
        self._key = secrets.token_urlsafe(16)
        self._faults = RegistryFaults(self._key)
        self.access: RegistryAccess | None = None
        """How brokers ask about schemas, while it serves."""
        self.url = ""
        """Where it serves, once it was started."""
        self.schemas = Schemas(self._client, self._faults)

    def start(self, bootstrap: str, config: ClientConfig | None) -> RegistryAccess:
        """Begin, and return once requests are served: how the broker asks about schemas.

        Raises CliError, OSError.
        """
        settings = RegistrySettings(
            bootstrap=bootstrap,
            address=Address(self._host, self._port),
            config=config,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            around=self._around,
        )
        self._server = server = registry_server(settings)
        server.start()
        try:
            server.wait_until_open()
        except BaseException:
            self.stop()
            raise
        self._port, self.url = server.address.port, url_of(server, settings)
        self.access = node_access(self.url, config)
        return self.access

    def stop(self) -> None:
        """End; a second call does nothing."""
        server, self._server, self.access = self._server, None, None
        if server is not None:
            server.stop()

    def reset(self) -> None:
        """End all faults, and forget the schemas of the broker's former data."""
        self.schemas.clear_faults()
        self.schemas.forget()

    def _around(self, app: ASGIApp, unrestricted: ASGIApp) -> ASGIApp:
        return self._faults.around(app, unrestricted)

    def _client(self) -> SchemaRegistry:
        """A client of the test itself: neither faults nor permissions concern it."""
        return SchemaRegistry(self.url, headers={SPARED_HEADER: self._key})
