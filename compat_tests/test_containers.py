"""The image and the compose file with a real Docker engine, which has to have the base image."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually

ROOT = Path(__file__).parents[1]
_BASE = "python:3.12-slim"
_UP_S = 120
_NODES = ("node1", "node2", "node3")


def _docker(*words: str, timeout: float = 60) -> str:
    done = subprocess.run(
        ["docker", *words], check=False, capture_output=True, text=True, timeout=timeout, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _has_docker() -> bool:
    try:
        _docker("compose", "version")
        _docker("image", "inspect", _BASE)
    except (OSError, AssertionError, subprocess.TimeoutExpired):
        return False
    return True


pytestmark = pytest.mark.skipif(
    not _has_docker(), reason=f"no Docker engine with compose and {_BASE}"
)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    name = f"wirekafka-test-{uuid.uuid4().hex[:12]}"
    _docker("build", "--tag", name, ".", timeout=600)
    yield name
    _docker("image", "rm", "--force", name)


@pytest.fixture
def cluster(image: str, tmp_path: Path) -> Iterator[list[str]]:
    """The words of `docker compose` for the cluster of compose.yaml, without ports of the host."""
    changes = tmp_path / "compose.yaml"
    services = (f"  {node}: {{image: {image}, ports: !reset []}}" for node in _NODES)
    changes.write_text("\n".join(["services:", *services]))
    words = ["compose", "--project-name", image, "--file", "compose.yaml", "--file", str(changes)]
    _docker(*words, "up", "--wait", "--wait-timeout", str(_UP_S), timeout=_UP_S + 60)
    yield words
    _docker(*words, "down", "--volumes", timeout=120)


def test_the_cluster_of_the_compose_file_survives_a_node(cluster: list[str]) -> None:
    def ask(node: str, *words: str) -> str:
        inside = ["exec", "--no-TTY", node, "wirekafka", *words]
        return _docker(*cluster, *inside, "--bootstrap-server", f"{node}:19092")

    def isr() -> list[int]:
        described = json.loads(ask("node1", "topics", "describe", "orders", "--json"))
        return sorted(described[0]["partitions"][0]["isr"])

    ask("node1", "topics", "create", "orders", "--replication-factor", "3")
    eventually(lambda: isr() == [1, 2, 3], 60)
    _docker(*cluster, "kill", "node3")
    eventually(lambda: isr() == [1, 2], 60)
    _docker(*cluster, "start", "node3")
    eventually(lambda: isr() == [1, 2, 3], 60)


def test_a_container_starts_as_testcontainers_starts_it(image: str) -> None:
    """Its script, which is written once the published port is known, ends with Kafka's command."""
    name = f"{image}-one"
    waits = "while [ ! -f /tmp/start.sh ]; do sleep 0.1; done; sh /tmp/start.sh"
    variables = {
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        "KAFKA_NODE_ID": "1",
    }
    settings = [f"--env={key}={value}" for key, value in variables.items()]
    _docker(
        *("run", "--detach", "--name", name, "--publish", "127.0.0.1::9092", *settings),
        *("--entrypoint", "sh", image, "-c", waits),
    )
    try:
        port = re.findall(r":(\d+)$", _docker("port", name, "9092").strip())[0]
        script = f"""
            export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port},BROKER://localhost:9093
            exec /etc/kafka/docker/run"""
        _docker("exec", name, "sh", "-c", f"echo '{script}' > /tmp/new; mv /tmp/new /tmp/start.sh")
        eventually(lambda: "Transitioning from RECOVERY to RUNNING" in _docker("logs", name), 60)
        for words in (["create", "orders"], ["list"]):
            listed = _wirekafka("topics", *words, "--bootstrap-server", f"127.0.0.1:{port}")
        assert listed == "orders\n"
    finally:
        _docker("rm", "--force", "--volumes", name)


def _wirekafka(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "wirekafka", *words], check=True, capture_output=True, text=True
    )
    return done.stdout
