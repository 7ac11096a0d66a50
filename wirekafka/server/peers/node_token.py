"""The access token by which this node logs in at other nodes, fetched ahead of expiry."""

from __future__ import annotations

import asyncio
import http.client
import logging
import ssl
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.reference import reason_about, revealed
from wirekafka.config.small_file import MOST_BYTES, read_small_file
from wirekafka.runtime.backoff import Backoff
from wirekafka.security import tls_context
from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.sasl.oauthbearer import TokenRefused
from wirekafka.security.sasl.token_endpoint import AccessToken, RefreshTimes, TokenEndpoint

logger = logging.getLogger(__name__)

_TIMEOUT_MS = 10_000
"""The limit where a timeout is not set; Kafka waits for ever then."""
_SUCCESSES = (200, 201)


@dataclass(frozen=True, slots=True)
class TokenFetchTimes:
    """The longest times for connecting to a provider and reading its response, and for retries."""

    connect_s: float
    read_s: float
    backoff: Backoff

    @classmethod
    def of(cls, config: BrokerConfig) -> TokenFetchTimes:
        """Read the options `sasl.login.*`."""
        return cls(
            (config.sasl_login_connect_timeout_ms or _TIMEOUT_MS) / 1000,
            (config.sasl_login_read_timeout_ms or _TIMEOUT_MS) / 1000,
            Backoff(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms),
        )


class NodeToken:
    """A token for logins at the listeners of other nodes; all logins share one request for it."""

    def __init__(self, config: BrokerConfig, module: LoginModule):
        """`config` is the configuration of the mechanism on this node's listener.

        Raises ConfigError.
        """
        self._endpoint = TokenEndpoint.of(config, module)
        self._tls = _context(module)
        self._fetching = TokenFetchTimes.of(config)
        self._times = RefreshTimes(
            config.sasl_login_refresh_window_factor,
            config.sasl_login_refresh_window_jitter,
            config.sasl_login_refresh_min_period_seconds,
            config.sasl_login_refresh_buffer_seconds,
        )
        self._token: AccessToken | None = None
        self._due_ms = 0.0
        self._failures = 0
        self._reason = ""
        self._task: asyncio.Task[None] | None = None

    async def get(self, now_ms: int) -> str:
        """A valid token; a new token is fetched if the last token expires soon.

        While the provider fails, the last token is used as long as it is valid. Raises
        AuthenticationFailed.
        """
        if now_ms >= self._due_ms:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._renew(now_ms))
            # Other logins may wait for the request when this login has been given up.
            await asyncio.shield(self._task)
        if self._token is None or now_ms >= self._token.expires_ms:
            raise AuthenticationFailed(f"no access token from {self._endpoint.url}: {self._reason}")
        return self._token.text

    async def _renew(self, now_ms: int) -> None:
        try:
            async with asyncio.timeout(self._fetching.connect_s + self._fetching.read_s):
                token = await asyncio.to_thread(self._fetch, now_ms)
            if now_ms >= token.expires_ms:
                raise TokenRefused("the token has expired")
            self._token, self._failures = token, 0
            self._due_ms = self._times.due_ms(token, now_ms)
        except (OSError, ValueError, TokenRefused) as error:
            self._due_ms = now_ms + self._fetching.backoff.delay_ms(self._failures)
            self._failures += 1
            reason = str(error) or type(error).__name__
            self._reason = reason_about(self._endpoint.url, reason)
            logger.warning("No new access token from %s: %s", self._endpoint.url, self._reason)
        finally:
            self._task = None

    def _fetch(self, now_ms: int) -> AccessToken:
        """Fetch a token, in a thread. Raises OSError, ValueError, TokenRefused."""
        endpoint = self._endpoint
        parts = urlsplit(revealed(endpoint.url))
        if endpoint.is_file:
            text = read_small_file(url2pathname(parts.path))
            return endpoint.read_token(text.decode(errors="replace"))
        form = endpoint.form(now_ms)
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        try:
            # Redirections are not followed: they would send the secret to somebody else.
            with closing(self._connection(parts.scheme.lower(), parts.netloc)) as connection:
                connection.connect()
                connection.sock.settimeout(self._fetching.read_s)
                connection.request("POST", path, form.body, dict(form.headers))
                response = connection.getresponse()
                body = response.read(MOST_BYTES + 1)
        except http.client.HTTPException as error:
            raise OSError(type(error).__name__) from None
        if response.status not in _SUCCESSES:
            # The body may repeat what was sent.
            raise OSError(f"its response has the status {response.status}")
        if len(body) > MOST_BYTES:
            raise OSError(f"its response is larger than {MOST_BYTES} bytes")
        return endpoint.read_response(body)

    def _connection(self, scheme: str, address: str) -> http.client.HTTPConnection:
        host = address.rpartition("@")[2]
        if scheme == "https":
            return http.client.HTTPSConnection(
                host, timeout=self._fetching.connect_s, context=self._tls
            )
        return http.client.HTTPConnection(host, timeout=self._fetching.connect_s)


def _context(module: LoginModule) -> ssl.SSLContext:
    """The TLS context by the login module's `ssl.*` options. Raises ConfigError."""
    options = {name: text for name, text in module.options.items() if name.startswith("ssl.")}
    if not options:
        return ssl.create_default_context()
    return tls_context.client_context(BrokerConfig.of(options)).context
