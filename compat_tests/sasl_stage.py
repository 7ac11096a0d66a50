"""One configuration of SASL listeners, served by Apache Kafka and by wirekafka side by side."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from joserfc.jwk import RSAKey

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.ports import free_ports
from tests.raw_client import RawClient
from tests.server.serving import Serving
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest

_MODULES = "org.apache.kafka.common.security"
_OAUTH = f"{_MODULES}.oauthbearer"
LISTENERS = ("PLAINTEXT", "BASIC", "SESSION", "UNSIGNED", "SIGNED")
SESSION_MS = 3000

_SINGLE = """offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""

SALT = b"0123456789abcdef"
USERS = {"carol": "carol-secret", "dave": "dave-secret"}

SIGNING_KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "other"})


@dataclass(frozen=True)
class Side:
    """A broker and the port of each of its listeners."""

    name: str
    ports: Mapping[str, int]


def settings(ports: Mapping[str, int], controller_port: int, keys: Path) -> str:
    """The lines of server.properties that differ from a plain broker's."""
    bound = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = ",".join(
        f"{name}:{'PLAINTEXT' if name == 'PLAINTEXT' else 'SASL_PLAINTEXT'}" for name in ports
    )
    lines = [
        f"listeners={bound},CONTROLLER://127.0.0.1:{controller_port}",
        f"advertised.listeners={bound}",
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}",
        "inter.broker.listener.name=PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "delegation.token.secret.key=the secret of all nodes",
        f"listener.name.session.connections.max.reauth.ms={SESSION_MS}",
        "listener.name.unsigned.sasl.enabled.mechanisms=OAUTHBEARER",
        "listener.name.signed.sasl.enabled.mechanisms=OAUTHBEARER",
        "listener.name.signed.oauthbearer.sasl.server.callback.handler.class="
        f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"listener.name.signed.sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}",
        "listener.name.signed.sasl.oauthbearer.expected.audience=kafka,others",
        "listener.name.signed.sasl.oauthbearer.expected.issuer=https://issuer",
    ]
    for listener in ("basic", "session"):
        lines.append(
            f"listener.name.{listener}.plain.sasl.jaas.config={_MODULES}.plain.PlainLoginModule "
            'required user_admin="admin-secret" user_alice="alice-secret";'
        )
        lines += [
            f"listener.name.{listener}.scram-sha-{bits}.sasl.jaas.config="
            f"{_MODULES}.scram.ScramLoginModule required;"
            for bits in (256, 512)
        ]
    lines += [
        f"listener.name.{listener}.oauthbearer.sasl.jaas.config="
        f"{_OAUTH}.OAuthBearerLoginModule required;"
        for listener in ("unsigned", "signed")
    ]
    return "".join(f"{line}\n" for line in lines)


@contextmanager
def kafka_side(directory: Path) -> Iterator[Side]:
    """Apache Kafka with the SASL listeners."""
    keys = write_keys(directory)
    *numbers, controller_port = free_ports(len(LISTENERS) + 1)
    ports = dict(zip(LISTENERS, numbers, strict=True))
    jvm = (*SMALL_JVM, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}")
    changed = settings(ports, controller_port, keys) + (
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n" + SMALL_CLEANER
    )
    _, command = prepare(directory, jvm, changed)
    with running(command, directory, *ports.values()):
        yield _with_users(Side("Apache Kafka", ports))


@contextmanager
def wirekafka_side(directory: Path) -> Iterator[Side]:
    """wirekafka with the same lines of server.properties."""
    keys = write_keys(directory)
    *numbers, controller_port = free_ports(len(LISTENERS) + 1)
    ports = dict(zip(LISTENERS, numbers, strict=True))
    properties = directory / "server.properties"
    properties.write_text(_SINGLE + settings(ports, controller_port, keys))
    with Serving(directory / "data", "--config", str(properties), listen=""):
        yield _with_users(Side("wirekafka", ports))


def write_keys(directory: Path) -> Path:
    """A key set with the public half of `SIGNING_KEY`."""
    path = directory / "keys.json"
    path.write_text(json.dumps({"keys": [SIGNING_KEY.as_dict(private=False)]}))
    return path


def _with_users(side: Side) -> Side:
    """Create the SCRAM users of both mechanisms, over the listener without SASL."""
    kind = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    with RawClient(side.ports["PLAINTEXT"]) as client:
        for mechanism, name in ((1, "sha256"), (2, "sha512")):
            request = AlterUserScramCredentialsRequest(
                deletions=[],
                upsertions=[
                    kind(
                        name=user,
                        mechanism=mechanism,
                        iterations=4096,
                        salt=SALT,
                        salted_password=hashlib.pbkdf2_hmac(name, secret.encode(), SALT, 4096),
                    )
                    for user, secret in USERS.items()
                ],
            )
            for result in client.call(request, 0).results:
                assert result.error_code == 0, result
    return side
