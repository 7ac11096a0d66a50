"""ACLs made by Kafka's tools and clients, and ACLs that both engines keep on one directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.java_tools import JavaTools
from spark_examples.live_broker import live_broker
from tests.cli.conftest import command_line
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER

SETTINGS = (f"authorizer.class.name={STANDARD_AUTHORIZER}", "super.users=User:ANONYMOUS")


def test_kafka_acls_adds_lists_and_removes(java_tools: JavaTools, tmp_path: Path) -> None:
    with live_broker(tmp_path / "data", *SETTINGS) as bootstrap:

        def run(*words: str) -> str:
            return java_tools.run("kafka-acls", "--bootstrap-server", bootstrap, *words)

        run("--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
        run(
            *("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1"),
            *("--operation", "Read", "--group", "g-", "--resource-pattern-type", "prefixed"),
        )
        listed = run("--list")
        for operation in ("WRITE", "DESCRIBE", "CREATE"):
            assert f"(principal=User:alice, host=*, operation={operation}" in listed
        assert "resourceType=GROUP, name=g-, patternType=PREFIXED" in listed
        assert "host=10.0.0.1, operation=READ, permissionType=DENY" in listed
        assert "alice" not in run("--list", "--group", "g-app", "--resource-pattern-type", "match")
        run("--remove", "--force", "--topic", "orders")
        assert "alice" not in run("--list")
        assert "bob" in run("--list")


@pytest.mark.parametrize(
    "role",
    [
        ("--producer", "--topic", "orders", "--transactional-id", "pay"),
        ("--consumer", "--topic", "orders", "--group", "shop"),
    ],
    ids=["producer", "consumer"],
)
def test_our_command_grants_a_role_what_kafka_acls_grants(
    java_tools: JavaTools,
    tmp_path: Path,
    role: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: Any,
) -> None:
    with live_broker(tmp_path / "data", *SETTINGS) as bootstrap:
        run = command_line(bootstrap, monkeypatch, capfdbinary)
        words = ("--bootstrap-server", bootstrap, "--add", "--allow-principal", "User:alice")
        java_tools.run("kafka-acls", *words, *role)
        by_tool = run("acls", "list", "--json").out
        assert json.loads(run("acls", "remove", "--all", "--json").out)
        run("acls", "add", "--principal", "alice", *role)
        assert run("acls", "list", "--json").out == by_tool


def test_acls_go_over_to_apache_kafka_and_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with live_broker(data, *SETTINGS) as bootstrap:
        _create(bootstrap, "ours")
        before = _acls(bootstrap)
        assert len(before) == 2
    with apache_kafka_on([data], tmp_path, settings="".join(f"{each}\n" for each in SETTINGS)) as (
        bootstrap
    ):
        assert _acls(bootstrap) == before
        _delete(bootstrap, "ours-literal")
        _create(bootstrap, "kafkas")
        between = _acls(bootstrap)
        assert len(between) == 3
    with live_broker(data, *SETTINGS) as bootstrap:
        assert _acls(bootstrap) == between
        _delete(bootstrap, "kafkas-prefixed")
        assert len(_acls(bootstrap)) == 2


def _create(bootstrap: str, name: str) -> None:
    admin = _admin(bootstrap)
    created = admin.create_acls(
        [
            AclBinding(
                ResourceType.TOPIC,
                f"{name}-{pattern.name.lower()}",
                pattern,
                "User:alice",
                "*",
                AclOperation.WRITE,
                AclPermissionType.ALLOW,
            )
            for pattern in (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
        ]
    )
    for each in created.values():
        each.result(30)


def _delete(bootstrap: str, name: str) -> None:
    admin = _admin(bootstrap)
    for each in admin.delete_acls([_filter(name)]).values():
        assert len(each.result(30)) == 1


def _acls(bootstrap: str) -> set[str]:
    admin = _admin(bootstrap)
    return {str(acl) for acl in admin.describe_acls(_filter(None)).result(30)}


def _filter(name: str | None) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY,
        name,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
