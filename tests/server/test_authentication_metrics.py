"""The counts of logins and TLS handshakes in `/metrics`, as Apache Kafka 4.4's.

The events are those whose counts were compared with the JMX beans of Apache Kafka 4.4.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.certificates import Authority, client_context
from tests.eventually import eventually
from tests.ports import free_ports
from tests.raw_client import RawClient
from tests.sasl_client import SaslClient, plain
from tests.server.test_monitoring import Monitored
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

PREFIX = "kafka_server_socket_server_metrics_"
HOST = "127.0.0.1"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SUCCESS, FAILURE = "successful_authentication", "failed_authentication"
RENEWED, NOT_RENEWED = "successful_reauthentication", "failed_reauthentication"
TOO_OLD = "successful_authentication_no_reauth"


class Logins:
    """A broker with a listener for SASL and one for TLS, and its counts of one of them."""

    def __init__(self, monitored: Monitored, authority: Authority, ports: dict[str, int]):
        self.monitored, self.authority, self.ports = monitored, authority, ports

    def counts(self, listener: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for family in self.monitored.metrics().values():
            for sample in family.samples:
                if "authentication" in sample.name and sample.labels.get("listener") == listener:
                    name = sample.name.removeprefix(PREFIX).removesuffix("_total")
                    found[name] += int(sample.value)
        return found

    def count(self, listener: str, event: Callable[[], None], *expected: str) -> None:
        """Check that an event adds one to each of these counts, and nothing to the others."""
        before = self.counts(listener)
        event()
        wanted = before + Counter(expected)
        eventually(lambda: +self.counts(listener) == +wanted)


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logins]:
    directory = tmp_path_factory.mktemp("logins")
    authority = Authority(directory)
    jaas = f'{MODULE} required user_alice="alice-secret";'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": jaas,
        "connections.max.reauth.ms": "3600000",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("CN=broker", HOST).pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
    }
    names = "SASL", "SSL"
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    arguments = [
        *(word for name, port in ports.items() for word in ("--listen", f"{name}://{HOST}:{port}")),
        *(word for pair in settings.items() for word in ("--set", "=".join(pair))),
    ]
    monitored = Monitored(directory / "data", *arguments)
    with monitored.serving:
        yield Logins(monitored, authority, ports)


# Logins by SASL.


def log_in(client: SaslClient, password: str, handshake: int = 1, version: int = 2) -> None:
    assert client.handshake("PLAIN", handshake).error_code == 0
    token = plain("alice", password)
    with suppress(RawClient.Closed):
        if handshake:
            client.authenticate(token, version)
        else:
            client.send_frame(token)
            client.receive_frame()


@pytest.mark.parametrize(
    ("handshake", "version", "counted"),
    [(1, 2, [SUCCESS]), (1, 1, [SUCCESS]), (1, 0, [SUCCESS, TOO_OLD]), (0, 0, [SUCCESS, TOO_OLD])],
)
def test_a_login_is_counted(
    logins: Logins, handshake: int, version: int, counted: list[str]
) -> None:
    with SaslClient(logins.ports["SASL"]) as client:
        logins.count("SASL", lambda: log_in(client, "alice-secret", handshake, version), *counted)


@pytest.mark.parametrize("handshake", [1, 0])
def test_a_wrong_password_is_counted_as_a_failure(logins: Logins, handshake: int) -> None:
    with SaslClient(logins.ports["SASL"]) as client:
        logins.count("SASL", lambda: log_in(client, "wrong", handshake), FAILURE)


def test_a_mechanism_that_is_not_enabled_is_counted_as_a_failure(logins: Logins) -> None:
    with SaslClient(logins.ports["SASL"]) as client:
        logins.count("SASL", lambda: void(client.handshake("SCRAM-SHA-256")), FAILURE)


def test_another_request_in_place_of_the_token_is_counted_as_a_failure(logins: Logins) -> None:
    with SaslClient(logins.ports["SASL"]) as client:
        client.handshake("PLAIN")
        logins.count("SASL", lambda: void(client.call(MetadataRequest(), 5)), FAILURE)


def test_a_request_before_the_login_and_a_client_that_goes_are_not_counted(logins: Logins) -> None:
    with SaslClient(logins.ports["SASL"]) as client, SaslClient(logins.ports["SASL"]) as other:
        client.send(MetadataRequest(), 5)
        assert client.is_closed()
        other.versions()
    with SaslClient(logins.ports["SASL"]) as last:
        logins.count("SASL", lambda: log_in(last, "alice-secret"), SUCCESS)


@pytest.mark.parametrize(
    ("password", "counted"), [("alice-secret", RENEWED), ("wrong", NOT_RENEWED)]
)
def test_a_login_that_renews_a_session_is_counted_apart(
    logins: Logins, password: str, counted: str
) -> None:
    with SaslClient(logins.ports["SASL"]) as client:
        log_in(client, "alice-secret")
        logins.count("SASL", lambda: log_in(client, password), counted)


def test_a_mechanism_that_is_not_enabled_for_a_renewal_is_not_counted(logins: Logins) -> None:
    with SaslClient(logins.ports["SASL"]) as client:
        log_in(client, "alice-secret")
        client.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        logins.count("SASL", lambda: void(client.is_closed()))


# TLS.


def connect(logins: Logins, context: ssl.SSLContext) -> None:
    with RawClient(logins.ports["SSL"]) as client, suppress(ssl.SSLError, OSError):
        client.socket = context.wrap_socket(client.socket, server_hostname=HOST)
        client.call(ApiVersionsRequest(), 0)


def test_a_certificate_is_counted_as_an_authentication(logins: Logins) -> None:
    context = client_context(logins.authority, logins.authority.issue("CN=alice"))
    logins.count("SSL", lambda: connect(logins, context), SUCCESS, TOO_OLD)


def test_a_missing_certificate_is_counted_as_a_failure(logins: Logins) -> None:
    logins.count("SSL", lambda: connect(logins, client_context(logins.authority)), FAILURE)


def test_a_client_that_refuses_the_certificate_is_counted_as_a_failure(logins: Logins) -> None:
    context = ssl.create_default_context()
    logins.count("SSL", lambda: connect(logins, context), FAILURE)


def test_what_is_not_tls_is_counted_as_a_failure(logins: Logins) -> None:
    with RawClient(logins.ports["SSL"]) as client:
        logins.count("SSL", lambda: client.send_frame(b"not TLS"), FAILURE)


def void(answer: object) -> None:
    """Ignore the response: what is counted is checked."""
