"""A wirekafka broker under the controllers of Kafka 3.9: clients get by with what both support."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, end, prepare, running
from compat_tests.wire import CLOSED, Wire
from tests import kafka_jars
from tests.eventually import eventually
from tests.ports import free_ports
from wirekafka.apis.shared import registry
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest

OLDER = kafka_jars.EARLIER_VERSIONS[-1]
HOST = "127.0.0.1"
BROKER = 2


@contextmanager
def broker_of(controller: str, directory: Path) -> Iterator[int]:
    """The port of a wirekafka broker whose controller is at this address."""
    [port] = free_ports(1)
    directory.mkdir()
    properties = directory / "server.properties"
    properties.write_text(
        "process.roles=broker\n"
        f"node.id={BROKER}\n"
        f"controller.quorum.voters={controller}\n"
        "controller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://{HOST}:{port}\n"
        f"log.dirs={directory}/data\n"
        "offsets.topic.replication.factor=1\n"
    )
    command = [sys.executable, "-m", "wirekafka", "serve", "--config", str(properties)]
    with (directory / "out.log").open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        eventually(lambda: "ready" in (directory / "out.log").read_text(), timeout_s=60)
        yield port
    finally:
        end(process)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The ports of Kafka 3.9, which is broker 1 and the controller, and of the wirekafka broker."""
    directory = tmp_path_factory.mktemp("older")
    jars = kafka_jars.broker_jars(OLDER)
    port, command = prepare(directory, SMALL_JVM, SMALL_CLEANER, jars)
    text = (directory / "server.properties").read_text()
    [voters] = [line for line in text.splitlines() if line.startswith("controller.quorum.voters")]
    with (
        running(command, directory, port),
        broker_of(voters.partition("=")[2], directory / "wirekafka") as own,
    ):
        yield port, own


def versions(port: int) -> dict[int, tuple[int, int]]:
    with closing(Wire((HOST, port))) as wire:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        response = wire.ask(request, 3)
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def test_forwarded_apis_have_versions_of_the_controller(ports: tuple[int, int]) -> None:
    older, ours = map(versions, ports)
    forwarded = {key: each for key, each in registry.load().items() if each.is_forwarded}
    expected = {
        key: (max(older[key][0], own.first), min(older[key][1], own.last))
        for key, declared in forwarded.items()
        if key in older
        for own in [declared.advertised]
    }
    assert {key: each for key, each in ours.items() if key in forwarded} == expected
    narrowed = [key for key, each in expected.items() if each[1] < forwarded[key].advertised.last]
    assert narrowed, "Kafka 3.9 lacks versions that wirekafka has"


def test_request_in_a_version_that_the_controller_lacks_ends_the_connection(
    ports: tuple[int, int],
) -> None:
    with closing(Wire((HOST, ports[1]))) as wire:
        request = UpdateFeaturesRequest(validate_only=True)
        assert wire.ask(request, UpdateFeaturesRequest.versions.last) == CLOSED


def test_clients_change_metadata_and_write(ports: tuple[int, int], unique: str) -> None:
    client = {"bootstrap.servers": f"{HOST}:{ports[1]}", "log_level": 0}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(unique, 1, replica_assignment=[[BROKER]])])[unique].result(30)
    admin.create_partitions([NewPartitions(unique, 2, [[BROKER]])])[unique].result(30)
    entry = ConfigEntry("retention.ms", "7000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, unique, incremental_configs=[entry])
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(30)
    described = ConfigResource(ResourceType.TOPIC, unique)
    [configs] = admin.describe_configs([described]).values()
    assert configs.result(30)["retention.ms"].value == "7000000"
    producer = Producer(client | {"acks": "all", "enable.idempotence": True})
    failures: list[object] = []
    for partition in (0, 1):
        producer.produce(
            unique,
            b"x",
            partition=partition,
            on_delivery=lambda error, message: failures.append(error),
        )
    assert producer.flush(30) == 0
    assert failures == [None, None]
    admin.delete_topics([unique])[unique].result(30)
