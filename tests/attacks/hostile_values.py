"""Values that attack a node: of each kind of a request's fields, and known values by field."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.in_process import batch
from tests.planted_secrets import planted
from wirekafka.config.prefixed_names import jaas_option

PREFIX = "narrow-"
"""One of the attackers has all rights on topics, groups and transactions of this prefix."""
OTHERS_GROUP = "others-group"
OTHERS_TRANSACTION = "others-transaction-12345"
OWN_TOPIC, OTHERS_TOPIC = f"{PREFIX}topic", "vault"
ENVIRONMENT_SECRET = "WIREKAFKA_BAIT"
"""An environment variable with a planted secret."""
LONG_NAME = "x" * 30_000
_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_UNSIGNED = {"H": 16, "I": 32}
_PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"


@dataclass(frozen=True)
class Baits:
    """Files with planted secrets, which a client might have the node read."""

    properties: Path
    plain: Path
    fifo: Path

    @classmethod
    def laid_in(cls, directory: Path) -> Baits:
        """Make the files in a directory."""
        made = cls(directory / "bait.properties", directory / "bait", directory / "fifo")
        made.properties.write_text(f"key={planted('of-a-file')}\n")
        made.plain.write_text(_PEM.format(planted("of-a-file")))
        os.mkfifo(made.fifo)
        return made

    def references(self) -> list[str]:
        """References to config providers that find a planted secret."""
        inside = {"key": self.properties, "": self.plain}
        return [
            *(f"${{file:{path}:{key}}}" for key, path in inside.items()),
            *(f"${{wirekafka:{path}:{key}}}" for key, path in inside.items()),
            f"${{directory:{self.plain.parent}:{self.plain.name}}}",
            f"${{env:{ENVIRONMENT_SECRET}}}",
            f"${{wirekafka:{self.fifo}:key}}",
            "${file:/etc/shadow:root}",
        ]

    def paths(self) -> list[str]:
        """Paths that must not be opened, or not be read to their end."""
        files = (self.properties, self.plain, self.fifo)
        climbing = f"{self.plain.parent}/none/../{self.plain.name}"
        return [
            *map(str, files),
            *(f"file://{path}" for path in files),
            climbing,
            f"../../../../../../../..{self.plain}",
            "/etc/shadow",
            "/dev/zero",
            "/dev/stdin",
            "/proc/self/environ",
            "/proc/self/mem",
            "/",
        ]


EXPRESSIONS = (
    "(.|.)*!",
    "(a+)+$",
    "(x*)*y",
    "(?:x|x?)" * 30 + "!",
    "x{1000}{1000}",
    "(" * 2_000 + "x" + ")" * 2_000,
    r"(\pL{100}){10}",
    "x" * 300 + r"\pL{440}",
    "[",
    "(?P<",
    "\\",
    "(?<=x)y",
)
"""Regular expressions that are invalid, or cost much time or memory."""

TEXTS = (
    "",
    " ",
    ".",
    "..",
    "../../etc/passwd",
    "a/../../b",
    "line\nWARN forged",
    "line\r\n\r\nforged",
    "\x1b]0;title\x07\x1b[2J",
    "\0",
    "a\0b",
    "\u202ereversed\u2028",
    "\U0001f4a5",
    "%s%n{0}{self}",
    "'; DROP TABLE topics; --",
    "<script>alert(1)</script>",
    "${jndi:ldap://127.0.0.1:1/a}",
    "User:admin",
    "*",
    "null",
    "-1",
    "9" * 400,
    "1e400",
    "NaN",
    "http://127.0.0.1:1/",
    "é" * 16_000,
    LONG_NAME,
)
"""Texts that break logs, paths, numbers or limits."""

OPTIONS = (
    "listener.name.clients.ssl.keystore.location",
    "listener.name.tls.ssl.keystore.location",
    "listener.name.tls.ssl.keystore.key",
    "listener.name.tls.ssl.truststore.location",
    "listener.name.tls.ssl.keystore.password",
    "listener.name.clients.sasl.jaas.config",
    jaas_option("CLIENTS", "PLAIN"),
    "listener.name.clients.sasl.enabled.mechanisms",
    "listener.name.clients.sasl.oauthbearer.jwks.endpoint.url",
    "listener.name.clients.connections.max.reauth.ms",
    "listener.name.tls.ssl.client.auth",
    "listener.name.tls.ssl.principal.mapping.rules",
    "ssl.keystore.location",
    "ssl.truststore.location",
    "ssl.keystore.type",
    "sasl.jaas.config",
    "sasl.enabled.mechanisms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.kerberos.principal.to.local.rules",
    "principal.builder.class",
    "super.users",
    "authorizer.class.name",
    "delegation.token.secret.key",
    "config.providers",
    "log.dirs",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "metric.reporters",
    "log.retention.ms",
    "log.segment.bytes",
    "max.connections.per.ip.overrides",
    "num.io.threads",
    "metrics",
    "interval.ms",
    "match",
    "retention.ms",
    "cleanup.policy",
    "leader.replication.throttled.replicas",
    "kafka.server",
    "root",
)
"""Names of options that something may be hidden behind."""

_KNOWN: dict[str, tuple[Any, ...]] = {
    "topics": (OWN_TOPIC, OTHERS_TOPIC, f"{PREFIX}new", "__consumer_offsets"),
    "groups": (f"{PREFIX}group", OTHERS_GROUP),
    "transactions": (f"{PREFIX}transaction", OTHERS_TRANSACTION),
    "users": ("none", "narrow", "admin", "ANONYMOUS"),
}
_MEANINGS = {
    "topic": "topics",
    "topic_name": "topics",
    "topic_names": "topics",
    "name": "topics",
    "subscribed_topic_names": "topics",
    "source_topics": "topics",
    "group_id": "groups",
    "groups": "groups",
    "group_ids": "groups",
    "groups_names": "groups",
    "transactional_id": "transactions",
    "transactional_ids": "transactions",
    "v3_and_below_transactional_id": "transactions",
    "principal_name": "users",
    "owner_principal_name": "users",
}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "resource_name": (OWN_TOPIC, OTHERS_TOPIC, "", "1", f"{PREFIX}group", "kafka-cluster"),
    "resource_name_filter": (OWN_TOPIC, None),
    "resource_type": (2, 4, 8, 16, 32, 3, 5, 6),
    "resource_type_filter": (1, 2, 3, 4, 5, 6),
    "resource_types": (2, 4, 8, 16, 32),
    "pattern_type_filter": (1, 2, 3, 4),
    "resource_pattern_type": (3, 4),
    "permission_type": (1, 2, 3),
    "operation": (1, 2, 3, 8, 10, 11, 12),
    "config_operation": (0, 1, 2, 3),
    "key_type": (0, 1, 2),
    "member_id": ("", "member"),
    "group_instance_id": (None, "instance"),
    "protocol_type": ("consumer",),
    "protocol_name": ("range", "roundrobin"),
    "server_assignor": (None, "uniform", "range"),
    "principal": ("User:none", "User:narrow"),
    "principal_type": ("User",),
    "owner_principal_type": ("User",),
    "entity_type": ("user", "client-id", "ip"),
    "entity_name": ("none", "127.0.0.1", None),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", 1, 2),
    "client_software_name": ("attacker",),
    "client_software_version": ("1.0",),
    "key": ("producer_byte_rate", "request_percentage", f"{PREFIX}group"),
    "coordinator_keys": (f"{PREFIX}group", OTHERS_GROUP, f"{PREFIX}group:AAAAAAAAAAAAAAAAAAAAAA:0"),
    "cluster_id": ("{cluster}", None),
    "feature": ("metadata.version", "kraft.version", "group.version"),
    "replication_factor": (1, -1),
    "num_partitions": (1, 2, -1),
    "count": (2, 3),
    "iterations": (4096, 8192),
    "session_timeout_ms": (6000, 45000),
    "max_wait_ms": (0, 1, 500),
    "acks": (0, 1, -1),
    "duration_filter": (-1, 0),
    "generation_id": (-1, 0, 1),
    "member_epoch": (0, -1, 1),
    "replica_id": (-1, 1),
}
_SMALL = (0, 1, -1, 2, 100, 1_000)


class Values:
    """Hostile values for the fields of requests, and values that are accepted more often."""

    def __init__(self, baits: Baits, topic_ids: tuple[bytes, ...], cluster_id: str):
        self.references = baits.references()
        self.paths = baits.paths()
        self._strings = (*self.references, *self.paths, *EXPRESSIONS, *TEXTS)
        self._topic_ids = topic_ids
        self._cluster_id = cluster_id

    def hostile(self, kind: str) -> tuple[Any, ...]:
        """Values of a primitive that attack."""
        if kind == "string":
            return self._strings
        if kind in _BITS:
            most = 1 << _BITS[kind] - 1
            return (-1, -most, most - 1, most // 2, 0, 127, -2)
        if kind in _UNSIGNED:
            return (0, 1, (1 << _UNSIGNED[kind]) - 1)
        if kind == "d":
            return (float("nan"), float("inf"), -1.0, 0.0, 1e308, 5e-324)
        if kind == "16s":
            return (bytes(16), b"\xff" * 16, bytes(15) + b"\1", *self._topic_ids)
        if kind == "?":
            return (True, False)
        return (
            b"",
            b"\0",
            b"\xff" * 40,
            b"\0" * 70,
            b"\x7f\xff\xff\xff" * 30,
            b"\0\1" + b"\x7f\xff\xff\xff" * 3,
            b"{" * 2_000,
            b"\0none\0" + self.references[0].encode(),
            b"n,,n=admin,r=" + b"a" * 4_000,
            batch(b"v")[:-3],
            bytes(30_000),
        )

    def known(self, random: Random, name: str, kind: str, parents: tuple[str, ...]) -> Any:
        """A value that a handler is likely to accept in a field."""
        if kind == "string" and "configs" in parents:
            return random.choice(OPTIONS if name == "name" else self.references)
        if name == "configuration_keys":
            return random.choice(OPTIONS)
        if (meaning := _MEANINGS.get(name)) is not None and kind == "string":
            return random.choice(_KNOWN[meaning])
        choices = [each for each in _CHOICES.get(name, ()) if isinstance(each, _type_of(kind))]
        if choices:
            found = random.choice(choices)
            return self._cluster_id if found == "{cluster}" else found
        if kind == "string":
            return random.choice(("", "a", PREFIX + "a"))
        if kind == "16s":
            return random.choice(self._topic_ids)
        if kind == "?":
            return random.random() < 0.5
        if kind == "d":
            return random.choice((1.0, 1000.0))
        if kind in _UNSIGNED:
            return random.choice((0, 1, 9092))
        if kind in _BITS:
            return random.choice(_SMALL if kind != "b" else _SMALL[:4])
        return batch(b"v") if kind == "records" else random.choice((b"", b"v", b"\0\0"))


def _type_of(kind: str) -> type:
    return str if kind == "string" else int
