"""The control port of a cluster: its nodes and leaders, and each of its brokers."""

from __future__ import annotations

import subprocess
import sys

from tests.testing.clients import send
from tests.testing.test_control import _ask
from wirekafka import Cluster


def test_nodes_and_leaders_are_controlled_by_requests() -> None:
    with Cluster(topics=["t"]) as cluster:
        url = cluster.serve_control()
        assert _ask("GET", url)[1] == {"bootstrap_servers": cluster.bootstrap_servers}
        assert [each["id"] for each in _ask("GET", f"{url}/brokers")[1]] == [1, 2, 3]
        where = {"topic": "t", "partition": 0}
        assert _ask("POST", f"{url}/move-leader", where | {"to": 2})[0] == 200
        found = _ask("GET", f"{url}/partition?topic=t")[1]
        assert (found["leader"], found["isr"]) == (2, [1, 2, 3])
        assert _ask("POST", f"{url}/kill", {"nodes": [2]})[0] == 200
        assert send("confluent-kafka", cluster, "t") is None
        assert [each["is_up"] for each in _ask("GET", f"{url}/brokers")[1]] == [True, False, True]
        assert _ask("GET", f"{url}/partition?topic=t&partition=0")[1]["leader"] in (1, 3)
        assert _ask("POST", f"{url}/start", {"nodes": [2]})[0] == 200
        assert _ask("POST", f"{url}/wait-for-full-isr", {"topic": "t"})[0] == 200
        for action in ("pause", "resume", "isolate", "heal", "restart", "stop", "start"):
            assert _ask("POST", f"{url}/{action}", {"nodes": [1]})[0] == 200
        assert _ask("POST", f"{url}/slow", {"a": 1, "b": 2, "seconds": 0.01})[0] == 200
        assert _ask("GET", f"{url}/controller")[1] == {"controller": 101}
        assert _ask("POST", f"{url}/reset", {})[0] == 200
        assert _ask("GET", f"{url}/topics")[1] == {"t": 1}


def test_wrong_requests_say_what_is_wrong() -> None:
    with Cluster(brokers=1) as cluster:
        url = cluster.serve_control()
        assert _ask("POST", f"{url}/kill", {"nodes": [7]})[0] == 404
        assert _ask("POST", f"{url}/kill", {"nodes": []}) == (
            400,
            {"error": 'name the nodes, as {"nodes": [1]}'},
        )
        assert _ask("GET", f"{url}/brokers/7/requests")[0] == 404
        assert _ask("GET", f"{url}/brokers/x/requests")[0] == 404
        assert _ask("GET", f"{url}/partition?topic=nothing")[0] == 404


def test_each_broker_has_its_own_rules_and_requests() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.move_leader("t", 0, 3)
        url = cluster[3].serve_control()
        assert url.endswith("/brokers/3")
        body = {"kind": "fail", "api": "Produce", "error": "INVALID_TIMESTAMP"}
        rule = _ask("POST", f"{url}/rules", body)[1]
        assert send("confluent-kafka", cluster, "t") == "INVALID_TIMESTAMP"
        assert _ask("GET", f"{url}/rules/{rule['id']}")[1]["hits"] == 1
        assert len(_ask("GET", f"{url}/requests?api=Produce")[1]) == 1
        other = url.replace("/brokers/3", "/brokers/1")
        assert _ask("GET", f"{other}/requests?api=Produce")[1] == []
        assert _ask("POST", f"{other}/crash", {})[0] == 200
        assert not cluster[1].is_up
        assert _ask("POST", f"{other}/restart", {})[0] == 200


def test_a_cluster_from_the_command_line() -> None:
    command = [sys.executable, "-m", "wirekafka.testing", "--brokers", "2", "--topic", "t:3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.rpartition(" ")[2].strip()
        assert [each["id"] for each in _ask("GET", f"{url}/brokers")[1]] == [1, 2]
        assert _ask("GET", f"{url}/topics")[1] == {"t": 3}
        process.terminate()
        assert process.wait(30) == 0
