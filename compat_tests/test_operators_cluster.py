"""An operator's week on two brokers, by our commands: users, rights, moves, resets and repairs.

`test_operators_week.py` has the certificate and the full disk, `test_doctor.py` what goes wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape
from tests.console.hanging import ORPHAN, leave_hanging
from tests.eventually import eventually
from tests.ports import free_ports
from tests.repetitions import swept
from wirekafka.client.client import Client
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER

_LOGIN = "LOGIN"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    f"listener.name.{_LOGIN.lower()}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
    "transaction.partition.verification.enable": "false",
    "auto.leader.rebalance.enable": "false",
}


class Operator:
    """An operator of a cluster of two brokers, at a shell."""

    def __init__(self, cluster: Cluster, login: str, scratch: Path):
        self.cluster = cluster
        self._login = login
        """Where users log in; at the cluster's other addresses, the operator may do everything."""
        self._scratch = scratch

    def run(self, *words: str, given: str = "", as_user: str | None = None) -> str:
        """The output of a command that must succeed."""
        ended = self.ended(words, given, as_user)
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
        return ended.stdout

    def refusal(self, *words: str, given: str = "", as_user: str | None = None) -> str:
        """The line by which a command fails."""
        ended = self.ended(words, given, as_user)
        assert ended.returncode == 1, (words, ended.stdout, ended.stderr)
        return ended.stderr

    def password(self, user: str, password: str) -> None:
        """Give a user's clients a password."""
        lines = [
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=SCRAM-SHA-512",
            f'sasl.jaas.config={_SCRAM} required username="{user}" password="{password}";',
        ]
        self._properties(user).write_text("\n".join(lines))

    def ended(
        self, words: Sequence[str], given: str = "", as_user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        where = ["-b", self.cluster.bootstrap]
        if as_user is not None:
            where = ["-b", self._login, "--command-config", str(self._properties(as_user))]
        command = [sys.executable, "-m", "wirekafka", *words, *where]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=90, check=False
        )

    def _properties(self, user: str) -> Path:
        return self._scratch / f"{user}.properties"


@pytest.fixture(scope="module", params=swept([WIREKAFKA, KAFKA], every=2))
def operator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    shape = Shape(brokers=(request.param, request.param), settings=_SETTINGS)
    directory = tmp_path_factory.mktemp("week")
    with Cluster.laid_out(shape, directory) as cluster:
        logins = [_add_login(node) for node in cluster.brokers()]
        cluster.start(*cluster.nodes)
        yield Operator(cluster, ",".join(logins), directory)


def _add_login(node: Node) -> str:
    """Add a listener for users; returns its address."""
    [port] = free_ports(1)
    address = f"{HOST}:{port}"
    properties = node.directory / "server.properties"
    lines = [
        f"{line},{_LOGIN}://{address}" if line.startswith("listeners=") else line
        for line in properties.read_text().splitlines()
    ]
    protocols = f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{_LOGIN}:SASL_PLAINTEXT"
    lines.append(f"listener.security.protocol.map={protocols}")
    properties.write_text("\n".join(lines) + "\n")
    return address


def test_the_first_user_writes_and_reads_what_an_acl_allows(operator: Operator) -> None:
    operator.run("topics", "create", "orders", "--partitions", "2", "--replication-factor", "2")
    operator.run("users", "add", "alice", "--password-file", "-", given="first-secret\n")
    operator.password("alice", "first-secret")

    def is_refused() -> bool:
        # Until all brokers know the user, her login is refused.
        line = operator.refusal("produce", "orders", given="a\n", as_user="alice")
        return "TOPIC_AUTHORIZATION_FAILED" in line

    eventually(is_refused, timeout_s=30)
    rights = ("--principal", "alice", "--topic", "orders")
    operator.run("acls", "add", *rights, "--producer")
    operator.run("acls", "add", *rights, "--consumer", "--group", "shop")
    read = ("consume", "orders", "--from", "beginning", "--group", "shop", "-n", "2")

    def has_written() -> bool:
        words = ("produce", "orders")
        return operator.ended(words, "one\ntwo\n", "alice").returncode == 0

    eventually(has_written, timeout_s=30)
    assert sorted(operator.run(*read, as_user="alice").split()) == ["one", "two"]
    line = operator.refusal("topics", "create", "hers", as_user="alice")
    assert "AUTHORIZATION_FAILED" in line

    operator.run("users", "password", "alice", "--password-file", "-", given="second-secret\n")
    eventually(
        lambda: "SASL" in operator.ended(("topics", "list"), as_user="alice").stderr, timeout_s=30
    )
    operator.password("alice", "second-secret")
    assert operator.run("topics", "list", as_user="alice").split()[-1:] == ["orders"]


def test_a_topic_moves_to_another_broker_and_its_leaders_follow(operator: Operator) -> None:
    operator.run("topics", "create", "moved", "--partitions", "4", "--replication-factor", "1")
    operator.run("produce", "moved", given="".join(f"{n}\n" for n in range(100)))
    operator.run("reassign", "apply", "--topic", "moved", "--brokers", "2", "--wait")
    [described] = json.loads(operator.run("topics", "describe", "moved", "--json"))
    assert {(row["leader"], *row["replicas"]) for row in described["partitions"]} == {(2, 2)}
    read = operator.run("consume", "moved", "--from", "beginning", "--exit-at-end")
    assert sorted(map(int, read.split())) == list(range(100))


def test_a_group_reads_again_from_the_beginning(operator: Operator) -> None:
    operator.run("topics", "create", "again", "--replication-factor", "2")
    operator.run("produce", "again", given="a\nb\n")
    read = ("consume", "again", "--group", "again", "--from", "beginning", "-n", "2")
    assert operator.run(*read).split() == ["a", "b"]
    operator.run("groups", "reset-offsets", "again", "--topic", "again", "--to", "earliest")
    assert operator.run(*read).split() == ["a", "b"]


def test_a_hanging_transaction_is_found_and_aborted(operator: Operator) -> None:
    operator.run("topics", "create", "stuck", "--replication-factor", "2")
    with Client(operator.cluster.bootstrap) as client:
        leave_hanging(client, "stuck", 0)
    [found] = json.loads(operator.run("transactions", "find-hanging", "--topic", "stuck", "--json"))
    assert found["producer"] == ORPHAN
    operator.run("transactions", "abort", "-t", "stuck", "-p", "0", "--start-offset", "0")
    listed = operator.run("transactions", "find-hanging", "--topic", "stuck", "--json")
    assert json.loads(listed) == []
