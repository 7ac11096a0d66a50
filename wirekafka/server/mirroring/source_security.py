"""TLS and SASL logins of connections to a mirror's source, by the properties of a Kafka client."""

from __future__ import annotations

from wirekafka.client.login import login_of
from wirekafka.config.client_config import ClientConfig
from wirekafka.security import tls_context
from wirekafka.security.sasl.client import ClientExchange
from wirekafka.security.tls_context import Secured, Settings


class SourceSecurity:
    """The security of connections to the source (`ConnectionSecurity`).

    The stores of certificates are read again when they have changed.
    """

    def __init__(self, config: ClientConfig):
        """Raises ConfigError if the properties cannot be used."""
        self.uses_tls = config.uses_tls
        self.logs_in = config.logs_in
        self.mechanism = config.sasl_mechanism
        self._config = config
        self._secured: Secured | None = None
        self._settings: Settings | None = None
        if self.uses_tls:
            self.tls()
        if self.logs_in:
            login_of(config)

    def tls(self) -> Secured:
        """The TLS context for a new connection. Raises ConfigError."""
        settings = tls_context.settings_of(self._config)
        if self._secured is None or settings != self._settings:
            self._secured = tls_context.client_context(self._config)
            self._settings = settings
        return self._secured

    async def new_login(self, now_ms: int, host: str = "") -> ClientExchange:
        """Begin the client's side of a login. Raises ConfigError."""
        return login_of(self._config)
