"""The Dockerfile's own steps, run as a script in a clean environment: no Docker is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eventually import eventually

ROOT = Path(__file__).parents[1]
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def _instruction(pattern: str) -> str:
    found = re.search(pattern, DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert found, f"the Dockerfile has no {pattern}"
    return found[1]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image's file system would be, under a directory: src, wheels, venv, etc."""
    root = tmp_path_factory.mktemp("image")
    source = root / "src"
    source.mkdir()
    for line in re.findall(r"^COPY (?!<<|--)(.*)$", DOCKERFILE, re.MULTILINE):
        *names, target = line.split()
        for name in names:
            path = ROOT / name
            if path.is_dir():
                shutil.copytree(path, Path(f"{root}{target}"))
            else:
                shutil.copy(path, f"{root}{target}")
    subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)
    build = _instruction(r"^RUN (pip wheel[^\n]*)$")
    _shell(build.replace("/src", f"{root}/src").replace("/wheels", f"{root}/wheels"), root)
    install = _instruction(r"(pip install[^\\\n]*)").replace("/wheels", f"{root}/wheels")
    _shell(install, root)
    settings = _instruction(r"server\.properties\n(.*?)^EOF$")
    (root / "server.properties").write_text(
        settings.replace("/var/lib/kafka", str(root)).replace(":9092", f":{_free_port()}")
    )
    return root


def test_the_image_serves_with_kafka_environment_names_and_is_healthy(image: Path) -> None:
    command = _instruction(r'^CMD \["sh", "-c", "(.*)"\]$')
    command = command.replace("/etc/wirekafka", str(image)).replace(
        "/mnt/shared/config", str(image / "none")
    )
    settings = (image / "server.properties").read_text()
    port = re.search(r"localhost:(\d+)", settings)
    assert port
    environment = _environment(image) | {"KAFKA_NUM_PARTITIONS": "7", "CLUSTER_ID": CLUSTER_ID}
    broker = subprocess.Popen(
        ["sh", "-c", command],
        env=environment,
        cwd=image,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("wirekafka ready: ")
        server = f"localhost:{port[1]}"
        health = re.findall(r'"([^"]+)"', _instruction(r"^HEALTHCHECK.*?CMD (\[.*?\])"))
        eventually(
            lambda: (
                subprocess.run(
                    [*health[:-1], server], env=environment, check=False, capture_output=True
                ).returncode
                == 0
            )
        )
        described = subprocess.run(
            ["wirekafka", "configs", "describe", "broker", "1", "-b", server, "--json"],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        configs = {each["name"]: each["value"] for each in json.loads(described.stdout)}
        assert configs["num.partitions"] == "7", described.stderr
        assert f"cluster.id={CLUSTER_ID}" in (image / "data" / "meta.properties").read_text()
    finally:
        broker.send_signal(signal.Signals[_instruction(r"^STOPSIGNAL (\S+)$")])
        status = broker.wait(20)
    assert status == 0


def _environment(image: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name
        in (
            "HOME",
            "LANG",
            "PIP_INDEX_URL",
            "PIP_CONFIG_FILE",
            "HTTPS_PROXY",
            "HTTP_PROXY",
            "NO_PROXY",
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
        )
    }
    return kept | {"PATH": f"{image}/venv/bin:/usr/local/bin:/usr/bin:/bin"}


def _shell(command: str, image: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", command],
        env=_environment(image),
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
    return port
