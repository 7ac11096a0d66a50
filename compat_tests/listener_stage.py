"""Listeners of every security protocol with an authorizer, on Apache Kafka and on wirekafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.certificates import Authority
from tests.ports import free_ports
from tests.server.serving import Serving
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER

LISTENERS = {"PLAINTEXT": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT", "TLS": "SSL", "BOTH": "SASL_SSL"}
"""The security protocol of each listener; who connects without a login is a super user."""
PASSWORDS = {"admin": "admin-secret", "nobody": "nobody-secret"}
PLANTED = "planted-secret"
"""The value of the environment variable `PLANTED` of both, which the provider `env` reads."""
_SINGLE = """offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


def jaas(passwords: Mapping[str, str]) -> str:
    """The login module of PLAIN for these users and their passwords."""
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"


@dataclass(frozen=True)
class Side:
    """A broker, the port of each of its listeners, and what it logs."""

    name: str
    ports: Mapping[str, int]
    authority: Authority
    directory: Path


def settings(ports: Mapping[str, int], controller_port: int, authority: Authority) -> str:
    """The lines of server.properties that differ from a plain broker's."""
    bound = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items())
    keystore = authority.issue("O=Example,CN=broker", "127.0.0.1", key="rsa").pem()
    lines = [
        f"listeners={bound},CONTROLLER://127.0.0.1:{controller_port}",
        f"advertised.listeners={bound}",
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}",
        "inter.broker.listener.name=PLAINTEXT",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:ANONYMOUS;User:admin",
        "sasl.enabled.mechanisms=PLAIN",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={keystore}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={authority.file}",
        "config.providers=env",
        f"config.providers.env.class={_PROVIDER}",
        *(
            f"listener.name.{name}.plain.sasl.jaas.config={jaas(PASSWORDS)}"
            for name in ("login", "both")
        ),
    ]
    return "".join(f"{line}\n" for line in lines)


@contextmanager
def kafka_side(directory: Path) -> Iterator[Side]:
    """Apache Kafka with these listeners."""
    authority = Authority(directory)
    *numbers, controller_port = free_ports(len(LISTENERS) + 1)
    ports = dict(zip(LISTENERS, numbers, strict=True))
    changed = settings(ports, controller_port, authority) + (
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n" + SMALL_CLEANER
    )
    _, command = prepare(directory, SMALL_JVM, changed)
    command = ["env", f"PLANTED={PLANTED}", *command]
    with running(command, directory, *ports.values()):
        yield Side("Apache Kafka", ports, authority, directory)


@contextmanager
def wirekafka_side(directory: Path) -> Iterator[Side]:
    """wirekafka with the same lines of server.properties."""
    authority = Authority(directory)
    *numbers, controller_port = free_ports(len(LISTENERS) + 1)
    ports = dict(zip(LISTENERS, numbers, strict=True))
    properties = directory / "server.properties"
    properties.write_text(_SINGLE + settings(ports, controller_port, authority))
    with Serving(
        directory / "data",
        *("--config", str(properties)),
        listen="",
        environment={"PLANTED": PLANTED},
    ) as serving:
        try:
            yield Side("wirekafka", ports, authority, directory)
        finally:
            serving.stop()
            (directory / "server.log").write_text(serving.errors)
