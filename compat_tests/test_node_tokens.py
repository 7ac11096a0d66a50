"""Tokens of an identity provider between nodes: requested as by Kafka, and accepted by Kafka."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc.jwk import ECKey, RSAKey

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from compat_tests.java_tools import QUICK, JavaTools
from tests.ports import free_ports
from tests.token_provider import OAUTH, PROVIDER, Provider, by_assertion, by_secret
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.security.sasl.claims import decoded_part
from wirekafka.server.clock import LoopClock
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions
from wirekafka.server.peers.peer_security import PeerSecurity

_HOST = "127.0.0.1"
_PREFIX = "listener.name.tokens.oauthbearer."
_MODULE = f"{OAUTH}.OAuthBearerLoginModule required;"
_ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"


class Stage(NamedTuple):
    """Apache Kafka's listener that accepts the tokens of a provider, and that provider."""

    port: int
    provider: Provider


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("kafka")
    keys = directory / "keys.json"
    keys.write_text(json.dumps({"keys": [PROVIDER.as_dict(private=False)]}))
    [tokens] = free_ports(1)
    jvm = (*SMALL_JVM, f"{_ALLOWED}.urls={keys.as_uri()}", f"{_ALLOWED}.files={keys}")
    settings = {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TOKENS:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        f"{_PREFIX}sasl.jaas.config": _MODULE,
        f"{_PREFIX}sasl.server.callback.handler.class": (
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
    }
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    port, command = prepare(directory, jvm, SMALL_CLEANER + lines)
    properties = directory / "server.properties"
    text = properties.read_text()
    for option in ("listeners=", "advertised.listeners="):
        text = text.replace(f"\n{option}", f"\n{option}TOKENS://{_HOST}:{tokens},")
    properties.write_text(text)
    with Provider(time.time) as provider, running(command, directory, port, tokens):
        provider.claims = {"iss": "https://issuer", "aud": "kafka", "scope": "kafka"}
        thread = threading.Thread(target=provider.serve_forever, args=(0.01,))
        thread.start()
        yield Stage(tokens, provider)
        provider.shutdown()
        thread.join()


@pytest.fixture(params=["secret", "RS256", "ES256"])
def options(request: pytest.FixtureRequest, stage: Stage, tmp_path: Path) -> dict[str, str]:
    """The options of a client of the provider, which has a secret or signs assertions."""
    stage.provider.requests.clear()
    more = {"sasl.oauthbearer.scope": "kafka all"}
    if request.param == "secret":
        return by_secret(stage.provider) | more
    options = by_assertion(stage.provider, tmp_path, request.param)
    # Kafka's client decrypts keys by older ciphers only.
    kind = RSAKey if request.param == "RS256" else ECKey
    key = tmp_path / "key.pem"
    passphrase = options.pop("sasl.oauthbearer.assertion.private.key.passphrase")
    key.write_bytes(kind.import_key(key.read_bytes(), password=passphrase).as_pem(private=True))
    return options | more


def list_brokers(stage: Stage, options: dict[str, str]) -> list[int]:
    """The brokers that Kafka lists to a node of wirekafka."""
    config = BrokerConfig.of(
        {
            "node.id": "9",
            "listeners": f"TOKENS://{_HOST}:0",
            "listener.security.protocol.map": "TOKENS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "TOKENS",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            f"{_PREFIX}sasl.jaas.config": _MODULE,
            **{f"{_PREFIX}{name}": value for name, value in options.items()},
        }
    )

    async def ask() -> list[int]:
        security = PeerSecurity.between_brokers(lambda: config)
        clock = LoopClock(asyncio.get_running_loop())
        peer = Peer(SocketNet(), clock, PeerOptions(_HOST, stage.port, "9", security))
        try:
            response = await peer.send(MetadataRequest(topics=[]), timeout_ms=60_000)
            return [each.node_id for each in response.brokers]
        finally:
            peer.close()

    return asyncio.run(ask())


def request_of(provider: Provider) -> dict[str, Any]:
    """The last request, with the shape of its assertion, whose times and id differ."""
    headers, fields = provider.requests[-1]
    compared: dict[str, Any] = dict(fields)
    for name in ("path", "Authorization", "Accept", "Content-Type", "Cache-Control"):
        compared[name] = headers.get(name)
    if "client_assertion" in compared:
        header, claims = map(decoded_part, compared["client_assertion"].split(".")[:2])
        times = {name: claims.pop(name) for name in ("iat", "exp", "nbf", "jti")}
        compared["client_assertion"] = (header, claims)
        compared["lifetimes"] = (times["exp"] - times["iat"], times["iat"] - times["nbf"])
    return compared


def test_a_token_is_requested_as_kafkas_client_does_and_accepted_by_kafka(
    stage: Stage, options: dict[str, str], java_tools: JavaTools, tmp_path: Path
) -> None:
    assert list_brokers(stage, options) == [1]
    own = request_of(stage.provider)
    lines = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": _MODULE,
        **options,
    }
    client = tmp_path / "client.properties"
    client.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    files = ",".join(str(tmp_path / name) for name in ("key.pem", "template.json"))
    jvm = (*QUICK, f"{_ALLOWED}.urls={stage.provider.url}", f"{_ALLOWED}.files={files}")
    server = ("--bootstrap-server", f"{_HOST}:{stage.port}", "--command-config", str(client))
    java_tools.run("kafka-topics", *server, "--list", jvm=jvm)
    assert request_of(stage.provider) == own
