"""A quorum of Apache Kafka's controllers and wirekafka's, each of which may lead it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.cluster import FIRST_CONTROLLER, HOST, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.java_tools import JavaTools
from compat_tests.quorums import (
    assert_equal_metadata,
    await_followed,
    await_leader,
    described,
    make,
)
from tests.eventually import eventually

OURS, FIRST, SECOND = FIRST_CONTROLLER, FIRST_CONTROLLER + 1, FIRST_CONTROLLER + 2
VOTERS = (OURS, FIRST, SECOND)
BROKERS = {1, 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(
        brokers=(WIREKAFKA, KAFKA),
        controllers=3,
        controller_engines=(WIREKAFKA, KAFKA, KAFKA),
        is_combined=False,
        settings={"offsets.topic.replication.factor": "1"},
    )
    with Cluster.running(shape, tmp_path_factory.mktemp("mixed-quorum")) as running:
        yield running


def let_lead(cluster: Cluster, wanted: int) -> None:
    """Have one of the three elected: nobody else alive has a log as long as its."""
    leader = await_leader(cluster)
    if leader.leader == wanted:
        return
    [third] = set(VOTERS) - {wanted, leader.leader}
    cluster.kill(third)
    make(cluster, f"known-to-{wanted}-{leader.epoch}")
    await_followed(cluster, wanted)
    cluster.kill(leader.leader)
    cluster.spawn(third)
    assert await_leader(cluster, after_epoch=leader.epoch).leader == wanted
    cluster.spawn(leader.leader)
    await_followed(cluster, *VOTERS)


def test_a_wirekafka_voter_is_elected_and_followed_by_brokers_of_both_kinds(
    cluster: Cluster, unique: str
) -> None:
    let_lead(cluster, OURS)
    make(cluster, unique, replicas=2)
    await_followed(cluster, *VOTERS)
    found = await_leader(cluster)
    assert found.leader == OURS and set(found.voters) == set(VOTERS)
    assert set(found.observers) == BROKERS
    assert all(cluster.listed_by(id) == BROKERS for id in BROKERS)
    assert_equal_metadata(*(cluster.nodes[id] for id in VOTERS))


def test_its_quorum_is_described_by_kafkas_tool(cluster: Cluster, java_tools: JavaTools) -> None:
    let_lead(cluster, OURS)
    await_followed(cluster, *VOTERS)
    port = cluster.nodes[OURS].controller_port
    address = ("--bootstrap-controller", f"{HOST}:{port}")
    status = java_tools.run("kafka-metadata-quorum", *address, "describe", "--status")
    values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert values["LeaderId"].strip() == str(OURS)
    assert int(values["MaxFollowerLag"]) < 5 and int(values["MaxFollowerLagTimeMs"]) < 2_000
    rows = java_tools.run("kafka-metadata-quorum", *address, "describe", "--replication")
    roles = {line.split()[0]: line.split()[-1] for line in rows.splitlines()[1:] if line.split()}
    assert roles == {
        str(OURS): "Leader",
        str(FIRST): "Follower",
        str(SECOND): "Follower",
        "1": "Observer",
        "2": "Observer",
    }


def test_when_it_is_killed_an_apache_voter_leads_and_it_returns_as_a_follower(
    cluster: Cluster, unique: str
) -> None:
    let_lead(cluster, OURS)
    before = await_leader(cluster)
    cluster.kill(OURS)
    after = await_leader(cluster, after_epoch=before.epoch)
    assert after.leader in (FIRST, SECOND)
    make(cluster, unique)
    cluster.spawn(OURS)
    await_followed(cluster, OURS)
    assert_equal_metadata(*(cluster.nodes[id] for id in VOTERS))


def test_a_leader_that_stops_hands_over_before_anyone_could_miss_it(
    cluster: Cluster, unique: str
) -> None:
    let_lead(cluster, OURS)
    before = await_leader(cluster)
    await_followed(cluster, *VOTERS)
    cluster.stop(OURS)
    # It waits for its successor, so that there is one when it has ended.
    after = eventually(lambda: described(cluster), timeout_s=5)
    assert after is not None and after.epoch > before.epoch and after.leader != OURS
    cluster.spawn(OURS)
    make(cluster, unique)
    await_followed(cluster, *VOTERS)
