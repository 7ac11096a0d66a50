"""Kafka's tools for groups print the same about the same groups as they do of Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from compat_tests import apache_kafka
from compat_tests.group_stage import GroupStage
from compat_tests.java_tools import JavaTools
from compat_tests.tool_shell import ToolShell
from spark_examples.live_broker import live_broker
from tests import share_state_topic

pytestmark = pytest.mark.timeout(600)

_MASKED = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"ADDRESS *\(1\)"), "NODE"),
)
"""What differs by broker."""

_KINDS = ("simple", "classic", "consumer", "consumer-empty", "share", "share-empty")
_KINDS = (*_KINDS, "streams", "streams-empty", "missing")


class Pair:
    """One JVM with Kafka's tools, for both brokers."""

    def __init__(self, shell: ToolShell, stages: tuple[GroupStage, GroupStage], scratch: Path):
        self._shell = shell
        self.stages = stages
        self._scratch = scratch
        self.differences: list[str] = []

    def run(self, tool: str, line: str, *, exports: str = "") -> None:
        """Run a tool on both; `{file}` is a file that an earlier run has exported."""
        printed = []
        for number, stage in enumerate(self.stages):
            for each in self.stages:
                each.beat()
            file = self._scratch / f"{number}.csv"
            words = line.replace("{file}", str(file)).split()
            status, output, errors = self._shell.finish(tool, *words, bootstrap=stage.bootstrap)
            if exports:
                file.write_text(output)
            lines = _masked(f"exit {status}\n{output}{errors}".replace(str(file), "FILE"))
            # Groups are listed as the partitions of their coordinators answer.
            printed.append("\n".join(sorted(lines) if "--list" in line else lines))
        kafkas, ours = printed
        if kafkas != ours:
            self.differences.append(f"{tool} {line}\n--- Kafka\n{kafkas}\n--- ours\n{ours}")

    def assert_same(self) -> None:
        found, self.differences = self.differences, []
        assert not found, "\n\n".join([f"{len(found)} differ", *found])


def _masked(text: str) -> list[str]:
    for pattern, name in _MASKED:
        text = pattern.sub(name, text)
    lines = (re.sub(" +", " ", line).rstrip() for line in text.splitlines())
    return [line for line in lines if not line.startswith("\tat ")]


@pytest.fixture(scope="module")
def pair(java_tools: JavaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Brokers of its own: the groups of other tests would be listed."""
    directory = tmp_path_factory.mktemp("kafka")
    settings = apache_kafka.SMALL_CLEANER + share_state_topic.lines()
    port, command = apache_kafka.prepare(directory, apache_kafka.SMALL_JVM, settings)
    with (
        apache_kafka.running(command, directory, port) as kafkas,
        live_broker(tmp_path_factory.mktemp("wirekafka") / "data") as ours,
    ):
        stages = GroupStage(kafkas), GroupStage(ours)
        yield Pair(ToolShell(java_tools, ours), stages, tmp_path_factory.mktemp("exports"))


def test_kafka_groups_prints_the_same(pair: Pair) -> None:
    for line in (
        "--list",
        *(f"--list --group-type {kind}" for kind in ("classic", "consumer", "share", "streams")),
        "--list --consumer",
        "--list --share",
        "--list --streams",
        "--list --protocol consumer",
    ):
        pair.run("kafka-groups", line)
    pair.assert_same()


@pytest.mark.parametrize("tool", ["consumer", "share", "streams"])
def test_descriptions_and_lists_are_the_same(pair: Pair, tool: str) -> None:
    options = ["", "--offsets", "--members", "--members --verbose", "--state"]
    options += ["--state --verbose", "--offsets --verbose"]
    name = f"kafka-{tool}-groups"
    for kind in _KINDS:
        for option in options if tool in kind or kind in ("simple", "classic") else [""]:
            pair.run(name, f"--describe --group tools-{kind} {option}")
    for line in ("--list", "--list --state", "--list --state Empty", "--list --state Stable"):
        pair.run(name, line)
    if tool == "consumer":
        pair.run(name, "--list --type")
        pair.run(name, "--list --type consumer")
        pair.run(name, "--list --type classic --state")
    pair.assert_same()


def test_the_admin_client_of_librdkafka_sees_the_same(pair: Pair) -> None:
    kafkas, ours = map(_seen_by_librdkafka, pair.stages)
    assert kafkas == ours


def _seen_by_librdkafka(stage: GroupStage) -> dict[str, str]:
    """What the client prints about each group."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 0})
    stage.beat()
    found = {
        f"listed {each.group_id}": f"{each.state} {each.type} {each.is_simple_consumer_group}"
        for each in admin.list_consumer_groups().result(30).valid
        if each.group_id.startswith("tools-")
    }
    for kind in _KINDS:
        group = f"tools-{kind}"
        [described] = admin.describe_consumer_groups([group]).values()
        asked = [ConsumerGroupTopicPartitions(group)]
        [offsets] = admin.list_consumer_group_offsets(asked).values()
        found |= {
            group: _outcome(described, _group),
            f"offsets of {group}": _outcome(offsets, _offsets),
        }
    return found


def _outcome(answer: Future[Any], shown: Callable[[Any], str]) -> str:
    error = answer.exception(30)
    return "\n".join(_masked(str(error) if error else shown(answer.result())))


def _offsets(group: ConsumerGroupTopicPartitions) -> str:
    return str(sorted((e.topic, e.partition, e.offset, e.error) for e in group.topic_partitions))


def _group(group: ConsumerGroupDescription) -> str:
    lines = [f"{group.state} {group.type} {group.partition_assignor} {group.coordinator.id}"]
    for member in group.members:
        partitions = member.assignment.topic_partitions
        lines.append(
            f"{member.member_id} {member.client_id} {member.host} {member.group_instance_id} "
            f"{sorted((each.topic, each.partition) for each in partitions)}"
        )
    return "\n".join(lines)


_NEW_OFFSETS = (
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--to-offset 2",
    "--to-offset 99",
    "--shift-by 1",
    "--shift-by -2",
    "--shift-by 99",
    "--to-datetime 2023-11-14T22:13:22.000",
    "--to-datetime 2033-11-14T22:13:22.000+01:00",
    "--to-datetime yesterday",
    "--by-duration P1D",
    "--by-duration P9999D",
    "",
    "--to-latest --to-earliest",
)


def test_kafka_consumer_groups_changes_offsets_alike(pair: Pair) -> None:
    name = "kafka-consumer-groups"
    group = "--group tools-simple"
    for how in _NEW_OFFSETS:
        pair.run(name, f"--reset-offsets {group} --topic tools-a {how}")
        pair.run(name, f"--reset-offsets {group} --topic tools-a:1 {how} --dry-run")
    for how in ("--to-earliest", "--shift-by 2", "--to-datetime 2023-11-14T22:13:22.000"):
        pair.run(name, f"--reset-offsets {group} --all-topics {how} --execute")
        pair.run(name, f"--describe {group}")
    export = f"--reset-offsets {group} --all-topics --shift-by -1 --dry-run --export"
    pair.run(name, export, exports="csv")
    pair.run(name, f"--reset-offsets {group} --from-file {{file}} --execute")
    pair.run(name, f"--reset-offsets {group} --topic tools-a:7 --to-latest --execute")
    pair.run(name, f"--reset-offsets {group} --topic tools-none --to-latest --execute")
    two = "--group tools-simple --group tools-consumer-empty"
    pair.run(name, f"--reset-offsets {two} --topic tools-b --to-earliest --export", exports="csv")
    pair.run(name, f"--reset-offsets {two} --from-file {{file}} --dry-run")
    for kind in _KINDS[1:]:
        pair.run(
            name, f"--reset-offsets --group tools-{kind} --topic tools-b --to-latest --execute"
        )
        pair.run(name, f"--describe --group tools-{kind} --offsets")
    for kind in _KINDS:
        pair.run(name, f"--delete-offsets --group tools-{kind} --topic tools-b")
        pair.run(name, f"--delete-offsets --group tools-{kind} --topic tools-none")
    pair.run(name, "--delete-offsets --group tools-simple --topic tools-a:0,1")
    pair.run(name, "--describe --group tools-simple")
    for kind in ("missing", "classic", "consumer", "share", "streams"):
        pair.run(name, f"--delete --group tools-{kind}")
    pair.run(name, "--delete --group tools-consumer-empty --group tools-missing")
    pair.run(name, "--list")
    pair.assert_same()


def test_kafka_share_groups_changes_offsets_alike(pair: Pair) -> None:
    name = "kafka-share-groups"
    group = "--group tools-share-empty"
    for how in _NEW_OFFSETS:
        pair.run(name, f"--reset-offsets {group} --topic tools-a {how} --dry-run")
        pair.run(name, f"--reset-offsets {group} --topic tools-a {how}")
    for how in ("--to-earliest", "--to-latest", "--to-datetime 2023-11-14T22:13:22.000"):
        pair.run(name, f"--reset-offsets {group} --all-topics {how} --execute")
        pair.run(name, f"--describe {group}")
        pair.run(name, f"--describe {group} --offsets --verbose")
    pair.run(name, f"--reset-offsets {group} --topic tools-none --to-latest --execute")
    for kind in _KINDS:
        if kind != "share-empty":
            line = f"--reset-offsets --group tools-{kind} --topic tools-b --to-latest --execute"
            pair.run(name, line)
            pair.run(name, f"--delete-offsets --group tools-{kind} --topic tools-b")
    pair.run(name, f"--delete-offsets {group} --topic tools-b")
    pair.run(name, f"--delete-offsets {group} --topic tools-none")
    pair.run(name, f"--delete-offsets {group} --topic tools-none --topic tools-a")
    pair.run(name, f"--describe {group}")
    for kind in ("missing", "simple", "classic", "consumer", "share", "streams-empty"):
        pair.run(name, f"--delete --group tools-{kind}")
    pair.run(name, f"--delete {group} --group tools-missing")
    pair.run(name, f"--describe {group}")
    pair.run(name, "--list")
    pair.assert_same()


def test_kafka_streams_groups_changes_offsets_alike(pair: Pair) -> None:
    name = "kafka-streams-groups"
    group = "--group tools-streams-empty"
    for how in _NEW_OFFSETS:
        pair.run(name, f"--reset-offsets {group} --input-topic tools-a {how} --dry-run")
        pair.run(name, f"--reset-offsets {group} --input-topic tools-a:1 {how}")
    for how in ("--to-earliest", "--shift-by 2", "--to-datetime 2023-11-14T22:13:22.000"):
        pair.run(name, f"--reset-offsets {group} --all-input-topics {how} --execute")
        pair.run(name, f"--describe {group} --offsets --verbose")
    export = f"--reset-offsets {group} --all-input-topics --shift-by -1 --dry-run --export"
    pair.run(name, export, exports="csv")
    pair.run(name, f"--reset-offsets {group} --from-file {{file}} --execute")
    pair.run(name, f"--reset-offsets {group} --input-topic tools-none --to-latest --execute")
    for kind in _KINDS:
        if kind != "streams-empty":
            line = f"--reset-offsets --group tools-{kind} --input-topic tools-b --to-latest"
            pair.run(name, f"{line} --execute")
            pair.run(name, f"--delete-offsets --group tools-{kind} --input-topic tools-b")
    pair.run(name, f"--delete-offsets {group} --input-topic tools-b")
    pair.run(name, f"--delete-offsets {group} --input-topic tools-none")
    pair.run(name, f"--delete-offsets {group} --all-input-topics")
    pair.run(name, f"--describe {group}")
    for kind in ("missing", "simple", "classic", "consumer", "share", "streams"):
        pair.run(name, f"--delete --group tools-{kind}")
    pair.run(name, f"--delete {group} --group tools-missing --delete-all-internal-topics")
    pair.run(name, f"--describe {group}")
    pair.run(name, "--list")
    pair.assert_same()
