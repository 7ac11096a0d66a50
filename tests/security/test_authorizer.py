"""The authorizer's cache, its state before loading, and its settings."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER, Policy
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import GROUP, READ, TOPIC, Acl, Operation, PatternType, Permission
from wirekafka.security.acl_index import AclIndex
from wirekafka.security.authorizer import AUDIT, Authorizer


@dataclass
class Client:
    principal: str = "User:alice"
    client_host: str = "/10.0.0.1"
    api_name: str = "Fetch"


def allow(name: str, **changes: object) -> Acl:
    acl = Acl(TOPIC, name, PatternType.LITERAL, "User:alice", "*", READ, Permission.ALLOW)
    return acl._replace(**changes)


@pytest.fixture
def index() -> AclIndex:
    made = AclIndex()
    made.is_loaded = True
    return made


def test_a_change_of_acls_invalidates_cached_decisions(index: AclIndex) -> None:
    authorizer = Authorizer(Policy(), lambda: index)
    ask = lambda: authorizer.allows(Client(), READ, (TOPIC, "t"))  # noqa: E731
    assert not ask()
    index.add(b"1" * 16, allow("t"))
    assert ask()
    index.add(b"2" * 16, allow("t", permission=Permission.DENY, operation=Operation.ALL))
    assert not ask()
    index.remove(b"2" * 16)
    assert ask()
    index.remove(b"1" * 16)
    assert not ask()


def test_decisions_and_denials_are_counted(index: AclIndex) -> None:
    authorizer = Authorizer(Policy(), lambda: index)
    index.add(b"1" * 16, allow("t"))
    for name in ("t", "t", "other"):
        authorizer.allows(Client(), READ, (TOPIC, name))
    assert (authorizer.decisions, authorizer.denials, len(index)) == (3, 1, 1)


def test_a_repeated_decision_is_cached(index: AclIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.add(b"1" * 16, allow("t", pattern_type=PatternType.PREFIXED))
    authorizer = Authorizer(Policy(), lambda: index)
    assert authorizer.allows(Client(), READ, (TOPIC, "topic"))
    monkeypatch.setattr(AclIndex, "of_resource", None)
    assert authorizer.allows(Client(), READ, (TOPIC, "topic"))


def test_the_cache_of_decisions_is_bounded(index: AclIndex) -> None:
    authorizer = Authorizer(Policy(), lambda: index)
    for number in range(400):
        authorizer.allows(Client(), READ, (GROUP, f"{number}" + "x" * 30_000))
    assert 200 < len(index.decisions) < 300 and index.decisions.size_bytes <= 8 << 20
    authorizer.allows(Client(), READ, (GROUP, "x" * 1_000_000))
    assert max(len(key[1]) for key in index.decisions) < 31_000, "one must not take all of it"


def test_the_audit_log_cuts_long_names(index: AclIndex, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT.name)
    Authorizer(Policy(), lambda: index).allows(Client(), READ, (GROUP, "x" * 30_000))
    [line] = caplog.messages
    assert "xxx... (30000 characters) for request" in line and len(line) < 600


def test_until_the_acls_are_loaded_only_super_users_are_served(index: AclIndex) -> None:
    index.is_loaded = False
    authorizer = Authorizer(Policy(frozenset({"User:root"}), True), lambda: index)
    assert authorizer.allows(Client("User:root"), READ, (TOPIC, "t"))
    with pytest.raises(KafkaError) as refused:
        authorizer.allows(Client(), READ, (TOPIC, "t"))
    assert refused.value.error is Error.UNKNOWN_SERVER_ERROR
    index.is_loaded = True
    assert authorizer.allows(Client(), READ, (TOPIC, "t"))


def test_the_settings_are_read_as_kafka_reads_them() -> None:
    assert Policy.of(BrokerConfig.of()) is None
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin; User:CN=a,O=b ;",
        "allow.everyone.if.no.acl.found": "TRUE",
    }
    assert Policy.of(BrokerConfig.of(settings)) == Policy(
        frozenset({"User:admin", "User:CN=a,O=b"}), True
    )
    with pytest.raises(ConfigError, match="User:name"):
        Policy.of(BrokerConfig.of(settings | {"super.users": "admin"}))
