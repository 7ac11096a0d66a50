"""Serves the requests of SASL listeners until a client has authenticated, and after its session."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Protocol

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.host import Host
from wirekafka.config.option import ConfigError
from wirekafka.coordinator.java_hash import java_map_order
from wirekafka.errors import KafkaError
from wirekafka.security.sasl.login import SASL_HANDSHAKE, Enabled, Expected, Login, LoginFailed
from wirekafka.security.sasl.mechanisms import Accounts, enabled_mechanisms
from wirekafka.security.sasl.scram import ALGORITHMS, Credential, TokenLogin
from wirekafka.security.tokens import TokenCredentials
from wirekafka.server.connections.authentications import Authentications
from wirekafka.server.connections.connection import refuse_size
from wirekafka.server.connections.jwks import KeyCache
from wirekafka.server.connections.parked_request import Parked
from wirekafka.server.connections.pipeline import (
    SMALLEST_REQUEST_BYTES,
    Buffer,
    Pipeline,
    Refused,
    RefusedLater,
    Serve,
)
from wirekafka.server.connections.replies import Replies

if TYPE_CHECKING:
    from collections.abc import Callable

    from wirekafka.config.broker_config import BrokerConfig

logger = logging.getLogger(__name__)


class Served(Protocol):
    """The connection, as its login changes it."""

    def serve_with(
        self, serve: Serve, limit_bytes: int, check_size: Callable[[int], None] | None = None
    ) -> None:
        """See `Connection.serve_with`."""


class Logins:
    """The SASL side of one listener: its mechanisms, and the logins of its connections.

    Its options apply from the listener's start to its end, as in Kafka: a right to change the
    configuration of a running broker is no right to choose who can log in.
    """

    def __init__(self, broker: Host, listener: str, pipeline: Pipeline, counts: Authentications):
        self.broker = broker
        self.counts = counts
        self.pipeline = pipeline
        self._listener = listener
        self._keys = KeyCache(broker.clock)
        self._tokens = TokenCredentials(broker.new_id)
        self._config: BrokerConfig = broker.config
        self.enabled = self._read(broker.config)

    async def start(self) -> None:
        """Fetch the keys of identity providers. Raises ConfigError if there are none."""
        await self._keys.start()

    def stop(self) -> None:
        """Stop fetching keys in the background."""
        self._keys.stop()

    @property
    def config(self) -> BrokerConfig:
        """The configuration as this listener sees it."""
        return self._config.for_listener(self._listener)

    async def configured(self) -> None:
        """Use the dynamic settings too, before the first connection; log unusable settings."""
        config = self.broker.config
        if config.sources == self._config.sources:
            return
        try:
            self.enabled = self._read(config)
        except ConfigError as error:
            logger.error("Listener %s starts without them: %s", self._listener, error)
            return
        self._config = config
        await self._keys.start()

    def guard(self, connection: Served, call: Call) -> None:
        """Require a login of a new connection before it is served."""
        Guard(self, connection, call)

    def _read(self, config: BrokerConfig) -> Enabled:
        accounts = Accounts(
            credential=self._credential,
            token=self._token,
            new_nonce=lambda: self.broker.new_id().hex(),
            keys=self._keys.lookup,
        )
        read = enabled_mechanisms(config, self._listener, accounts)
        # Kafka reports them in the order of a Java set.
        ordered = sorted(read.mechanisms, key=java_map_order)
        return Enabled({name: read.mechanisms[name] for name in ordered}, read.session_ms)

    def _credential(self, user: str, number: int) -> Credential | None:
        record = self.broker.image.security.scram.get((user, number))
        if record is None:
            return None
        return Credential(record.salt, record.iterations, record.stored_key, record.server_key)

    def _token(self, token_id: str, number: int) -> TokenLogin | None:
        secret = self.broker.config.delegation_token_secret_key
        record = self.broker.image.security.tokens.get(token_id)
        if record is None or not secret:
            return None
        [algorithm] = [each for each in ALGORITHMS.values() if each.number == number]
        return TokenLogin(
            self._tokens.credential(token_id, algorithm, secret),
            record.owner.partition(":")[2],
            record.expiration_timestamp,
        )


class Guard:
    """Stands between a connection and the pipeline while its client is not authenticated."""

    def __init__(self, logins: Logins, connection: Served, call: Call):
        self._logins = logins
        self._connection = connection
        self._login = call.client.login = Login(logins.enabled)
        self._begin(call)

    def _begin(self, call: Call) -> None:
        call.client.require_authentication()
        limit_bytes = self._logins.config.sasl_server_max_receive_size
        self._connection.serve_with(self.serve, limit_bytes, self._check_size)

    def _check_size(self, size_bytes: int) -> None:
        """Allow a bare token of any size up to the limit; the close for a larger one is delayed."""
        limit_bytes = self._logins.config.sasl_server_max_receive_size
        if not 0 <= size_bytes <= limit_bytes:
            raise self._later("a request of a size that is not allowed before authentication")
        if self._login.expected is not Expected.BARE_TOKEN:
            refuse_size(size_bytes)

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | None:
        """Serve one request or bare token of the login, as `Pipeline.serve` does."""
        answer = Replies()
        try:
            if self._login.expected is Expected.BARE_TOKEN:
                self._serve_bare(bytes(data[at:end]), call, answer)
            else:
                self._serve_request(memoryview(data)[at:end], call, answer)
        except LoginFailed as failure:
            raise self._later(failure.reason, answer) from None
        replies.append(answer)
        if self._login.expected is Expected.REQUESTS:
            self._complete(call)
        return None

    def _serve_request(self, frame: memoryview, call: Call, answer: Replies) -> None:
        key, login = frame[0] << 8 | frame[1], self._login
        pipeline = self._logins.pipeline
        try:
            if login.expected is Expected.NOTHING_MORE:
                raise self._later("another mechanism than before")
            if not login.admits(key):
                raise Refused("a request before authentication", f"API {key}")
        except LoginFailed as failure:
            pipeline.refuse(frame, _unexpected(frame, failure), call, answer)
            raise
        pipeline.serve(frame, 0, len(frame), call, answer)
        if login.failure is not None:
            raise login.failure

    def _serve_bare(self, token: bytes, call: Call, answer: Replies) -> None:
        step = self._login.respond(token, call.now_ms)
        answer.add_bare(step.token)

    def _complete(self, call: Call) -> None:
        login, counts = self._login, self._logins.counts
        if login.is_renewal:
            counts.renewals += 1
        else:
            counts.successes += 1
            # Of a bare token, this is the version of the handshake before it.
            counts.without_renewal += call.version == 0
        call.authenticated(f"User:{login.user}")
        serve = self._logins.pipeline.serve if login.expires_ms is None else self.serve_session
        limit_bytes = self._logins.config.socket_request_max_bytes
        self._connection.serve_with(serve, limit_bytes)

    def serve_session(
        self, data: Buffer, at: int, end: int, call: Call, replies: Replies
    ) -> Parked | None:
        """Serve a request of a session that has an end, as `Pipeline.serve` does."""
        login, now_ms = self._login, call.now_ms
        if data[at + 1] == SASL_HANDSHAKE and not data[at] and login.begin_again(now_ms):
            login.use(self._logins.enabled)
            self._begin(call)
            try:
                return self.serve(data, at, end, call, replies)
            except RefusedLater as refusal:
                # Unlike in a first login, Kafka neither answers nor counts a failed handshake:
                # what `_later` has counted is undone before anything can read it.
                self._logins.counts.failed_renewals -= 1
                raise Refused(refusal.kind) from None
        if login.is_expired(now_ms):
            raise Refused("a request after the end of its session")
        return self._logins.pipeline.serve(data, at, end, call, replies)

    def _later(self, reason: str, answer: Replies | None = None) -> RefusedLater:
        counts = self._logins.counts
        if self._login.is_renewal:
            counts.failed_renewals += 1
        else:
            counts.failures += 1
        delay_ms = self._logins.config.connection_failed_authentication_delay_ms
        return RefusedLater(f"failed authentication: {reason}", delay_ms, answer)


def _unexpected(frame: memoryview, failure: LoginFailed) -> KafkaError:
    """The error of a request that comes in place of a token, worded as Kafka words it."""
    found = registry.declared_as(int.from_bytes(frame[:2], "big"))
    name = found.name if found is not None else ""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return KafkaError(
        failure.error, f"Unexpected Kafka request of type {kind} during SASL authentication."
    )


assert SMALLEST_REQUEST_BYTES >= 2, "the API key is read without a check"
