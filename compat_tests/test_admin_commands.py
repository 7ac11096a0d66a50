"""The commands that administer clusters print the same of Apache Kafka and of wirekafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests import apache_kafka
from compat_tests.java_tools import JavaTools
from spark_examples.live_broker import live_broker
from tests.cli.conftest import Outcome, command_line
from tests.console.hanging import leave_hanging
from wirekafka.client.admin.features import level_name
from wirekafka.client.client import Client
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER

SETTINGS = (
    f"authorizer.class.name={STANDARD_AUTHORIZER}",
    "super.users=User:ANONYMOUS",
    "transaction.partition.verification.enable=false",
)
PLAN = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [%d]}]}'
ALICE = ("--principal", "alice")

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("topics", "create", "t", "--partitions", "2"),
    ("acls", "list"),
    ("acls", "add", *ALICE, "--producer", "--topic", "t", "--transactional-id", "pay"),
    ("acls", "add", *ALICE, "--consumer", "--topic", "t", "--group", "g", "--json"),
    ("acls", "add", "--principal", "User:*", "--topic", "s", "--prefixed", "--operation", "read"),
    ("acls", "add", *ALICE, "--cluster", "--operation", "Alter", "--deny", "--host", "10.0.0.1"),
    ("acls", "add", *ALICE, "--user-resource", "bob", "--operation", "DescribeTokens"),
    ("acls", "add", *ALICE, "--topic", "", "--operation", "Read"),
    ("acls", "list"),
    ("acls", "list", "--topic", "secret", "--json"),
    ("acls", "list", *ALICE, "--topic", "t", "--group", "g"),
    ("acls", "remove", *ALICE, "--consumer", "--topic", "t", "--group", "g"),
    ("acls", "remove", "--topic", "nothing"),
    ("acls", "remove", "--prefixed", "--dry-run"),
    ("acls", "remove", "--all"),
    ("users", "list"),
    ("users", "add", "alice", "--password-file", "-"),
    ("users", "add", "bob", "--mechanism", "SCRAM-SHA-256", "--password-file", "-"),
    ("users", "add", "alice", "--password-file", "-"),
    ("users", "add", "", "--password-file", "-"),
    ("users", "list"),
    ("users", "list", "bob", "carol", "--json"),
    ("users", "password", "bob", "--password-file", "-"),
    ("users", "password", "carol", "--password-file", "-"),
    ("users", "remove", "alice", "--mechanism", "SCRAM-SHA-512"),
    ("users", "remove", "alice", "bob"),
    ("users", "list"),
    ("cluster", "describe"),
    ("cluster", "describe", "--json"),
    ("cluster", "quorum"),
    ("cluster", "quorum", "--json"),
    ("cluster", "log-dirs"),
    ("cluster", "log-dirs", "--broker", "1", "--json"),
    ("cluster", "log-dirs", "--broker", "5"),
    ("cluster", "unregister", "5"),
    ("features", "list"),
    ("features", "list", "--json"),
    ("features", "upgrade", "metadata.version=4.4", "streams.version=1"),
    ("features", "upgrade", "group.version=7"),
    ("features", "upgrade", "no.such.feature=1"),
    ("features", "downgrade", "metadata.version=4.2"),
    ("features", "downgrade", "metadata.version=4.2", "--unsafe"),
    ("features", "downgrade", "share.version=1", "--dry-run"),
    ("features", "disable", "streams.version"),
    ("features", "list"),
    ("elect", "--topic", "t"),
    ("elect", "--topic", "t", "--partition", "1", "--unclean", "--json"),
    ("elect", "--topic", "t", "-p", "0", "-p", "5"),
    ("elect", "--topic", "nope"),
    ("elect", "--all"),
    ("reassign", "plan", "--topic", "t"),
    ("reassign", "plan", "--topic", "t", "--json"),
    ("reassign", "plan", "--topic", "t", "--brokers", "1,2"),
    ("reassign", "plan", "--topic", "t", "--replication-factor", "2"),
    ("reassign", "apply", "-", "--wait"),
    ("reassign", "status"),
    ("reassign", "status", "--wait", "--json"),
    ("reassign", "cancel", "--all"),
    ("configs", "alter", "broker", "1", "--set", "leader.replication.throttled.rate=9"),
    ("configs", "alter", "topic", "t", "--set", "follower.replication.throttled.replicas=*"),
    ("reassign", "status"),
    ("reassign", "unthrottle"),
    ("reassign", "unthrottle"),
    ("transactions", "list"),
    ("transactions", "list", "--json"),
    ("transactions", "describe", "open"),
    ("transactions", "describe", "done"),
    ("transactions", "describe", "nope"),
    ("transactions", "list", "--ended"),
    ("transactions", "producers", "--topic", "t"),
    ("transactions", "producers", "--topic", "t", "--partition", "9"),
    ("transactions", "find-hanging"),
    ("transactions", "find-hanging", "--topic", "nope"),
    ("transactions", "abort", "--topic", "t", "--partition", "1", "--start-offset", "9"),
    ("transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", "0"),
    ("transactions", "abort", "--topic", "t", "--partition", "1", "--start-offset", "0"),
    ("transactions", "find-hanging", "--json"),
)
GIVEN = {"users": "secret\n", "reassign": PLAN % 77}
"""What commands read from standard input, by their names."""
MASKED = (
    (r"[ \t]+", " "),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r'(cluster|"cluster":) "?[A-Za-z0-9_-]{22}"?', r"\1 ID"),
    (r"20\d\d-\d\d-\d\dT[\d:]+Z", "TIME"),
    (r'("(?:started_ms|last_written)":) \d{13}', r"\1 TIME"),
    (r"(epoch|high watermark) \d+", r"\1 N"),
    (r'("(?:epoch|high_watermark|end|caught_up_ms|age_s)":) \d+', r"\1 N"),
    (r"(leader -) \d+ 0 \d+", r"\1 END 0 AGO"),
    # The embedded controller has no listener.
    (r'"listeners": \[.*?\]', '"listeners": []'),
    (r"open for \d+ s", "open for N s"),
    (r"TIME \d+ t-0", "TIME AGE t-0"),
    # Sizes of metadata and of disks.
    (r'("(?:size|free|total)":) \d+', r"\1 N"),
    (r"\d+(\.\d+)? (B|kB|MB|GB|TB)\b", "SIZE"),
)
"""What differs by broker, as patterns and what replaces them."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, str]]:
    """The directory and the address of Apache Kafka, and of wirekafka."""
    theirs, ours = (tmp_path_factory.mktemp(name) for name in ("kafka", "wirekafka"))
    settings = apache_kafka.SMALL_CLEANER + "".join(f"{line}\n" for line in SETTINGS)
    port, command = apache_kafka.prepare(theirs, apache_kafka.SMALL_JVM, settings)
    with (
        apache_kafka.running(command, theirs, port) as kafka,
        live_broker(ours / "data", *SETTINGS) as wirekafka,
    ):
        yield {theirs: kafka, ours: wirekafka}


@pytest.mark.timeout(120)
def test_every_command_prints_the_same(
    both: dict[Path, str], monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    differences, opened = [], []
    for command in COMMANDS:
        if command == ("transactions", "list"):
            opened = [plant(address) for address in both.values()]
        theirs, ours = (
            masked(
                command_line(address, monkeypatch, capfdbinary)(
                    *command, given=GIVEN.get(command[0], "")
                ),
                directory,
            )
            for directory, address in both.items()
        )
        if theirs != ours:
            line = " ".join(command)
            differences.append(f"{line}\n--- Kafka\n{theirs}\n--- ours\n{ours}")
    for producer in opened:
        producer.abort_transaction(10)
    assert not differences, "\n\n".join([f"{len(differences)} differ", *differences])


def test_levels_of_metadata_version_have_kafkas_names(java_tools: JavaTools) -> None:
    """Kafka's tool lists all names if it is asked for an unknown one; their levels begin at 7."""
    words = ("--bootstrap-server", "localhost:1", "version-mapping", "--release-version", "9.9")
    ended = java_tools.finish("kafka-features", *words)
    _, found, listed = (ended.stdout + ended.stderr).partition("Supported metadata.version are: ")
    assert found, ended
    names = dict(enumerate(listed.strip().split(", "), start=7))
    assert {each: level_name("metadata.version", each) for each in names} == names
    assert level_name("metadata.version", max(names) + 1) is None


def plant(bootstrap: str) -> Producer:
    """Leave a transaction open in t-0, another one hanging in t-1, and end a third."""
    producers = {}
    for name in ("done", "open"):
        producers[name] = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
        )
        producers[name].init_transactions(30)
        producers[name].begin_transaction()
        if name == "open":
            producers[name].produce("t", "x", partition=0)
            assert producers[name].flush(10) == 0
        else:
            producers[name].commit_transaction(10)
    with Client(bootstrap) as client:
        leave_hanging(client, "t", 1)
    return producers["open"]


def masked(outcome: Outcome, directory: Path) -> str:
    """The exit status, output and errors of a command without what differs by broker."""
    printed = f"{outcome.status}\n{outcome.out}{outcome.err}".replace(str(directory), "DIRECTORY")
    for pattern, replacement in MASKED:
        printed = re.sub(pattern, replacement, printed)
    return printed
