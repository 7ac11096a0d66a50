"""Commands on a cluster with logins, configured by the properties of a Kafka client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from javaproperties import dumps

from tests.cli.conftest import Run
from wirekafka.security.sasl.client import PlainClient, ScramClient
from wirekafka.security.sasl.exchange import AuthenticationFailed, Challenge, SaslExchange, Success
from wirekafka.security.sasl.plain import Plain
from wirekafka.security.sasl.scram import SHA_256, SHA_512, Algorithm, Credential, Scram
from wirekafka.testing import Allow, Broker

USERS = {"alice": 'sec"ret', "bob": "other"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    acls = [Allow("alice", "all", topic="*", group="*")]
    with Broker(users=USERS, acls=acls, tls=True) as broker:
        yield broker


Options = Callable[..., tuple[str, ...]]


@pytest.fixture
def options(broker: Broker, tmp_path: Path) -> Options:
    """The options of a command for a user, with some properties changed."""

    def options(user: str, **changes: str) -> tuple[str, ...]:
        file = tmp_path / "client.properties"
        file.write_text(dumps({**broker.client_config("java", user=user), **changes}))
        return "-b", broker.bootstrap_servers, "--command-config", str(file)

    return options


def test_commands_log_in_with_the_properties_of_a_java_client(run: Run, options: Options) -> None:
    alice = options("alice")
    assert run("topics", "create", "t", *alice).status == 0
    assert run("produce", "t", *alice, given="one\ntwo\n").status == 0
    consumed = run("consume", "t", "--from", "beginning", "-n", "2", *alice)
    assert consumed.out.splitlines() == ["one", "two"], consumed
    assert run("topics", "list", *options("bob")).out == ""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"sasl.jaas.config": 'Scram required username="alice" password="hush";'},
            "refuses the login: Authentication failed",
        ),
        ({"sasl.mechanism": "PLAIN"}, "PLAIN is none of its mechanisms: SCRAM-SHA-512"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER is none of PLAIN, SCRAM-SHA-256"),
        ({"sasl.jaas.config": "Scram required password=hush;"}, "needs a username"),
        ({"sasl.jaas.config": "Scram required password=hush"}, "semi-colon"),
    ],
)
def test_a_failed_login_is_one_line_without_the_password(
    run: Run, options: Options, changes: dict[str, str], complaint: str
) -> None:
    outcome = run("topics", "list", *options("alice", **changes))
    assert outcome.status == 1
    [line] = outcome.err.strip().splitlines()
    assert complaint in line and "hush" not in line


def finished(client: PlainClient | ScramClient, server: SaslExchange) -> Success:
    """The broker's result of an exchange whose last message the client has verified."""
    token: bytes | None = client.first()
    while token is not None:
        step = server.respond(token, 0)
        token = client.respond(step.token)
    assert isinstance(step, Success)
    return step


def scram(algorithm: Algorithm, password: str) -> Scram:
    credential = Credential.of_password(password, algorithm, b"salt" * 4, 4096)
    return Scram(
        algorithm=algorithm, credential=lambda user: credential, new_nonce=lambda: "broker"
    )


@pytest.mark.parametrize("algorithm", [SHA_256, SHA_512], ids=lambda each: each.name)
@pytest.mark.parametrize("user", ["alice", "a=b,c"])
def test_scram_succeeds_with_the_right_password_only(algorithm: Algorithm, user: str) -> None:
    server = scram(algorithm, "secret")
    result = finished(ScramClient(algorithm, user, "secret", "client"), server.start())
    assert result.user == user
    with pytest.raises(AuthenticationFailed):
        finished(ScramClient(algorithm, user, "guess", "client"), server.start())


def test_scram_agrees_with_the_example_of_the_standard() -> None:
    """RFC 7677, section 3."""
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = client.respond(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_plain_sends_user_and_password() -> None:
    assert finished(PlainClient("alice", "secret"), Plain({"alice": "secret"})).user == "alice"


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other-broker,s=c2FsdA==,i=4096",
        b"r=client,s=c2FsdA==,i=4096",
        b"r=clientbroker,s=c2FsdA==,i=1",
        b"r=clientbroker,s=c2FsdA==,i=9999999",
        b"r=clientbroker,s=!,i=4096",
        b"e=unknown-user",
        b"",
    ],
)
def test_an_invalid_challenge_gets_no_proof(challenge: bytes) -> None:
    client = ScramClient(SHA_512, "alice", "secret", "client")
    client.first()
    with pytest.raises(AuthenticationFailed):
        client.respond(challenge)


def test_a_broker_that_does_not_know_the_password_is_detected() -> None:
    client = ScramClient(SHA_512, "alice", "secret", "client")
    server = scram(SHA_512, "secret").start()
    challenge = server.respond(client.first(), 0)
    assert isinstance(challenge, Challenge)
    client.respond(challenge.token)
    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        client.respond(b"v=AAAA")
