"""`wirekafka cluster`."""

import re

import pytest

from tests.cli.admin.conftest import RACKS, RunJson, assert_refused, table
from tests.cli.conftest import Run, command_line
from wirekafka import Cluster
from wirekafka.cli.admin import cluster as tested
from wirekafka.errors import Error
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsResponse


def test_the_brokers_are_described(run: Run, run_json: RunJson, cluster: Cluster) -> None:
    found = run_json("cluster", "describe")
    assert (found["cluster"], found["controller"]) == (cluster.cluster_id, 101)
    addresses = cluster.bootstrap_servers.split(",")
    assert [
        (each["broker"], each["address"], each["rack"], each["version"], each["state"])
        for each in found["brokers"]
    ] == [
        (broker, address, rack, "4.4", "in service")
        for (broker, rack), address in zip(RACKS.items(), addresses, strict=True)
    ]
    shown = run("cluster", "describe").out.splitlines()
    assert shown[0] == f"cluster {cluster.cluster_id}  3 brokers  controller 101"
    assert shown[1].split() == ["BROKER", "ADDRESS", "RACK", "VERSION", "STATE"]


def test_the_quorum_has_its_leader_first_and_observers(
    run: Run, run_json: RunJson, cluster: Cluster
) -> None:
    found = run_json("cluster", "quorum")
    assert found["leader"] == cluster.controller == 101
    roles = {each["node"]: each["role"] for each in found["replicas"]}
    assert roles == {101: "leader", 1: "observer", 2: "observer", 3: "observer"}
    leader = found["replicas"][0]
    assert leader["lag"] == 0 and leader["end"] >= found["high_watermark"] > 0
    assert re.match(r"leader 101  epoch \d+  high watermark \d+\n", run("cluster", "quorum").out)


def test_log_directories_have_sizes(run: Run, run_json: RunJson, cluster: Cluster) -> None:
    cluster.create_topic("sized", 1, replication_factor=3)
    cluster.produce("sized", ["x" * 1000])
    cluster.wait_for_full_isr("sized")
    found = run_json("cluster", "log-dirs")
    assert [(each["broker"], each["state"]) for each in found] == [
        (broker, "online") for broker in RACKS
    ]
    assert all(each["size"] > 1000 and each["total"] > each["free"] > 0 for each in found)
    [second] = run_json("cluster", "log-dirs", "--broker", "2")
    assert second["broker"] == 2
    assert table(run("cluster", "log-dirs"))[0][-3:] == ["SIZE", "FREE", "TOTAL"]
    assert_refused(run("cluster", "log-dirs", "--broker", "9"), "no broker 9 in the cluster")


def test_an_offline_directory_is_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = DescribeLogDirsResponse.Result(
        error_code=Error.KAFKA_STORAGE_ERROR, log_dir="/disk", topics=[]
    )
    monkeypatch.setattr(tested, "log_directories", lambda client, broker: [gone])
    outcome = run("cluster", "log-dirs", "--broker", "1")
    assert outcome.status == 1
    assert outcome.err == "wirekafka: broker 1: /disk is offline\n"
    assert table(outcome)[1] == ["1", "/disk", "offline", "0", "0", "B", "-", "-"]


def test_a_broker_that_is_not_registered_is_not_unregistered(run: Run) -> None:
    assert_refused(run("cluster", "unregister", "9"), "broker 9: ")


def test_a_stopped_broker_is_fenced_and_can_be_unregistered(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: object
) -> None:
    with Cluster(brokers=2, config={"broker.session.timeout.ms": 1000}) as cluster:
        run = command_line(cluster.bootstrap_servers, monkeypatch, capfdbinary)
        cluster.kill(2)

        def is_fenced() -> bool:
            return "fenced" in run("cluster", "describe").out

        cluster.wait_for(is_fenced)
        assert run("cluster", "unregister", "2").err == "unregistered broker 2\n"
        cluster.wait_for(lambda: "  1 broker  " in run("cluster", "describe").out)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_234_567, "1.23 MB"), (999_600, "1 MB")],
)
def test_sizes_have_three_digits(count: int, text: str) -> None:
    assert tested._size(count) == text
