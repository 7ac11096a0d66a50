"""The brokers that are compared: how each is started, found and measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import psutil
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.driver import Connection
from compat_tests import apache_kafka
from tests.certificates import Authority
from tests.ports import free_ports

START_SCRIPT_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""The JVM options of kafka-server-start.sh and kafka-run-class.sh."""

_START_LIMIT_S = 60
_STOP_LIMIT_S = 60


class NoBroker(Exception):
    """A broker did not start; the text is one sentence."""


class Security(Enum):
    """What a case needs beside the plain listener of its brokers."""

    NONE = "PLAINTEXT"
    TLS = "SSL"
    ACLS = "SASL_SSL"
    """TLS, a login by SASL/PLAIN, and ACLs that every request of the client is checked against."""


_USER, _PASSWORD = "client", "client-secret"
_JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{_USER}="{_PASSWORD}";'
)
_ACL_OPTIONS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": _JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The benchmark itself administers the broker through the plain listener.
    "super.users": "User:ANONYMOUS",
}


@dataclass(frozen=True, slots=True)
class Secured:
    """A TLS listener of a broker on this machine, and the file with the authority it trusts."""

    port: int
    authority: str
    security: Security

    @classmethod
    def at_new_port(cls, directory: Path, security: Security) -> tuple[Secured, dict[str, str]]:
        """With the options of the listener, whose certificate is made in the directory."""
        authority = Authority(directory)
        secured = cls(free_ports(1)[0], authority.file, security)
        return secured, {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.issue("CN=broker", "127.0.0.1", key="rsa").pem(),
            **(_ACL_OPTIONS if security is Security.ACLS else {}),
        }

    @property
    def listener(self) -> str:
        """The listener as the option `listeners` has it."""
        return f"{self.security.value}://127.0.0.1:{self.port}"

    def client_settings(self) -> dict[str, Any]:
        """What librdkafka needs to connect to the listener."""
        settings = {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": self.security.value,
            "ssl.ca.location": self.authority,
        }
        if self.security is Security.ACLS:
            settings |= {
                "sasl.mechanism": "PLAIN",
                "sasl.username": _USER,
                "sasl.password": _PASSWORD,
            }
        return settings


@dataclass(slots=True)
class Target:
    """A running broker; `process` and `data` are None if it was not started here."""

    name: str
    host: str
    port: int
    process: psutil.Process | None = None
    data: Path | None = None
    start_s: float = 0.0
    """The time from the start of its process to its first response."""
    start_anew: Callable[[], None] | None = None
    secured: Secured | None = None
    """Its TLS listener, in cases with security."""

    def restart(self) -> None:
        """Stop it cleanly and start it again on its data. Raises NoBroker."""
        if self.start_anew is None or self.process is None:
            raise NoBroker(f"{self.name} was not started here, so it is not started again")
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(_STOP_LIMIT_S)
        self.start_anew()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def cpu_s(self) -> float:
        """User and system time so far, by the operating system's accounts; 0 where unknown."""
        if self.process is None:
            return 0.0
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def resident_mib(self) -> float:
        """Resident memory; 0 where unknown."""
        return 0.0 if self.process is None else self.process.memory_info().rss / (1 << 20)


class Peer(Protocol):
    """One side of the comparison."""

    name: str

    def start(self, directory: Path, security: Security = Security.NONE) -> Iterator[Target]:
        """A context: a fresh broker in an empty directory, also with the listener of `security`."""


class Wirekafka:
    """This broker, on the Python that runs the benchmark."""

    name = "wirekafka"

    def __init__(self, *arguments: str):
        """`arguments` are further ones of `wirekafka serve`."""
        self._arguments = arguments

    @contextmanager
    def start(self, directory: Path, security: Security = Security.NONE) -> Iterator[Target]:
        data = directory / "data"
        port = free_ports(1)[0]
        command = [sys.executable, "-m", "wirekafka", "serve", "--data", str(data)]
        command += ["--listen", f"127.0.0.1:{port}", *self._arguments]
        target = Target(self.name, "127.0.0.1", port, data=data)
        if security is not Security.NONE:
            target.secured, options = Secured.at_new_port(directory, security)
            command += ["--listen", target.secured.listener]
            for name, value in options.items():
                command += ["--set", f"{name}={value}"]
        # An installed package has its bytecode; a checkout that may not write it has not.
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        with running(command, directory, target, environment) as up:
            yield up


_OF_ONE_BROKER = """share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
"""Without these, the states of share groups need three brokers."""


class ApacheKafka:
    """Apache Kafka from its jars, its JVM as Kafka's own start script sets it."""

    name = "Apache Kafka"

    @contextmanager
    def start(self, directory: Path, security: Security = Security.NONE) -> Iterator[Target]:
        port, command = apache_kafka.prepare(directory, START_SCRIPT_JVM, _OF_ONE_BROKER)
        target = Target(self.name, "127.0.0.1", port, data=directory / "data")
        if security is not Security.NONE:
            target.secured, options = Secured.at_new_port(directory, security)
            _add_listener(directory / "server.properties", target.secured, options)
        with running(command, directory, target, dict(os.environ)) as up:
            yield up


class Running:
    """A broker that runs already: NAME=HOST:PORT, its process by the port where it is local."""

    def __init__(self, description: str):
        self.name, _, address = description.rpartition("=")
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self.name = self.name or address

    @contextmanager
    def start(self, directory: Path, security: Security = Security.NONE) -> Iterator[Target]:
        if security is not Security.NONE:
            raise NoBroker(f"{self.name} was not started here, so its certificate is not known")
        _await_answer(self._host, self._port, None)
        yield Target(self.name, self._host, self._port, process=_listening(self._port))


def _add_listener(properties: Path, secured: Secured, options: dict[str, str]) -> None:
    """Add a TLS listener to Apache Kafka's."""
    lines = [
        line.replace("listeners=", f"listeners={secured.listener},")
        if line.startswith(("listeners=", "advertised.listeners="))
        else line
        for line in properties.read_text().splitlines()
    ]
    protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
    lines.append(f"listener.security.protocol.map={protocols}")
    lines += [f"{name}={value}" for name, value in options.items()]
    properties.write_text("\n".join(lines) + "\n")


@contextmanager
def running(
    command: Sequence[str], directory: Path, target: Target, environment: dict[str, str]
) -> Iterator[Target]:
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        with (directory / "out.log").open("a") as out:
            started = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment,
            )
        processes.append(process)
        _await_answer(target.host, target.port, process)
        target.start_s = time.perf_counter() - started
        target.process = psutil.Process(process.pid)

    target.start_anew = start
    try:
        start()
        if target.secured is not None and target.secured.security is Security.ACLS:
            _grant(target)
        yield target
    finally:
        # The data is deleted, so a slow, clean stop has no use.
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _grant(target: Target) -> None:
    """Allow the client's user to write, read and create any topic, in any group."""
    allowed = (
        (ResourceType.TOPIC, "*", AclOperation.WRITE),
        (ResourceType.TOPIC, "*", AclOperation.READ),
        (ResourceType.GROUP, "*", AclOperation.READ),
        (ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE),
    )
    pattern, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    bindings = [
        AclBinding(kind, name, pattern, f"User:{_USER}", "*", operation, allow)
        for kind, name, operation in allowed
    ]
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    for created in admin.create_acls(bindings).values():
        created.result()


def _await_answer(host: str, port: int, process: subprocess.Popen[bytes] | None) -> None:
    """Return once there is a response to ApiVersions."""
    deadline = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            connection = Connection(host, port)
        except OSError:
            time.sleep(0.005)
        else:
            connection.api_versions()
            connection.close()
            return
        if process is not None and process.poll() is not None:
            raise NoBroker(f"{process.args!r} ended with {process.returncode} while starting")
        if time.monotonic() > deadline:
            raise NoBroker(f"nothing listens at {host}:{port} after {_START_LIMIT_S} s")


def _listening(port: int) -> psutil.Process | None:
    try:
        for found in psutil.net_connections("tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr.port == port and found.pid:
                return psutil.Process(found.pid)
    except psutil.AccessDenied:
        pass
    return None
