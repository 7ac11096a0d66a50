"""The image: the Dockerfile's steps and the container's command run without Docker.

`test_containers.py` builds and runs it where there is a Docker engine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.certificates import PASSWORD, Authority, client_context
from tests.eventually import eventually
from tests.ports import free_ports

ROOT = Path(__file__).parents[1]
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
KAFKAS_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
"""The cluster id of a container of Apache Kafka's image that gets none."""
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def _instruction(pattern: str) -> str:
    found = re.search(pattern, DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert found, f"the Dockerfile has no {pattern}"
    return found[1]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image's file system would be, under a directory, without the base image."""
    root = tmp_path_factory.mktemp("image")
    for line in re.findall(r"^COPY (?!<<|--)(.*)$", DOCKERFILE, re.MULTILINE):
        *names, target = line.split()
        for name in names:
            destination = Path(f"{root}{target}")
            path = ROOT / name
            if target.endswith(f"/{path.name}"):
                destination.parent.mkdir(parents=True, exist_ok=True)
            else:
                destination.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, destination, dirs_exist_ok=True)
            else:
                shutil.copy(path, destination)
    subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)
    build = _instruction(r"^RUN (pip wheel[^\n]*)$")
    _shell(build.replace("/src", f"{root}/src").replace("/wheels", f"{root}/wheels"), root)
    install = _instruction(r"(pip install[^\\\n]*)").replace("/wheels", f"{root}/wheels")
    _shell(install, root)
    target, settings = re.findall(r"^COPY <<EOF (\S+)\n(.*?)^EOF$", DOCKERFILE, re.M | re.S)[0]
    Path(f"{root}{target}").write_text(settings)
    return root


class Container:
    """The container's command with its own data, mounted files and secrets."""

    def __init__(self, image: Path, directory: Path):
        [self.port] = free_ports(1)
        self.data = directory / "data"
        self.mounted = directory / "mounted"
        self.secrets = directory / "secrets"
        for path in (self.data, self.mounted, self.secrets):
            path.mkdir()
        self._environment = _environment(image)
        self._log = directory / "log"
        self._command = directory / "run"
        self._defaults = directory / "server.properties"
        shipped = f"{image}/etc/kafka/docker"
        replaced = {
            "/etc/kafka/docker/server.properties": str(self._defaults),
            "/var/lib/kafka/data": str(self.data),
            "/mnt/shared/config": str(self.mounted),
            "/etc/kafka/secrets": str(self.secrets),
            ":9092": f":{self.port}",
        }
        for name, file in (("run", self._command), ("server.properties", self._defaults)):
            text = Path(f"{shipped}/{name}").read_text()
            for old, new in replaced.items():
                text = text.replace(old, new)
            file.write_text(text)
        self._command.chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """What it has printed, on both streams."""
        return self._log.read_text()

    def start(self, *arguments: str, **variables: str) -> None:
        """Run the command, and wait until it serves clients."""
        self._run(arguments, variables)
        eventually(lambda: "wirekafka ready: " in self.log or self._has_ended())
        assert not self._has_ended(), self.log

    def fail(self, **variables: str) -> str:
        """Run the command, which has to fail; its output."""
        self._run((), variables)
        assert self._process is not None
        assert self._process.wait(20) == 1
        return self.log

    def ask(self, *words: str) -> str:
        """The output of `wirekafka` with these words."""
        done = subprocess.run(
            ["wirekafka", *words, "-b", f"localhost:{self.port}"],
            env=self._environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def config(self, name: str) -> str:
        described = json.loads(self.ask("configs", "describe", "broker", "1", "--json"))
        return next(each["value"] for each in described if each["name"] == name)

    def stop(self) -> int:
        """Stop it as Docker does; the exit status."""
        assert self._process is not None
        if not self._has_ended():
            self._process.send_signal(signal.Signals[_instruction(r"^STOPSIGNAL (\S+)$")])
        return self._process.wait(20)

    def _run(self, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [self._command, *arguments],
                env=self._environment | variables,
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


@pytest.fixture
def container(image: Path, tmp_path: Path) -> Iterator[Container]:
    started = Container(image, tmp_path)
    yield started
    started.stop()


def test_the_command_of_the_image_is_the_one_of_apache_kafkas() -> None:
    assert json.loads(_instruction(r"^CMD (.*)$")) == ["/etc/kafka/docker/run"]


def test_variables_change_single_settings_of_the_image(container: Container) -> None:
    container.start(KAFKA_NUM_PARTITIONS="7", CLUSTER_ID=CLUSTER_ID)
    assert container.config("num.partitions") == "7"
    assert f"cluster.id={CLUSTER_ID}" in (container.data / "meta.properties").read_text()
    assert container.stop() == 0


def test_arguments_are_variables(container: Container) -> None:
    container.start("KAFKA_NUM_PARTITIONS=6")
    assert container.config("num.partitions") == "6"
    assert f"cluster.id={KAFKAS_CLUSTER_ID}" in (container.data / "meta.properties").read_text()


def test_variables_of_a_whole_node_as_testcontainers_sets_them(container: Container) -> None:
    inside, controller = free_ports(2)
    container.start(
        CLUSTER_ID=CLUSTER_ID,
        KAFKA_LISTENERS=f"PLAINTEXT://0.0.0.0:{container.port},BROKER://0.0.0.0:{inside},"
        f"CONTROLLER://0.0.0.0:{controller}",
        KAFKA_ADVERTISED_LISTENERS=f"PLAINTEXT://localhost:{container.port},"
        f"BROKER://localhost:{inside}",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
        KAFKA_PROCESS_ROLES="broker,controller",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
        KAFKA_CONTROLLER_QUORUM_VOTERS=f"1@localhost:{controller}",
        KAFKA_NODE_ID="1",
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
        KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=str(2**63 - 1),
    )
    assert re.search(".*Transitioning from RECOVERY to RUNNING.*", container.log)
    assert "not a Kafka option" not in container.log
    container.ask("topics", "create", "orders")
    assert (container.data / "orders-0").is_dir()


def test_a_mounted_file_replaces_the_settings_of_the_image(container: Container) -> None:
    (container.mounted / "server.properties").write_text(
        f"listeners=PLAINTEXT://127.0.0.1:{container.port}\n"
        f"log.dirs={container.data}/mine\nnum.partitions=3\nlog.retention.hours=5\n"
    )
    container.start(KAFKA_NUM_PARTITIONS="4")
    assert container.config("num.partitions") == "4"
    assert container.config("log.retention.hours") == "5"
    assert (container.data / "mine" / "meta.properties").exists()


def test_listeners_follow_from_the_advertised_ones(container: Container) -> None:
    [inside] = free_ports(1)
    advertised = f"PLAINTEXT://kafka.example:{inside},HOST://[::1]:{container.port}"
    container.start(
        KAFKA_ADVERTISED_LISTENERS=advertised,
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
    )
    with ExitStack() as stack:
        for port in re.findall(r":(\d+)(?:,|$)", advertised):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(port)), timeout=10))


def test_key_stores_and_passwords_are_files_in_the_directory_of_secrets(
    container: Container, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("CN=broker", "localhost")
    shutil.copy(issued.pkcs12(), container.secrets / "broker.jks")
    (container.secrets / "password").write_text(f"{PASSWORD}\n")
    container.start(
        KAFKA_ADVERTISED_LISTENERS=f"SSL://localhost:{container.port}",
        KAFKA_INTER_BROKER_LISTENER_NAME="SSL",
        KAFKA_SSL_KEYSTORE_FILENAME="broker.jks",
        KAFKA_SSL_KEYSTORE_CREDENTIALS="password",
        KAFKA_SSL_KEY_CREDENTIALS="password",
    )
    assert "not a Kafka option" not in container.log
    with (
        socket.create_connection(("localhost", container.port), timeout=10) as plain,
        client_context(authority).wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        assert secured.version() == "TLSv1.3"


def test_users_are_in_the_jaas_file_that_kafka_opts_name(
    container: Container, tmp_path: Path
) -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = container.secrets / "broker_jaas.conf"
    jaas.write_text(f'KafkaServer {{ {plain} required user_alice="alice-secret"; }};')
    container.start(
        KAFKA_ADVERTISED_LISTENERS=f"SASL_PLAINTEXT://localhost:{container.port}",
        KAFKA_INTER_BROKER_LISTENER_NAME="SASL_PLAINTEXT",
        KAFKA_SASL_ENABLED_MECHANISMS="PLAIN",
        KAFKA_OPTS=f"-Djava.security.auth.login.config={jaas}",
    )
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={plain} required username=alice password=alice-secret;\n"
    )
    container.ask("topics", "create", "orders", "--command-config", str(properties))


def test_a_missing_secret_is_named(container: Container) -> None:
    output = container.fail(KAFKA_SSL_KEYSTORE_FILENAME="none.jks")
    assert output == (
        f"wirekafka: KAFKA_SSL_KEYSTORE_FILENAME: {container.secrets}/none.jks cannot be read\n"
    )


@pytest.mark.parametrize(("level", "logs"), [("WARN", False), ("INFO", True)])
def test_the_log_level_is_kafkas(container: Container, level: str, logs: bool) -> None:
    container.start(KAFKA_LOG4J_ROOT_LOGLEVEL=level)
    assert (" INFO " in container.log) == logs


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
