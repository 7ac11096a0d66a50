"""`wirekafka doctor` against brokers and clusters of this process, with faults planted in them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import wirekafka
from tests.cli.conftest import Outcome
from tests.doctor import planted
from tests.eventually import eventually
from tests.ports import free_ports
from tests.server.serving import Serving
from wirekafka.cli.main import main
from wirekafka.client.client import Client
from wirekafka.client.producer import IdempotentProducer
from wirekafka.client.transactions import TransactionalProducer
from wirekafka.codec.record import Record
from wirekafka.doctor.cluster import disks, quorum
from wirekafka.testing import Allow


@dataclass(frozen=True)
class Examined:
    """The exit status of the command, and its findings as JSON has them."""

    status: int
    findings: Sequence[dict[str, Any]]

    def of(self, check: str) -> list[str]:
        """The subjects of one check's findings."""
        return [each["subject"] for each in self.findings if each["check"] == check]


Doctor = Callable[..., Examined]
Command = Callable[..., Outcome]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command with words, and returns what it printed."""
    monkeypatch.delenv("WIREKAFKA_BOOTSTRAP", raising=False)
    monkeypatch.setattr(disks, "NEARLY_FULL", 0)  # The disk of the tests may be.

    def run(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(["doctor", *words])
        printed = capfd.readouterr()
        return Outcome(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def doctor(command: Command) -> Doctor:
    """Runs the command with `--json`, and looks again soon."""

    def run(target: str, *words: str) -> Examined:
        outcome = command(target, "--again-after", "0.1", "--json", *words)
        return Examined(outcome.status, json.loads(outcome.out)["findings"])

    return run


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[wirekafka.Cluster]:
    with wirekafka.Cluster(brokers=3, controllers=3) as cluster:
        yield cluster


def test_a_healthy_broker_has_no_findings(command: Command) -> None:
    with wirekafka.Broker() as broker, Client(broker.bootstrap_servers) as client:
        planted.ordinary_state(client)
        outcome = command(broker.bootstrap_servers)
        assert outcome.status == 0
        assert outcome.out.startswith("Nothing is wrong. Checked: advertised addresses, ")
        assert outcome.out.count("\n") == 1


@pytest.mark.parametrize("plant", planted.ON_ONE_BROKER, ids=lambda each: each.__name__)
def test_a_planted_fault_is_found(
    broker: wirekafka.Broker, doctor: Doctor, plant: Callable[[Client], planted.Planted]
) -> None:
    before = doctor(broker.bootstrap_servers)
    with Client(broker.bootstrap_servers) as client:
        client.metadata()
        fault = plant(client)
    after = doctor(broker.bootstrap_servers)
    new = [
        each
        for each in after.findings
        if each["check"] == fault.check and each["subject"] not in before.of(fault.check)
    ]
    assert [each for each in new if fault.subject in each["subject"]], new
    assert all(fault.advice in each["advice"] for each in new)
    assert after.status == 1


def test_findings_are_printed_with_the_worst_first(
    broker: wirekafka.Broker, command: Command
) -> None:
    with Client(broker.bootstrap_servers) as client:
        planted.topic_with(client, "weak", {"min.insync.replicas": "3"})
        planted.topic_with(client, "brief", {"retention.ms": "1"})
    lines = command("-b", broker.bootstrap_servers, "--again-after", "0").out.splitlines()
    assert lines[0] == "Errors: something does not work, or records are lost"
    error = next(n for n, line in enumerate(lines) if line.startswith("  topic weak: "))
    assert lines[error].endswith("[min-isr-above-replicas]")
    assert lines[error + 1].startswith("    `wirekafka topics alter weak --config")
    warnings = lines.index("Warnings: it works for now")
    assert error < warnings < next(n for n, each in enumerate(lines) if "topic brief: " in each)


def test_what_a_user_may_not_see_is_reported_as_not_checked(doctor: Doctor, tmp_path: Path) -> None:
    users = {"alice": "alices", "root": "roots"}
    acls = [Allow("alice", "describe", topic="*")]
    with wirekafka.Broker(users=users, acls=acls, topics=["t"]) as broker:
        found = doctor(broker.bootstrap_servers, "--command-config", str(logged_in(tmp_path)))
    assert found.status == 1
    assert "the cluster: the metadata quorum" in found.of("not-checked")
    assert {each["check"] for each in found.findings} == {"not-checked"}


def test_topics_that_a_user_may_not_describe_are_reported_as_not_checked(
    doctor: Doctor, tmp_path: Path
) -> None:
    acls = [Allow("alice", ("describe", "describe_configs"), cluster=True)]
    with wirekafka.Broker(users={"alice": "alices"}, acls=acls, topics=["t"]) as broker:
        found = doctor(broker.bootstrap_servers, "--command-config", str(logged_in(tmp_path)))
    assert found.status == 1
    assert found.of("not-checked") == ["broker 1: topics in its log directories"]
    assert found.findings[0]["problem"] == "not checked: t: TOPIC_AUTHORIZATION_FAILED"


def logged_in(directory: Path) -> Path:
    """The configuration of a client that logs in as alice."""
    config = directory / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="alice" password="alices";\n'
    )
    return config


@pytest.mark.parametrize("words", [["127.0.0.1:1"], ["nowhere"], ["/no/such"], ["--timeout", "x"]])
def test_without_anything_to_examine_the_status_is_2(command: Command, words: list[str]) -> None:
    outcome = command(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err


def test_a_data_directory_is_examined_by_its_name(command: Command, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with wirekafka.Broker(data, topics=["t"]):
        running = command(str(data))
    assert running.status == 0
    assert "[in-use]" in running.out
    assert command(str(data)).out.startswith("Nothing is wrong. Checked: identities")
    (data / "meta.properties").unlink()
    assert command(str(data), "--deep").status == 1


def test_a_bootstrap_address_without_a_broker_is_found(
    broker: wirekafka.Broker, doctor: Doctor
) -> None:
    [closed] = free_ports(1)
    found = doctor(f"127.0.0.1:{closed},{broker.bootstrap_servers}")
    assert found.of("bootstrap-unreachable") == [f"bootstrap 127.0.0.1:{closed}"]
    assert not doctor(broker.bootstrap_servers).of("bootstrap-unreachable")


def test_a_clock_that_is_ahead_is_found(doctor: Doctor) -> None:
    with wirekafka.Broker() as broker:
        assert doctor(broker.bootstrap_servers).findings == []
        broker.clock.advance(seconds=90)
        [found] = doctor(broker.bootstrap_servers).findings
    assert found["check"] == "clocks-differ"
    assert "min ahead of" in found["problem"]


def test_an_even_number_of_voters_is_noted(doctor: Doctor) -> None:
    with wirekafka.Cluster(brokers=1, controllers=2) as cluster:
        found = doctor(cluster.bootstrap_servers)
    assert (found.status, found.of("even-voters")) == (0, ["metadata quorum"])


def test_a_broker_that_hangs_costs_one_timeout(cluster: wirekafka.Cluster, doctor: Doctor) -> None:
    before = doctor(cluster.bootstrap_servers).findings
    with cluster.pause(2):
        began = time.monotonic()
        found = doctor(cluster[1].bootstrap_servers, "--timeout", "0.5")
        assert time.monotonic() - began < 10
    assert found.of("broker-unreachable") == ["broker 2"]
    eventually(lambda: doctor(cluster.bootstrap_servers).findings == before)


def test_replicas_are_followed_through_failures_of_brokers(
    cluster: wirekafka.Cluster, doctor: Doctor
) -> None:
    with Client(cluster.bootstrap_servers) as client:
        producer = TransactionalProducer(client, "tx")
        producer.init()
        coordinator = cluster.coordinator(transactional_id="tx")
        keeper, other = (each for each in cluster if each != coordinator)
        order = [keeper, other, coordinator]
        cluster.create_topic("one", replicas=[[keeper]], config={"min.insync.replicas": 1})
        cluster.create_topic("three", replicas=[order], config={"min.insync.replicas": 2})
        cluster.wait_for_full_isr()
        producer.send("one", 0, [Record(value=b"a")])
        at = cluster[coordinator].bootstrap_servers
        assert doctor(at).findings == []

        def found(*names: str) -> bool:
            missing = set(names) - {each["check"] for each in doctor(at).findings}
            assert not missing, missing
            return True

        cluster.kill(keeper)
        eventually(lambda: found("broker-fenced", "no-leader", "under-replicated", "at-min-isr"))
        producer.commit()
        found("transaction-does-not-end")
        cluster.kill(other)
        eventually(lambda: found("under-min-isr"))
        cluster.start(keeper, other)
        cluster.wait_for_full_isr()
        eventually(lambda: found("not-preferred-leader"))
        for topic in ("one", "three"):
            cluster.move_leader(topic, 0, keeper)


def test_a_broker_with_old_metadata_is_found(cluster: wirekafka.Cluster, doctor: Doctor) -> None:
    follower = next(each for each in cluster if each != 1)
    with cluster.isolate(follower):
        cluster[1].create_topic("unknown", 1)
        found = doctor(cluster[1].bootstrap_servers)
        assert found.of("metadata-differs") == [f"broker {follower}"]


def test_a_controller_that_does_not_follow_is_found(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum, "SILENT_MS", 1500)
    with wirekafka.Cluster(brokers=1, controllers=3) as cluster:
        assert doctor(cluster.bootstrap_servers).findings == []
        killed = next(each for each in cluster.controllers if each != cluster.controller)
        cluster.kill(killed)
        eventually(
            lambda: doctor(cluster.bootstrap_servers).of("voter-behind") == [f"controller {killed}"]
        )


def test_an_internal_topic_with_one_replica_is_found(doctor: Doctor) -> None:
    options = {"offsets.topic.replication.factor": 1}
    with wirekafka.Cluster(config=options) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            planted.topic_with(client, "t")
            planted.committed(client, "g", "t", 0)
        found = doctor(cluster.bootstrap_servers)
    assert found.of("internal-topic-single-copy") == ["topic __consumer_offsets"]


def test_a_budget_that_is_nearly_used_up_by_unread_records_is_found(
    tmp_path: Path, doctor: Doctor
) -> None:
    option = "wirekafka.disk.budget.bytes=1000000"
    with Serving(tmp_path / "data", "--set", option) as serving:
        address = f"127.0.0.1:{serving.port}"
        with Client(address) as client:
            client.topic("slow", create=True)
            producer = IdempotentProducer(client)
            for _ in range(10):
                producer.send("slow", 0, [Record(value=os.urandom(93_000))])
            commit = Consumer({"bootstrap.servers": address, "group.id": "stopped"})
            commit.commit(offsets=[TopicPartition("slow", 0, 1)], asynchronous=False)
            commit.close()
        [found] = [e for e in doctor(address).findings if e["check"] == "disk-budget-used"]
    assert found["severity"] == "warning" and found["subject"].endswith("/data")
