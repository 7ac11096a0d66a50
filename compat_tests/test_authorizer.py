"""Our authorizer and Kafka's own class make the same decisions, and log the same reasons.

`WIREKAFKA_DECISIONS` is the number of random decisions; 50,000 take half a minute.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.java_lines import JavaLines
from tests.repetitions import repetitions
from wirekafka.config.checks.authorization import Policy
from wirekafka.security.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from wirekafka.security.acl_index import AclIndex
from wirekafka.security.authorizer import AUDIT, Authorizer

_SOURCE = Path(__file__).with_name("java") / "Authorize.java"
_DECISIONS = repetitions("WIREKAFKA_DECISIONS", usual=10_000, thorough=50_000)
_DECISIONS_PER_WORLD = 100

TYPES = [kind for kind in ResourceType if kind > ResourceType.ANY]
OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
USERS = ["User:alice", "User:bob", "User:CN=carol,O=Example", "Group:alice", "User:root"]
HOSTS = ["10.0.0.1", "10.0.0.2", "10.0.1.1", "192.168.7.9", "2001:db8:0:0:0:0:0:1"]
ACL_HOSTS = ["*", *HOSTS, "10.0.0.0/24", "10.0.1.1/8", "2001:db8::/32", "0.0.0.0/0"]
NAMES = ["a", "ab", "abc", "abd", "b", "bc", "b-1", "*a", "été", CLUSTER_NAME]


class KafkaAuthorizer(JavaLines):
    """Kafka's StandardAuthorizer in a JVM."""

    def ask(self, lines: list[str], answers: int) -> list[list[str]]:
        """Send lines, and read as many results: the decision and the text of the audit log."""
        self.send("".join(f"{line}\n" for line in [*lines, "flush"]))
        read = [self.next_line().split("\t") for _ in range(answers)]
        assert all(len(each) == 2 for each in read), read
        return read


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAuthorizer]:
    with KafkaAuthorizer.running(_SOURCE) as kafka:
        yield kafka


@dataclass
class Client:
    principal: str
    client_host: str
    api_name: str = "Produce"


@dataclass
class World:
    """A policy and ACLs, as both authorizers get them."""

    policy: Policy
    acls: list[Acl]

    @classmethod
    def random(cls, dice: random.Random) -> World:
        policy = Policy(frozenset(dice.sample(USERS, dice.choice([0, 0, 1]))), dice.random() < 0.3)
        acls = [
            Acl(
                dice.choice(TYPES[:4]),
                dice.choice(["*", *NAMES]),
                dice.choice([PatternType.LITERAL, PatternType.PREFIXED]),
                dice.choice([*USERS, "User:*"]),
                dice.choice(ACL_HOSTS),
                dice.choice([Operation.ALL, *OPERATIONS[:9]]),
                dice.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
            )
            for _ in range(dice.choice([0, 1, 5, 20, 80]))
        ]
        return cls(policy, list(dict.fromkeys(acls)))

    def authorizer(self) -> Authorizer:
        index = AclIndex()
        for number, acl in enumerate(self.acls):
            index.add(number.to_bytes(16, "big"), acl)
        index.is_loaded = True
        return Authorizer(self.policy, lambda: index)

    def lines(self) -> list[str]:
        users, is_open = ";".join(self.policy.super_users), self.policy.allows_without_acls
        return [
            f"policy\t{users}\t{str(is_open).lower()}",
            *("\t".join(["acl", *map(_text, acl)]) for acl in self.acls),
            "load",
        ]


def _text(value: str | int) -> str:
    return value if isinstance(value, str) else str(int(value))


def test_random_decisions_and_their_reasons_are_kafkas(
    kafka: KafkaAuthorizer, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(20)
    caplog.set_level(logging.DEBUG, AUDIT.name)
    outcomes = {True: 0, False: 0}
    for _ in range(_DECISIONS // _DECISIONS_PER_WORLD):
        world = World.random(dice)
        authorizer = world.authorizer()
        lines, ours = world.lines(), []
        for _ in range(_DECISIONS_PER_WORLD):
            user, host = dice.choice(USERS), dice.choice(HOSTS)
            operation, kind = dice.choice(OPERATIONS[:10]), dice.choice(TYPES[:4])
            name, references = dice.choice(NAMES), dice.choice([1, 1, 3])
            lines.append(f"ask\t{user}\t{host}\t{operation:d}\t{kind:d}\t{name}\t{references}")
            caplog.clear()
            allowed = authorizer.allows(
                Client(user, f"/{host}"), operation, (kind, name), references=references
            )
            outcomes[allowed] += 1
            [record] = caplog.records
            ours.append(
                ["ALLOWED" if allowed else "DENIED", f"{record.levelname} {record.message}"]
            )
        theirs = kafka.ask(lines, len(ours))
        different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
        assert different == [], world
    assert min(outcomes.values()) > _DECISIONS // 20


def test_what_is_allowed_on_some_resource_is_kafkas(kafka: KafkaAuthorizer) -> None:
    dice = random.Random(21)
    outcomes = {True: 0, False: 0}
    for _ in range(_DECISIONS // 500):
        world = World.random(dice)
        authorizer = world.authorizer()
        lines, ours = world.lines(), []
        for user in USERS:
            for host in HOSTS:
                operation, kind = dice.choice(OPERATIONS[:9]), dice.choice(TYPES[:4])
                lines.append(f"some\t{user}\t{host}\t{operation:d}\t{kind:d}")
                allowed = authorizer.allows_on_some(Client(user, f"/{host}"), operation, kind)
                outcomes[allowed] += 1
                ours.append(["ALLOWED" if allowed else "DENIED", ""])
        theirs = kafka.ask(lines, len(ours))
        different = [
            each
            for each in zip(lines[-len(ours) :], ours, theirs, strict=True)
            if each[1] != each[2]
        ]
        assert different == [], world
    assert min(outcomes.values()) > _DECISIONS // 500
