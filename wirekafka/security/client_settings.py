"""The settings by which a client connects to a secured listener, as each client names them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from wirekafka.security.sasl.scram import LOGIN_MODULE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """The settings of a client: addresses, user, and trusted authority."""

    bootstrap_servers: str
    user: str | None = None
    """The user's name; None does not log in."""
    password: str = field(default="", repr=False)
    mechanism: str = "SCRAM-SHA-512"
    ca_pem: str | None = None
    """The certificate of the broker's authority; None connects without TLS."""
    ca_file: str | None = None
    """A file with that certificate, for clients that are to read it from there."""

    @property
    def security_protocol(self) -> str:
        """Kafka's name of the protocol, such as "SASL_SSL"."""
        transport = "PLAINTEXT" if self.ca_pem is None else "SSL"
        if self.user is None:
            return transport
        return f"SASL_{transport}"


def java(access: ClientAccess) -> dict[str, object]:
    """The properties of Java clients and of Kafka's commands."""
    found: dict[str, object] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.security_protocol,
    }
    if access.user is not None:
        found["sasl.mechanism"] = access.mechanism
        found["sasl.jaas.config"] = (
            f"{LOGIN_MODULE} required username={_quoted(access.user)}"
            f" password={_quoted(access.password)};"
        )
    if access.ca_pem is not None:
        found["ssl.truststore.type"] = "PEM"
        if access.ca_file is None:
            found["ssl.truststore.certificates"] = access.ca_pem
        else:
            found["ssl.truststore.location"] = access.ca_file
    return found


def confluent(access: ClientAccess) -> dict[str, object]:
    """The configuration of confluent-kafka and of every other client of librdkafka."""
    found: dict[str, object] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.security_protocol,
    }
    if access.user is not None:
        found["sasl.mechanism"] = access.mechanism
        found["sasl.username"] = access.user
        found["sasl.password"] = access.password
    if access.ca_file is not None:
        found["ssl.ca.location"] = access.ca_file
    elif access.ca_pem is not None:
        found["ssl.ca.pem"] = access.ca_pem
    return found


def kafka_python(access: ClientAccess) -> dict[str, object]:
    """The keyword arguments of kafka-python and aiokafka."""
    found: dict[str, object] = {
        "bootstrap_servers": access.bootstrap_servers,
        "security_protocol": access.security_protocol,
    }
    if access.user is not None:
        found["sasl_mechanism"] = access.mechanism
        found["sasl_plain_username"] = access.user
        found["sasl_plain_password"] = access.password
    if access.ca_pem is not None:
        found["ssl_context"] = ssl.create_default_context(cadata=access.ca_pem)
    return found


CLIENTS: dict[str, Callable[[ClientAccess], dict[str, object]]] = {
    "confluent": confluent,
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": kafka_python,
    "java": java,
}
"""The settings of a client, by the client's name."""


def _quoted(text: str) -> str:
    """A value of a JAAS text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
