"""Connections of a broker to Apache Kafka's secured listeners, of brokers and of controllers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from compat_tests.apache_kafka import CLUSTER_ID, SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.certificates import Authority
from tests.manual_clock import ManualClock
from tests.ports import free_ports
from wirekafka.apis.shared import registry
from wirekafka.clock import Clock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Registration
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.security.sasl.scram import ALGORITHMS
from wirekafka.server.clock import LoopClock
from wirekafka.server.controllers.remote_channel import ControllerRoute, RemoteChannel
from wirekafka.server.controllers.remote_source import Controllers
from wirekafka.server.net import Net, ProtocolFactory, SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions
from wirekafka.server.peers.peer_security import PeerSecurity

_HOST = "127.0.0.1"
_MODULES = "org.apache.kafka.common.security"
_PLAIN = f"{_MODULES}.plain.PlainLoginModule required"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required"
_BEARER = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required"
_LISTENERS = ("MUTUAL", "LOGINS", "BEARERS", "CONTROLLER")
_SESSION_MS = 5_000
_SALT = b"0123456789abcdef"


class Stage:
    """Apache Kafka's ports, and the settings that it has in common with the connecting broker."""

    def __init__(self, authority: Authority):
        self.ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
        plain = f'{_PLAIN} username="node" password="node-secret" user_node="node-secret";'
        self.common = {
            "listener.security.protocol.map": (
                "MUTUAL:SSL,LOGINS:SASL_SSL,BEARERS:SASL_PLAINTEXT,CONTROLLER:SASL_SSL"
            ),
            "controller.listener.names": "CONTROLLER",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.issue("O=Example,CN=node", _HOST).pem(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.file,
            "listener.name.logins.plain.sasl.jaas.config": plain,
            "listener.name.controller.plain.sasl.jaas.config": plain,
            "listener.name.bearers.oauthbearer.sasl.jaas.config": (
                f'{_BEARER} unsecuredLoginStringClaim_sub="node";'
            ),
        }

    def properties(self) -> str:
        """Lines of Apache Kafka's server.properties, of which the last one for a key counts."""
        bound = ",".join(f"{name}://{_HOST}:{port}" for name, port in self.ports.items())
        scram = f"{_SCRAM};"
        more = {
            "listeners": bound,
            "advertised.listeners": bound.partition(",CONTROLLER")[0],
            "controller.quorum.voters": f"1@{_HOST}:{self.ports['CONTROLLER']}",
            "inter.broker.listener.name": "LOGINS",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.logins.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.logins.connections.max.reauth.ms": str(_SESSION_MS),
            "listener.name.logins.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.logins.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.bearers.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.mutual.ssl.client.auth": "required",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:node;User:CN=node,O=Example",
        }
        lines = {**self.common, **more}
        return SMALL_CLEANER + "".join(f"{name}={value}\n" for name, value in lines.items())

    def config(self, listener: str, mechanism: str = "PLAIN", **more: str) -> BrokerConfig:
        """The configuration of a broker that connects to others at this listener."""
        return BrokerConfig.of(
            {
                **self.common,
                "process.roles": "broker",
                "node.id": "9",
                "listeners": f"{listener}://{_HOST}:0",
                "inter.broker.listener.name": listener,
                "sasl.mechanism.inter.broker.protocol": mechanism,
                "controller.quorum.bootstrap.servers": f"{_HOST}:{self.ports['CONTROLLER']}",
                **more,
            }
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    registry.load()
    directory = tmp_path_factory.mktemp("kafka")
    made = Stage(Authority(tmp_path_factory.mktemp("certificates")))
    _, command = prepare(directory, SMALL_JVM, made.properties())
    with running(command, directory, *made.ports.values()):
        yield made


def with_peer(
    stage: Stage,
    config: BrokerConfig,
    scenario: Callable[[Peer], Awaitable[None]],
    clock: Clock | None = None,
    net: Net | None = None,
) -> None:
    """Run a scenario with a peer at Apache Kafka's listener for brokers."""
    listener = config.inter_broker_listener_name
    assert listener is not None

    async def run() -> None:
        own = clock or LoopClock(asyncio.get_running_loop())
        security = PeerSecurity.between_brokers(lambda: config)
        options = PeerOptions(_HOST, stage.ports[listener], "9", security)
        peer = Peer(net or SocketNet(), own, options)
        try:
            async with asyncio.timeout(120):
                await scenario(peer)
        finally:
            peer.close()

    asyncio.run(run())


async def list_brokers(peer: Peer) -> None:
    response = await peer.send(MetadataRequest(topics=[]), timeout_ms=60_000)
    assert [each.node_id for each in response.brokers] == [1]


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("MUTUAL", "PLAIN"), ("LOGINS", "PLAIN"), ("BEARERS", "OAUTHBEARER")],
)
def test_peer_is_served(stage: Stage, listener: str, mechanism: str) -> None:
    with_peer(stage, stage.config(listener, mechanism), list_brokers)


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_peer_logs_in_by_scram(stage: Stage, name: str) -> None:
    algorithm = ALGORITHMS[name]
    jaas = f"listener.name.logins.{name.lower()}.sasl.jaas.config"
    user = name.lower()
    good = {jaas: f'{_SCRAM} username="{user}" password="its-secret";'}
    bad = {jaas: f'{_SCRAM} username="{user}" password="another";'}

    async def create(peer: Peer) -> None:
        kind = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
        salted = hashlib.pbkdf2_hmac(algorithm.hash().name, b"its-secret", _SALT, 4096)
        upsertion = kind(
            name=user,
            mechanism=algorithm.number,
            iterations=4096,
            salt=_SALT,
            salted_password=salted,
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        response = await peer.send(request, timeout_ms=60_000)
        assert [each.error_code for each in response.results] == [0]

    async def refused(peer: Peer) -> None:
        with pytest.raises(KafkaError, match="refuses the login") as caught:
            await list_brokers(peer)
        assert caught.value.error is Error.NETWORK_EXCEPTION

    with_peer(stage, stage.config("LOGINS"), create)
    with_peer(stage, stage.config("LOGINS", name, **good), list_brokers)
    with_peer(stage, stage.config("LOGINS", name, **bad), refused)


class CountingNet(SocketNet):
    """Counts the connections that were opened."""

    opened = 0

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, Any]:
        self.opened += 1
        return await super().connect(host, port, protocol_factory)


def test_peer_logs_in_again_during_its_session(stage: Stage) -> None:
    clock, net = ManualClock(), CountingNet()

    async def scenario(peer: Peer) -> None:
        await list_brokers(peer)
        clock.advance(_SESSION_MS)
        await asyncio.gather(list_brokers(peer), list_brokers(peer))
        assert peer.is_connected
        assert net.opened == 1

    with_peer(stage, stage.config("LOGINS"), scenario, clock, net)


class Feed:
    position = 0

    async def reached(self, offset: int) -> None:
        pass


def test_secured_controller_serves_the_broker_and_knows_its_clients(stage: Stage) -> None:
    config = stage.config("LOGINS")

    async def run() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        known = Controllers(SocketNet(), clock, config)
        channel = RemoteChannel(
            ControllerRoute(
                search=known.search,
                connect=known.connect,
                clock=clock,
                config=lambda: config,
                feed=Feed(),
            )
        )
        registration = Registration.with_own_features(
            broker_id=9,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid4().bytes,
            endpoints=[Endpoint("LOGINS", _HOST, 9092, 3)],
            rack=None,
            log_dirs=[uuid4().bytes],
        )
        try:
            assert await known.cluster_id() == CLUSTER_ID
            assert await channel.register(registration) > 0
            found = [await created_by(channel, user) for user in ("alice", "node")]
            assert found == [Error.TOPIC_AUTHORIZATION_FAILED, Error.NONE]
        finally:
            channel.close()
            known.close()

    asyncio.run(run())


async def created_by(channel: RemoteChannel, user: str) -> Error:
    """The error for a client of this name that creates a topic."""
    call: Any = SimpleNamespace(
        version=7,
        correlation_id=1,
        client_id="a client",
        client_host="/10.1.2.3",
        principal=f"User:{user}",
        login=None,
        throttle_ms=0,
        is_token_authenticated=False,
        close=lambda: None,
        run_apart=sync_inline,
    )
    topic = CreateTopicsRequest.CreatableTopic(
        name=f"by-{user}", num_partitions=1, replication_factor=1
    )
    response = await channel.forward(CreateTopicsRequest(topics=[topic]), call)
    return Error(response.topics[0].error_code)
