"""wirekafka and Apache Kafka take turns on a directory with delegation tokens."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from compat_tests.test_tokens import DAY_MS, SECRET
from compat_tests.turns import Turn, Turns
from tests.eventually import eventually
from tests.sasl_client import SaslClient, ScramClient
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.create_delegation_token import CreateDelegationTokenRequest
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.protocol.expire_delegation_token import ExpireDelegationTokenRequest
from wirekafka.protocol.renew_delegation_token import RenewDelegationTokenRequest

_PASSWORD = "secret"
_USERS = ("alice", "bob")
_MODULES = "org.apache.kafka.common.security"
_LOGINS = " ".join(f'user_{user}="{_PASSWORD}"' for user in _USERS)
_SETTINGS = (
    "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name=PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol=PLAIN",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"listener.name.plaintext.plain.sasl.jaas.config={_MODULES}.plain.PlainLoginModule required "
    f'username="alice" password="{_PASSWORD}" {_LOGINS};',
    *(
        f"listener.name.plaintext.{mechanism}.sasl.jaas.config="
        f"{_MODULES}.scram.ScramLoginModule required;"
        for mechanism in ("scram-sha-256", "scram-sha-512")
    ),
    f"delegation.token.secret.key={SECRET}",
)


class TokenTurn(Turn):
    """The broker that is running, and a login of each user."""

    def __init__(self, bootstrap: str):
        self._port = int(bootstrap.rpartition(":")[2])
        self._clients = {}
        for user in _USERS:
            client = self._clients[user] = SaslClient(self._port)
            assert client.log_in_plain(user, _PASSWORD).error_code == 0

    def close(self) -> None:
        for client in self._clients.values():
            client.socket.close()

    def create(self, user: str, *renewers: str, lifetime_ms: int = -1) -> Any:
        """A new token, once the broker accepts it."""
        part = CreateDelegationTokenRequest.CreatableRenewers
        named = [part(principal_type="User", principal_name=name) for name in renewers]
        request = CreateDelegationTokenRequest(renewers=named, max_lifetime_ms=lifetime_ms)
        token = self._asked(user, request, 3)
        eventually(lambda: token.token_id in self.tokens())
        return token

    def renew(self, user: str, token: Any, period_ms: int) -> None:
        """Move the token's expiry, and wait until the broker shows it."""
        request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms)
        expiry_ms = self._asked(user, request, 2).expiry_timestamp_ms
        eventually(lambda: self.tokens()[token.token_id].expiry_timestamp == expiry_ms)

    def remove(self, user: str, token: Any) -> None:
        request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        self._asked(user, request, 2)
        eventually(lambda: token.token_id not in self.tokens())

    def tokens(self) -> dict[str, Any]:
        """All tokens by id, as their owners and renewers see them."""
        request = DescribeDelegationTokenRequest(owners=None)
        return {
            token.token_id: token
            for user in _USERS
            for token in self._asked(user, request, 3).tokens
        }

    def logs_in(self, token: Any, mechanism: str) -> bool:
        """Whether a client gets in with the token."""
        password = base64.b64encode(token.hmac).decode()
        algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        scram = ScramClient(token.token_id, password, algorithm, ",tokenauth=true")
        with SaslClient(self._port) as client:
            client.handshake(mechanism)
            first = client.authenticate(scram.first())
            if first.error_code:
                assert first.error_code == Error.SASL_AUTHENTICATION_FAILED
                return False
            final = client.authenticate(scram.final(bytes(first.auth_bytes)))
            assert final.error_code == 0 and scram.is_proven_by(bytes(final.auth_bytes))
            return True

    def _asked(self, user: str, request: Request, version: int) -> Any:
        response = self._clients[user].call(request, version)
        assert response.error_code == 0, response
        return response


@pytest.mark.timeout(200)
def test_engines_alternate_on_delegation_tokens(tmp_path: Path) -> None:
    turns = Turns(tmp_path / "data", tmp_path, _SETTINGS, TokenTurn)
    with turns.ours() as ours:
        first = ours.create("alice", "bob")
        second = ours.create("bob", lifetime_ms=DAY_MS // 2)
        removed = ours.create("bob")
        ours.remove("bob", removed)
        before = ours.tokens()
        assert set(before) == {first.token_id, second.token_id}
    with turns.kafka() as kafka:
        assert kafka.tokens() == before
        assert kafka.logs_in(first, "SCRAM-SHA-256") and kafka.logs_in(second, "SCRAM-SHA-512")
        assert not kafka.logs_in(removed, "SCRAM-SHA-256")
        kafka.renew("bob", first, DAY_MS * 2)
        kafka.remove("bob", second)
        third = kafka.create("alice")
        before = kafka.tokens()
    with turns.ours() as ours:
        assert ours.tokens() == before and set(before) == {first.token_id, third.token_id}
        assert ours.logs_in(first, "SCRAM-SHA-512") and ours.logs_in(third, "SCRAM-SHA-256")
        assert not ours.logs_in(second, "SCRAM-SHA-512")
        ours.renew("alice", third, DAY_MS)
        ours.remove("alice", first)
        before = ours.tokens()
    with turns.kafka() as kafka:
        assert kafka.tokens() == before and set(before) == {third.token_id}
        assert kafka.logs_in(third, "SCRAM-SHA-256")
