"""Connections to other nodes over TLS and with SASL logins, at a broker's own listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority, Issued
from tests.manual_clock import ManualClock
from tests.planted_secrets import planted
from tests.server.other_node import OtherNode
from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wirekafka.server.clock import LoopClock
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions
from wirekafka.server.peers.peer_security import PeerSecurity
from wirekafka.testing import Broker

_HOST = "127.0.0.1"
_SECURITY = "org.apache.kafka.common.security"
NODE = planted("node")
"""The password of the nodes."""
_PLAIN = f"{_SECURITY}.plain.PlainLoginModule required"
_SCRAM = f"{_SECURITY}.scram.ScramLoginModule required"
_BEARER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required"
_JAAS = "listener.name.inside.{}.sasl.jaas.config"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Issued:
    return authority.issue("O=Example,CN=broker", _HOST)


Start = Callable[[dict[str, Any]], Broker]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a broker with these options."""
    started: list[Broker] = []

    def run(config: dict[str, Any], **options: Any) -> Broker:
        broker = Broker(config=config, **options)
        started.append(broker.__enter__())
        return broker

    yield run
    for broker in started:
        broker.__exit__(None, None, None)


def settings(protocol: str, mechanism: str = "PLAIN", **more: Any) -> dict[str, Any]:
    """The options of a node whose listener for brokers has this security."""
    return {
        "listeners": f"INSIDE://{_HOST}:0",
        "listener.security.protocol.map": f"INSIDE:{protocol},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def plain(user: str = "node", password: str = NODE, **more: Any) -> dict[str, Any]:
    """Options for PLAIN; the listener has one user, and the node logs in as `user`."""
    module = f'{_PLAIN} username="{user}" password="{password}" user_node="{NODE}";'
    return {_JAAS.format("plain"): module, **more}


def config_of(options: dict[str, Any]) -> BrokerConfig:
    return BrokerConfig.of({name: str(value) for name, value in options.items()})


def between_brokers(options: dict[str, Any]) -> PeerSecurity:
    config = config_of(options)
    return PeerSecurity.between_brokers(lambda: config)


def brokers_seen(broker: Broker, security: PeerSecurity, loop: str = "asyncio") -> int:
    """How many brokers Metadata lists. Raises KafkaError."""
    host, _, port = broker.bootstrap_servers.rpartition(":")

    async def ask() -> int:
        clock = LoopClock(asyncio.get_running_loop())
        peer = Peer(SocketNet(), clock, PeerOptions(host, int(port), "1", security))
        try:
            response = await peer.send(MetadataRequest(topics=[]), timeout_ms=60_000)
            return len(response.brokers)
        finally:
            peer.close()

    with asyncio.Runner(loop_factory=pytest.importorskip(loop).new_event_loop) as runner:
        return runner.run(ask())


def refusal(broker: Broker, security: PeerSecurity) -> str:
    with pytest.raises(KafkaError) as caught:
        brokers_seen(broker, security)
    assert caught.value.error is Error.NETWORK_EXCEPTION
    return str(caught.value)


# TLS.


def tls(authority: Authority, server: Issued, **more: Any) -> dict[str, Any]:
    stores = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": server.pem(),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": authority.file,
    }
    return settings("SSL", **{**stores, **more})


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_peer_connects_over_tls(
    start: Start, authority: Authority, server: Issued, loop: str
) -> None:
    options = tls(authority, server)
    assert brokers_seen(start(options), between_brokers(options), loop) == 1
    untrusted = tls(Authority(server.directory, "Another CA"), server)
    with pytest.raises(KafkaError, match="certificate is refused"):
        brokers_seen(start(options), between_brokers(untrusted), loop)


def test_peer_authenticates_by_its_own_certificate(
    start: Start, authority: Authority, server: Issued
) -> None:
    options = tls(authority, server, ssl_client_auth="required")
    broker = start(options)
    assert brokers_seen(broker, between_brokers(options)) == 1
    anonymous = {
        name: value for name, value in options.items() if not name.startswith("ssl.keystore")
    }
    refusal(broker, between_brokers(anonymous))


def test_certificate_of_another_authority_is_refused(
    start: Start, authority: Authority, server: Issued, tmp_path: Path
) -> None:
    broker = start(tls(authority, server))
    other = tls(Authority(tmp_path, "Another CA"), server)
    assert "certificate is refused" in refusal(broker, between_brokers(other))


def test_host_name_is_verified_unless_that_is_turned_off(
    start: Start, authority: Authority
) -> None:
    elsewhere = authority.issue("O=Example,CN=elsewhere", "elsewhere.example")
    broker = start(tls(authority, elsewhere))
    options = tls(authority, elsewhere)
    assert "certificate is refused" in refusal(broker, between_brokers(options))
    name = "listener.name.inside.ssl.endpoint.identification.algorithm"
    assert brokers_seen(broker, between_brokers({**options, name: ""})) == 1


def test_tls_to_a_plaintext_listener_fails(
    start: Start, authority: Authority, server: Issued
) -> None:
    broker = start(settings("PLAINTEXT"))
    refusal(broker, between_brokers(tls(authority, server)))


def test_store_that_cannot_be_read_is_refused_at_once(authority: Authority, server: Issued) -> None:
    options = tls(authority, server, ssl_truststore_location="/nowhere/ca.pem")
    with pytest.raises(ConfigError, match="truststore"):
        between_brokers(options)


def test_replaced_trust_store_is_used_for_the_next_connection(
    start: Start, authority: Authority, server: Issued, tmp_path: Path
) -> None:
    store = tmp_path / "trusted.pem"
    store.write_text(Authority(tmp_path, "Another CA").pem)
    options = tls(authority, server, ssl_truststore_location=str(store))
    broker, security = start(tls(authority, server)), between_brokers(options)
    refusal(broker, security)
    store.write_text(authority.pem + "\n")
    assert brokers_seen(broker, security) == 1
    store.write_text("no certificate")
    assert brokers_seen(broker, security) == 1


# SASL.


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_peer_logs_in_by_plain(
    start: Start, authority: Authority, server: Issued, protocol: str
) -> None:
    options = {**tls(authority, server), **settings(protocol), **plain()}
    assert brokers_seen(start(options), between_brokers(options)) == 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_peer_logs_in_by_scram(start: Any, mechanism: str) -> None:
    broker = start({}, users={"node": NODE})
    options = settings("SASL_PLAINTEXT", mechanism)
    jaas = _JAAS.format(mechanism.lower())
    good = {**options, jaas: f'{_SCRAM} username="node" password="{NODE}";'}
    bad = {**options, jaas: f'{_SCRAM} username="node" password="wrong";'}
    if mechanism == "SCRAM-SHA-512":
        assert brokers_seen(broker, between_brokers(good)) == 1
    else:
        assert "is none of its mechanisms" in refusal(broker, between_brokers(good))
        return
    assert "refuses the login" in refusal(broker, between_brokers(bad))


def test_peer_logs_in_by_an_unsigned_token(start: Start) -> None:
    options = {
        **settings("SASL_PLAINTEXT", "OAUTHBEARER"),
        _JAAS.format("oauthbearer"): f'{_BEARER} unsecuredLoginStringClaim_sub="node";',
    }
    broker = start(options)
    assert brokers_seen(broker, between_brokers(options)) == 1
    expired = {
        **options,
        _JAAS.format("oauthbearer"): f'{_BEARER} unsecuredLoginStringClaim_sub="node"'
        ' unsecuredLoginLifetimeSeconds="-5";',
    }
    assert "refuses the login" in refusal(broker, between_brokers(expired))


def test_wrong_password_is_reported_without_the_password(start: Start) -> None:
    options = settings("SASL_PLAINTEXT")
    broker = start({**options, **plain()})
    reason = refusal(broker, between_brokers({**options, **plain(password="not-this-one")}))
    assert "refuses the login" in reason
    assert "not-this-one" not in reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "needs a login module"),
        ({"sasl.jaas.config": f'{_PLAIN} username="a" password="b";'}, "needs a login module"),
        ({_JAAS.format("plain"): f"{_PLAIN};"}, "username and a password"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "GSSAPI"),
        ({"sasl.mechanism.inter.broker.protocol": "MAGIC"}, "MAGIC"),
    ],
)
def test_login_that_is_not_configured_is_refused_at_once(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        between_brokers({**settings("SASL_PLAINTEXT"), **options})


def test_controllers_have_their_own_listener_and_mechanism() -> None:
    options = {
        **settings("PLAINTEXT"),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{_PLAIN} username="a" password="b";',
    }
    config = config_of(options)
    security = PeerSecurity.to_controllers(lambda: config)
    assert (security.uses_tls, security.logs_in, security.mechanism) == (False, True, "PLAIN")


def scripted(scenario: Callable[[Peer, OtherNode, ManualClock], Awaitable[None]]) -> None:
    """Run a scenario with a node at which the peer logs in for a session of ten seconds."""
    security = between_brokers({**settings("SASL_PLAINTEXT"), **plain()})

    async def run() -> None:
        async with asyncio.timeout(60), OtherNode().listening() as other:
            other.answers[SaslHandshakeRequest] = SaslHandshakeResponse(mechanisms=["PLAIN"])
            other.answers[SaslAuthenticateRequest] = SaslAuthenticateResponse(
                session_lifetime_ms=10_000
            )
            clock = ManualClock()
            host, port = other.address
            peer = Peer(SocketNet(), clock, PeerOptions(host, port, "1", security))
            try:
                await scenario(peer, other, clock)
            finally:
                peer.close()

    asyncio.run(run())


async def ask(peer: Peer) -> None:
    await peer.send(MetadataRequest(topics=[]), timeout_ms=60_000)


_LOGIN = [SaslHandshakeRequest, SaslAuthenticateRequest]


def kinds(other: OtherNode) -> list[type[Request]]:
    return [type(each.request) for each in other.history]


def test_peer_logs_in_again_before_its_session_ends() -> None:
    async def scenario(peer: Peer, other: OtherNode, clock: ManualClock) -> None:
        other.answers[MetadataRequest] = MetadataRequest.response()
        await ask(peer)
        clock.advance(8_400)
        await ask(peer)
        assert kinds(other) == [*_LOGIN, MetadataRequest, MetadataRequest]
        clock.advance(1_100)
        await asyncio.gather(ask(peer), ask(peer))
        assert kinds(other)[4:] == [*_LOGIN, MetadataRequest, MetadataRequest]
        assert len(other.versions_asked) == 1

    scripted(scenario)


def test_requests_sent_before_the_second_login_get_their_responses() -> None:
    async def scenario(peer: Peer, other: OtherNode, clock: ManualClock) -> None:
        early = asyncio.create_task(ask(peer))
        first = await other.asked.get()
        shake = other.answers.pop(SaslHandshakeRequest)
        clock.advance(9_500)
        late = asyncio.create_task(ask(peer))
        second = await other.asked.get()
        assert isinstance(second.request, SaslHandshakeRequest)
        assert not early.done()
        first.answer(MetadataRequest.response())
        await early
        assert isinstance(shake, SaslHandshakeResponse)
        second.answer(shake)
        (await other.asked.get()).answer(MetadataRequest.response())
        await late

    scripted(scenario)


def test_refused_second_login_closes_the_connection() -> None:
    async def scenario(peer: Peer, other: OtherNode, clock: ManualClock) -> None:
        other.answers[MetadataRequest] = MetadataRequest.response()
        await ask(peer)
        other.answers[SaslAuthenticateRequest] = SaslAuthenticateResponse(
            error_code=Error.SASL_AUTHENTICATION_FAILED, error_message="no more"
        )
        clock.advance(9_500)
        with pytest.raises(KafkaError, match="no more"):
            await ask(peer)
        assert not peer.is_connected

    scripted(scenario)
