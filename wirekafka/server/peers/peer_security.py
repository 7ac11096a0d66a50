"""TLS and SASL logins of this node's connections to the listeners of other nodes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import listeners
from wirekafka.config.endpoints.listeners import ListenerName
from wirekafka.config.option import ConfigError
from wirekafka.config.prefixed_names import STORES
from wirekafka.config.security_protocol import logs_in, uses_tls
from wirekafka.security import tls_context
from wirekafka.security.sasl import client, gssapi_client, mechanisms, oauthbearer
from wirekafka.security.sasl.client import ClientExchange
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.sasl.gssapi import KerberosUnavailable
from wirekafka.security.sasl.gssapi_client import KerberosLogin
from wirekafka.security.sasl.unsecured_tokens import unsigned_token
from wirekafka.security.tls_context import Secured, Settings

if TYPE_CHECKING:
    from wirekafka.server.peers.node_token import NodeToken
    from wirekafka.server.peers.ticket_renewal import TicketRenewal

logger = logging.getLogger(__name__)

_NONCE_BYTES = 24
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_TOKEN_ENDPOINT = f"{_OAUTH}OAuthBearerLoginCallbackHandler"
_UNSIGNED = f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"


class PeerSecurity:
    """The security of connections to one listener, which has the same name on every node.

    As in Kafka, the options of this node's listener of the same name apply: its key store and trust
    store, and the login module of its SASL mechanism. The stores are read again when they have
    changed, for the connections that follow; other options stay as they are, as in Kafka.
    """

    def __init__(
        self,
        listener: ListenerName,
        mechanism: Callable[[BrokerConfig], str],
        config: Callable[[], BrokerConfig],
    ):
        """`config` returns the current configuration, and `mechanism` its SASL mechanism.

        Raises ConfigError if the configuration cannot be used.
        """
        self.uses_tls = uses_tls(listener.protocol)
        self.logs_in = logs_in(listener.protocol)
        self._listener = listener.name
        self._current = config
        self._config = config()
        self.mechanism = mechanism(self._config)
        """The SASL mechanism; used only if `logs_in`."""
        self._secured: Secured | None = None
        self._settings: Settings | None = None
        self._token: NodeToken | None = None
        self._renewal: TicketRenewal | None = None
        if self.uses_tls:
            self.tls()
        if self.logs_in:
            self._check_login()

    @classmethod
    def between_brokers(cls, config: Callable[[], BrokerConfig]) -> PeerSecurity:
        """The security of connections to other brokers. Raises ConfigError.

        Options: `inter.broker.listener.name` or `security.inter.broker.protocol`.
        """
        return cls(
            listeners.between_brokers(config()),
            lambda own_config: own_config.sasl_mechanism_inter_broker_protocol,
            config,
        )

    @classmethod
    def to_controllers(cls, config: Callable[[], BrokerConfig]) -> PeerSecurity:
        """The security of connections to controllers. Raises ConfigError.

        Option: the first of `controller.listener.names`.
        """
        return cls(
            listeners.to_controllers(config()),
            lambda own_config: own_config.sasl_mechanism_controller_protocol,
            config,
        )

    def tls(self) -> Secured:
        """The TLS context for a new connection; the previous one if changed stores are unusable.

        It reads files, so that it is called in a thread. Raises ConfigError if there is no previous
        context.
        """
        changed = self._current().for_listener(self._listener)
        own = self._config.for_listener(self._listener).with_options_of(changed, STORES)
        settings = tls_context.settings_of(own)
        if self._secured is not None and settings == self._settings:
            return self._secured
        try:
            self._secured = tls_context.client_context(own)
        except ConfigError as error:
            if self._secured is None:
                raise
            logger.error("The previous certificates stay in use between nodes: %s", error)
        self._settings = settings
        return self._secured

    async def new_login(self, now_ms: int, host: str = "") -> ClientExchange:
        """Begin the client's side of a login at a host, whose name only Kerberos needs.

        Raises ConfigError, whose text has no password, and AuthenticationFailed without a token of
        the identity provider.
        """
        if self._token is not None:
            return client.BearerClient(await self._token.get(now_ms))
        if self._renewal is not None:
            self._renewal.start()
        return self._login_without_provider(now_ms, host)

    def _check_login(self) -> None:
        """Raise ConfigError unless the configuration has what a login needs."""
        own = self._config.for_listener(self._listener, self.mechanism)
        if self.mechanism == oauthbearer.NAME and (
            own.sasl_login_callback_handler_class == _TOKEN_ENDPOINT
        ):
            module = mechanisms.login_module(self._config, self._listener, self.mechanism)
            # Imported late: few nodes log in by tokens, which need an HTTP client.
            from wirekafka.server.peers.node_token import NodeToken

            self._token = NodeToken(own, module)
        else:
            self._login_without_provider(0, "")
            if self.mechanism == gssapi_client.NAME:
                from wirekafka.server.peers.ticket_renewal import TicketRenewal

                login = self._kerberos()
                self._renewal = TicketRenewal(own, login) if login.uses_cache else None

    def _login_without_provider(self, now_ms: int, host: str) -> ClientExchange:
        module = mechanisms.login_module(self._config, self._listener, self.mechanism)
        try:
            if self.mechanism == oauthbearer.NAME:
                self._require_unsigned()
                return client.BearerClient(unsigned_token(module, now_ms))
            if self.mechanism == gssapi_client.NAME:
                return self._kerberos().start(host)
            return client.exchange_of(
                self.mechanism, module, lambda: secrets.token_urlsafe(_NONCE_BYTES)
            )
        except (ValueError, AuthenticationFailed, KerberosUnavailable) as error:
            reason = f"cannot log in at other nodes by {self.mechanism}: {error}"
            raise ConfigError("sasl.jaas.config", "[hidden]", reason) from None

    def _kerberos(self) -> KerberosLogin:
        module = mechanisms.login_module(self._config, self._listener, self.mechanism)
        own = self._config.for_listener(self._listener, self.mechanism)
        return KerberosLogin.of(module, own.sasl_kerberos_service_name)

    def _require_unsigned(self) -> None:
        own = self._config.for_listener(self._listener, self.mechanism)
        handler = own.sasl_login_callback_handler_class
        if handler not in (None, _UNSIGNED):
            name = own.sources.configured_name("sasl.login.callback.handler.class")
            reason = (
                f"Java classes cannot be loaded; only {_TOKEN_ENDPOINT} and {_UNSIGNED} are known"
            )
            raise ConfigError(name, handler, reason)


PLAINTEXT = PeerSecurity(ListenerName("PLAINTEXT", "PLAINTEXT"), lambda _: "", BrokerConfig.of)
"""Neither TLS nor a login."""
