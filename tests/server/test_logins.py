"""Logins of a complete node in memory, under a manual clock."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.memory_net import MemoryConnection
from tests.memory_transport import Address
from tests.planted_secrets import planted
from tests.raw_client import frame, response_in
from tests.sasl_client import SOFTWARE, plain
from wirekafka.codec.message import Request
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
DELAY_MS = 100
ALICE, BOB = planted("alice"), planted("bob")
"""The passwords of the users."""


def settings(**more: str) -> dict[str, str]:
    return {
        "listeners": "SASL://broker.test:9092",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'{MODULE} required user_alice="{ALICE}" user_bob="{BOB}";'
        ),
        **more,
    }


class Client:
    """A connection in memory."""

    def __init__(self, node: InProcessBroker, address: Address | None = None):
        self.transport: MemoryConnection = node.net.open(address or node.node.address)

    def send(self, request: Request, version: int) -> None:
        self.bare(frame(request, version, 1))

    def bare(self, payload: bytes) -> None:
        self.transport.feed(struct.pack(">i", len(payload)) + payload)

    def received(self) -> bytes:
        """Take what has arrived so far."""
        data = bytes(self.transport.received)
        self.transport.received.clear()
        return data

    def ask(self, request: Request, version: int) -> Any:
        """The response to a request; None if there is none."""
        self.send(request, version)
        return self.answer(type(request), version)

    def answer(self, request: type[Request], version: int) -> Any:
        data = self.received()
        if not data:
            return None
        return response_in(data[4:], request, version)

    def log_in(self, user: str = "alice", password: str = ALICE) -> Any:
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        return self.ask(SaslAuthenticateRequest(auth_bytes=plain(user, password)), 2)

    def metadata(self) -> Any:
        return self.ask(MetadataRequest(topics=[]), 9)

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closing()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def node(tmp_path: Path, clock: ManualClock) -> Iterator[InProcessBroker]:
    started = InProcessBroker(tmp_path, clock, **settings())
    yield started
    started.stop()


def test_nothing_is_served_before_the_login(node: InProcessBroker) -> None:
    client = Client(node)
    assert client.metadata() is None
    assert client.is_closed


@pytest.mark.parametrize("version", [2, 4])
def test_a_coordinator_sought_before_the_login_is_refused_in_the_words_of_the_error(
    node: InProcessBroker, clock: ManualClock, version: int
) -> None:
    client = Client(node)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    client.send(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
    clock.advance(DELAY_MS)
    answer = client.answer(FindCoordinatorRequest, version)
    found = answer.coordinators[0] if version == 4 else answer
    assert (found.error_code, found.error_message) == (
        Error.ILLEGAL_SASL_STATE,
        "Request is not valid given the current SASL state.",
    )


def test_requests_are_served_after_the_login(node: InProcessBroker) -> None:
    client = Client(node)
    assert client.ask(ApiVersionsRequest(**SOFTWARE), 3).error_code == 0
    assert client.log_in().error_code == 0
    assert client.metadata().brokers


def test_pipelined_requests_are_served_under_the_new_identity(node: InProcessBroker) -> None:
    client = Client(node)
    token = SaslAuthenticateRequest(auth_bytes=plain("alice", ALICE))
    requests = [(SaslHandshakeRequest(mechanism="PLAIN"), 1), (token, 2)]
    requests.append((MetadataRequest(topics=[]), 9))
    payloads = [frame(request, version, 1) for request, version in requests]
    client.transport.feed(b"".join(struct.pack(">i", len(each)) + each for each in payloads))
    data, sizes = client.received(), []
    while data:
        size = int.from_bytes(data[:4], "big")
        sizes.append(size)
        data = data[4 + size :]
    assert len(sizes) == 3 and not client.is_closed


def test_a_failed_login_gets_its_response_and_is_closed_after_the_delay(
    node: InProcessBroker, clock: ManualClock
) -> None:
    client, other = Client(node), Client(node)
    assert client.log_in(password="wrong") is None
    client.send(MetadataRequest(topics=[]), 9)
    clock.advance(DELAY_MS - 1)
    assert not client.received() and not client.is_closed
    assert other.log_in().error_code == 0, "nobody else waits"
    clock.advance(1)
    answer = client.answer(SaslAuthenticateRequest, 2)
    assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert client.is_closed


def test_a_client_that_leaves_during_the_delay_is_forgotten(
    node: InProcessBroker, clock: ManualClock
) -> None:
    client = Client(node)
    client.log_in(password="wrong")
    client.transport.hang_up()
    clock.advance(DELAY_MS)
    assert not client.received()
    assert node.node.listeners[0].connections == 0


def test_the_delay_can_be_switched_off(tmp_path: Path, clock: ManualClock) -> None:
    quick = {"connection.failed.authentication.delay.ms": "0"}
    node = InProcessBroker(tmp_path, clock, **settings(**quick))
    client = Client(node)
    client.log_in(password="wrong")
    clock.advance(0)
    assert client.received() and client.is_closed
    node.stop()


def test_failures_are_logged_once_per_peer_and_reason_without_secrets(
    node: InProcessBroker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for password in ("hush-1", "hush-2", "hush-3"):
            Client(node).log_in(password=password)
        clock.advance(DELAY_MS)
        Client(node).metadata()
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "Invalid username or password" in line]) == 1
    assert len([line for line in lines if "before authentication" in line]) == 1
    assert not any("hush" in line or "secret" in line for line in lines)


@pytest.mark.parametrize("size_bytes", [-1, (1 << 19) + 1, 100 << 20])
def test_large_requests_are_refused_before_the_login(
    size_bytes: int, node: InProcessBroker, clock: ManualClock
) -> None:
    client = Client(node)
    client.transport.feed(struct.pack(">i", size_bytes) + b"x" * 100)
    clock.advance(DELAY_MS)
    assert client.is_closed and not client.received()


def test_the_limit_before_the_login_ends_with_it(tmp_path: Path, clock: ManualClock) -> None:
    node = InProcessBroker(tmp_path, clock, **settings(**{"sasl.server.max.receive.size": "100"}))
    client = Client(node)
    client.log_in()
    topics = [MetadataRequest.Topic(name="x" * 200)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    assert client.ask(request, 9).topics
    node.stop()


def test_the_size_of_bare_tokens_is_limited_too(node: InProcessBroker, clock: ManualClock) -> None:
    client = Client(node)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
    client.transport.feed(struct.pack(">i", (1 << 19) + 1))
    clock.advance(DELAY_MS)
    assert client.is_closed and not client.received()


# Sessions (KIP-368).

SESSION = {"listener.name.sasl.plain.connections.max.reauth.ms": "5000"}


@pytest.fixture
def limited(tmp_path: Path, clock: ManualClock) -> Iterator[InProcessBroker]:
    started = InProcessBroker(tmp_path, clock, **settings(**SESSION))
    yield started
    started.stop()


def test_a_session_ends_at_its_next_request(limited: InProcessBroker, clock: ManualClock) -> None:
    client = Client(limited)
    assert client.log_in().session_lifetime_ms == 5000
    clock.advance(4999)
    assert client.metadata().brokers
    clock.advance(1)
    assert not client.is_closed
    assert client.metadata() is None
    assert client.is_closed


def test_a_session_is_renewed(limited: InProcessBroker, clock: ManualClock) -> None:
    client = Client(limited)
    client.log_in()
    for _ in range(3):
        clock.advance(4000)
        assert client.log_in().session_lifetime_ms == 5000
    assert client.metadata().brokers


def test_a_session_is_renewed_even_late(limited: InProcessBroker, clock: ManualClock) -> None:
    client = Client(limited)
    client.log_in()
    clock.advance(60_000)
    assert client.log_in().error_code == 0
    assert client.metadata().brokers


def test_a_renewal_cannot_change_the_user(limited: InProcessBroker, clock: ManualClock) -> None:
    client = Client(limited)
    client.log_in()
    assert client.log_in("bob", BOB) is None
    clock.advance(DELAY_MS)
    answer = client.answer(SaslAuthenticateRequest, 2)
    assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in answer.error_message
    assert client.is_closed


def test_nothing_is_served_while_a_session_is_renewed(limited: InProcessBroker) -> None:
    client = Client(limited)
    client.log_in()
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    client.metadata()
    assert not client.received()


def test_renewals_are_limited_to_one_a_second(limited: InProcessBroker, clock: ManualClock) -> None:
    client = Client(limited)
    client.log_in()
    client.log_in()
    again = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert again.error_code == Error.ILLEGAL_SASL_STATE
    assert client.metadata().brokers
    clock.advance(1000)
    assert client.log_in().error_code == 0


def test_without_a_limit_sessions_do_not_end(node: InProcessBroker, clock: ManualClock) -> None:
    client = Client(node)
    assert client.log_in().session_lifetime_ms == 0
    clock.sleep(1 << 40)
    assert client.metadata().brokers
    again = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert again.error_code == Error.ILLEGAL_SASL_STATE


# Configuration.


@pytest.mark.parametrize(
    "changed",
    [
        {"sasl.enabled.mechanisms": ""},
        {"sasl.enabled.mechanisms": "CRAM-MD5"},
        {"sasl.enabled.mechanisms": "OAUTHBEARER"},
        {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"},
        {"sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN"},
        {"listener.name.sasl.plain.sasl.jaas.config": "nonsense hush"},
        {"listener.name.sasl.plain.sasl.jaas.config": "com.example.Hush required;"},
        {
            # CVE-2025-27819: no class is loaded, least of all this one.
            "listener.name.sasl.plain.sasl.jaas.config": (
                'com.sun.security.auth.module.JndiLoginModule required a="ldap://hush";'
            )
        },
        {"listener.name.sasl.plain.sasl.server.callback.handler.class": "com.example.X"},
    ],
    ids=str,
)
def test_a_start_without_usable_credentials_is_refused(
    changed: dict[str, str], tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(ConfigError) as refusal:
        InProcessBroker(tmp_path, clock, **settings(**changed))
    assert "ush" not in str(refusal.value)
    assert "RUNNING" not in caplog.text, "it has registered and been given leaderships"


def test_a_listener_with_nothing_but_scram_needs_no_login_module(
    tmp_path: Path, clock: ManualClock
) -> None:
    both = settings(**{"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"})
    del both["listener.name.sasl.plain.sasl.jaas.config"]
    node = InProcessBroker(tmp_path, clock, **both)
    answer = Client(node).ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert sorted(answer.mechanisms) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    node.stop()


OAUTH = "org.apache.kafka.common.security.oauthbearer"
SIGNED = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        f"{OAUTH}.OAuthBearerLoginModule required;"
    ),
    "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": (
        f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
    ),
    "sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
}


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, "jwks.endpoint.url"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://x/keys"}, "jwks.endpoint.url"),
        ({"sasl.oauthbearer.expected.audience": ""}, "expected.audience"),
        ({"sasl.oauthbearer.expected.issuer": ""}, "expected.issuer"),
        ({"sasl.oauthbearer.jwt.validator.class": f"{OAUTH}.ClientJwtValidator"}, "validator"),
    ],
)
def test_signed_tokens_must_be_verifiable(
    changed: dict[str, str], option: str, tmp_path: Path, clock: ManualClock
) -> None:
    """CVE-2026-33557 and CVE-2026-110985: a validator that verifies nothing is not started."""
    with pytest.raises(ConfigError) as refusal:
        InProcessBroker(tmp_path, clock, **settings(**{**SIGNED, **changed}))
    assert option in refusal.value.name
