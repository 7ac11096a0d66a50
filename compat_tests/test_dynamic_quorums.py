"""A quorum whose voters are changed by Kafka's tool, from wirekafka to Apache Kafka and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from compat_tests.cluster import FIRST_CONTROLLER, HOST, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.java_tools import JavaTools
from compat_tests.quorums import assert_equal_metadata, await_followed, await_leader, make
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.errors import Error
from wirekafka.log.checkpoints import uuid_text
from wirekafka.protocol.api_versions import ApiVersionsRequest

OURS, APACHES = FIRST_CONTROLLER, FIRST_CONTROLLER + 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(
        brokers=(WIREKAFKA,),
        controllers=2,
        controller_engines=(WIREKAFKA, KAFKA),
        first_voters=(OURS,),
        is_combined=False,
        settings={"offsets.topic.replication.factor": "1"},
    )
    with Cluster.running(shape, tmp_path_factory.mktemp("dynamic-quorum")) as running:
        yield running


def tool(cluster: Cluster, java_tools: JavaTools, *arguments: str) -> str:
    """Run kafka-metadata-quorum at the leader."""
    leader = cluster.nodes[await_leader(cluster).leader]
    address = ("--bootstrap-controller", f"{HOST}:{leader.controller_port}")
    return java_tools.run("kafka-metadata-quorum", *address, *arguments)


def await_voters(cluster: Cluster, *ids: int) -> None:
    eventually(lambda: set(await_leader(cluster).voters) == set(ids), timeout_s=60)


def accepts_connections(port: int) -> bool:
    with closing(Wire((HOST, port))) as wire:
        return wire.ask(ApiVersionsRequest(), 0).error_code == Error.NONE


def test_a_quorum_moves_to_apache_kafka_and_back(
    cluster: Cluster, java_tools: JavaTools, unique: str
) -> None:
    make(cluster, f"{unique}-ours")
    properties = cluster.nodes[APACHES].directory / "server.properties"
    eventually(lambda: APACHES in await_leader(cluster).observers)
    # It follows the log before it accepts connections, which the leader makes to it.
    eventually(lambda: accepts_connections(cluster.nodes[APACHES].controller_port))
    tool(cluster, java_tools, "--command-config", str(properties), "add-controller")
    await_voters(cluster, OURS, APACHES)
    make(cluster, f"{unique}-both")

    ours = cluster.nodes[OURS]
    directory = uuid_text(ours.directory_ids[0])
    leaving = ("--controller-id", str(OURS), "--controller-directory-id", directory)
    tool(cluster, java_tools, "remove-controller", *leaving)
    await_voters(cluster, APACHES)
    found = await_leader(cluster)
    assert found.leader == APACHES
    make(cluster, f"{unique}-apaches")
    eventually(lambda: OURS in await_leader(cluster).observers)

    # Restarted, it joins the voters by itself.
    cluster.stop(OURS)
    with (ours.directory / "server.properties").open("a") as out:
        out.write("controller.quorum.auto.join.enable=true\n")
    cluster.spawn(OURS)
    await_voters(cluster, OURS, APACHES)
    make(cluster, f"{unique}-both-again")
    await_followed(cluster, OURS, APACHES)
    assert_equal_metadata(ours, cluster.nodes[APACHES])
