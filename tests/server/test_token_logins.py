"""A delegation token authenticates its owner until it expires."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.planted_secrets import planted
from tests.raw_client import frame, response_in
from tests.sasl_client import ScramClient
from tests.server.test_logins import Client, settings
from wirekafka.codec.message import Request
from wirekafka.config.prefixed_names import jaas_option
from wirekafka.errors import Error
from wirekafka.protocol.create_delegation_token import CreateDelegationTokenRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.protocol.envelope import DefaultPrincipalData, EnvelopeRequest
from wirekafka.protocol.expire_delegation_token import ExpireDelegationTokenRequest
from wirekafka.protocol.records.metadata import DelegationTokenRecord
from wirekafka.protocol.renew_delegation_token import RenewDelegationTokenRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest
from wirekafka.security.sasl.scram import LOGIN_MODULE

CHECK_MS = 10_000
_GUARDED = "GUARDED"
SECRET = planted("of-tokens")
SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
each_mechanism = pytest.mark.parametrize("mechanism", SCRAM)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def started(directory: Path, clock: ManualClock, **more: str) -> InProcessBroker:
    values = {
        "sasl.enabled.mechanisms": f"PLAIN,{','.join(SCRAM)}",
        **{jaas_option("SASL", each): f"{LOGIN_MODULE} required;" for each in SCRAM},
        "delegation.token.expiry.time.ms": str(3 * CHECK_MS),
        "delegation.token.expiry.check.interval.ms": str(CHECK_MS),
        **more,
    }
    return InProcessBroker(directory, clock, **settings(**values))


@pytest.fixture
def node(tmp_path: Path, clock: ManualClock) -> Iterator[InProcessBroker]:
    node = started(tmp_path, clock, delegation_token_secret_key=SECRET)
    yield node
    node.stop()


def create(node: InProcessBroker, owner: str = "", lifetime_ms: int = -1) -> Any:
    """Create a token as alice."""
    client = Client(node)
    client.log_in()
    named = {"owner_principal_type": "User", "owner_principal_name": owner} if owner else {}
    return client.ask(
        CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=lifetime_ms, **named), 3
    )


def begin(client: Client, token: Any, mechanism: str = "SCRAM-SHA-256") -> tuple[ScramClient, Any]:
    password = base64.b64encode(bytes(token.hmac)).decode()
    scram = ScramClient(token.token_id, password, SCRAM[mechanism], ",tokenauth=true")
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    return scram, client.ask(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)


def log_in(client: Client, token: Any, mechanism: str = "SCRAM-SHA-256") -> Any:
    """The response to the final message."""
    scram, challenge = begin(client, token, mechanism)
    final = SaslAuthenticateRequest(auth_bytes=scram.final(bytes(challenge.auth_bytes)))
    answer = client.ask(final, 2)
    assert scram.is_proven_by(bytes(answer.auth_bytes))
    return answer


def principal(client: Client) -> str:
    found: str = client.transport.protocol.call.principal
    return found


@each_mechanism
@pytest.mark.parametrize("owner", ["alice", "carol"])
def test_a_token_logs_in_as_its_owner(node: InProcessBroker, owner: str, mechanism: str) -> None:
    token = create(node, owner, lifetime_ms=5000)
    for _ in range(2):  # The second login finds the derived credential.
        client = Client(node)
        assert log_in(client, token, mechanism).session_lifetime_ms == 5000
        assert client.metadata().brokers
        assert principal(client) == f"User:{owner}"


def about_tokens(token: Any) -> list[tuple[Request, int]]:
    """A request of each kind about delegation tokens, with its version."""
    hmac = bytes(token.hmac)
    return [
        (CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3),
        (RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1), 2),
        (ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1), 2),
        (DescribeDelegationTokenRequest(owners=None), 3),
    ]


def test_a_login_by_token_may_not_manage_tokens(node: InProcessBroker) -> None:
    token = create(node)
    client = Client(node)
    log_in(client, token)
    for request, version in about_tokens(token):
        answer = client.ask(request, version)
        assert answer.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert node.broker.image.security.tokens


@pytest.fixture
def both_roles(tmp_path: Path, clock: ManualClock) -> Iterator[InProcessBroker]:
    """A node whose controllers' listener has SCRAM too, and one without logins."""
    jaas = jaas_option(_GUARDED, "SCRAM-SHA-256")
    node = started(
        tmp_path,
        clock,
        delegation_token_secret_key=SECRET,
        **{
            "listeners": "SASL://broker.test:9092,"
            f"{_GUARDED}://broker.test:9093,OPEN://broker.test:9094",
            "listener.security.protocol.map": (
                f"SASL:SASL_PLAINTEXT,{_GUARDED}:SASL_PLAINTEXT,OPEN:PLAINTEXT"
            ),
            "controller.listener.names": f"{_GUARDED},OPEN",
            "listener.name.guarded.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
            jaas: f"{LOGIN_MODULE} required username=node password=secret;",
        },
    )
    yield node
    node.stop()


def test_controllers_let_a_login_by_token_manage_none_either(both_roles: InProcessBroker) -> None:
    """Otherwise a token of a minute would be worth one of a week."""
    token = create(both_roles, lifetime_ms=60_000)
    client = Client(both_roles, ("broker.test", 9093))
    log_in(client, token)
    before = dict(both_roles.broker.image.security.tokens)
    for request, version in about_tokens(token):
        answer = client.ask(request, version)
        assert answer.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert both_roles.broker.image.security.tokens == before


def test_controllers_let_nobody_manage_tokens_who_has_not_logged_in(
    both_roles: InProcessBroker,
) -> None:
    token = create(both_roles)
    client = Client(both_roles, ("broker.test", 9094))
    for request, version in about_tokens(token):
        answer = client.ask(request, version)
        assert answer.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("by_token", [True, False])
def test_controllers_know_a_login_by_token_from_the_envelope_of_a_broker(
    both_roles: InProcessBroker, by_token: bool
) -> None:
    token = create(both_roles)
    broker = Client(both_roles, ("broker.test", 9094))
    alice = DefaultPrincipalData(type="User", name="alice", token_authenticated=by_token)
    for request, version in about_tokens(token)[:3]:
        wrapped = EnvelopeRequest(
            request_data=frame(request, version),
            request_principal=b"\0\0" + alice.encode(0),
            client_host_address=bytes([127, 0, 0, 1]),
        )
        envelope = broker.ask(wrapped, 0)
        assert envelope.error_code == Error.NONE
        answer = response_in(bytes(envelope.response_data), type(request), version)
        refused = Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if by_token else Error.NONE
        assert answer.error_code == refused


def test_a_wrong_hmac_does_not_log_in(node: InProcessBroker, clock: ManualClock) -> None:
    token = create(node)
    token.hmac = bytes(64)
    client = Client(node)
    scram, challenge = begin(client, token)
    client.send(SaslAuthenticateRequest(auth_bytes=scram.final(bytes(challenge.auth_bytes))), 2)
    clock.advance(100)
    answer = client.answer(SaslAuthenticateRequest, 2)
    assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
    assert client.is_closed


def test_a_removed_token_does_not_log_in_but_its_connections_stay(
    node: InProcessBroker, clock: ManualClock
) -> None:
    token = create(node)
    earlier = Client(node)
    log_in(earlier, token)
    owner = Client(node)
    owner.log_in()
    removal = ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=-1)
    assert owner.ask(removal, 2).error_code == 0
    later = Client(node)
    assert begin(later, token)[1] is None
    clock.advance(100)
    answer = later.answer(SaslAuthenticateRequest, 2)
    assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
    assert earlier.metadata().brokers


def test_a_session_ends_with_the_expiry_at_its_login(
    node: InProcessBroker, clock: ManualClock
) -> None:
    client = Client(node)
    log_in(client, create(node, lifetime_ms=5000))
    clock.advance(4999)
    assert client.metadata().brokers
    clock.advance(1)
    assert client.metadata() is None
    assert client.is_closed


def test_expired_tokens_are_removed_at_the_next_check(
    node: InProcessBroker, clock: ManualClock
) -> None:
    short, long = create(node, lifetime_ms=1), create(node)
    tokens = node.broker.image.security.tokens
    clock.advance(CHECK_MS - 1)
    assert set(tokens) == {short.token_id, long.token_id}
    clock.advance(1)
    assert set(tokens) == {long.token_id}
    clock.advance(3 * CHECK_MS)
    assert not tokens


def test_tokens_survive_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    first = started(tmp_path, clock, delegation_token_secret_key=SECRET)
    token = create(first)
    first.stop()
    second = started(tmp_path, clock, delegation_token_secret_key=SECRET)
    client = Client(second)
    log_in(client, token)
    assert principal(client) == "User:alice"
    clock.advance(4 * CHECK_MS)
    assert not second.broker.image.security.tokens
    second.stop()


def test_without_a_secret_key_tokens_are_disabled(tmp_path: Path, clock: ManualClock) -> None:
    node = started(tmp_path, clock)
    client = Client(node)
    client.log_in()
    for request, version in (
        (CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3),
        (RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1), 2),
        (ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), 2),
        (DescribeDelegationTokenRequest(owners=None), 3),
    ):
        answer = client.ask(request, version)
        assert answer.error_code == Error.DELEGATION_TOKEN_AUTH_DISABLED
    node.stop()


def test_records_logs_and_configs_reveal_no_hmac(
    node: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        token = create(node)
        client = Client(node)
        log_in(client, token)
    resource = DescribeConfigsRequest.Resource(
        resource_type=4, resource_name="1", configuration_keys=["delegation.token.secret.key"]
    )
    described = client.ask(DescribeConfigsRequest(resources=[resource]), 4)
    [config] = described.results[0].configs
    assert (config.value, config.is_sensitive) == (None, True)
    hmac = bytes(token.hmac)
    shown = [hmac.hex(), base64.b64encode(hmac).decode(), repr(hmac), SECRET]
    record = node.broker.image.security.tokens[token.token_id]
    assert isinstance(record, DelegationTokenRecord)
    texts = [caplog.text, repr(record)]
    assert not [each for each in shown for text in texts if each in text]
