"""Programs that watch Kafka from outside, as they are published: started, scraped, and their logs.

`PROGRAMS` has those that are in PATH; nothing is downloaded.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from compat_tests.apache_kafka import end, started
from tests.ports import free_ports

Sample = tuple[str, tuple[tuple[str, str], ...], float | None]

_PLACES = frozenset(
    {
        "address",
        "broker_id",
        "cluster_id",
        "controller_id",
        "coordinator_id",
        "id",
        "is_controller",
        "port",
    }
)
"""Labels whose values differ between two clusters in the same state, and are dropped."""
_DIFFERING = re.compile(
    "kafka_topic_partition_leader|kminion_kafka_broker_log_dir_size_total_bytes|__\\w+"
)
"""Metrics and topics whose values depend on where replicas are, or on the time."""
_OF_THE_CLIENT = re.compile("kminion_kafka_(requests|received|sent)_")


class Access(NamedTuple):
    """The addresses of brokers, and how to log in by SCRAM-SHA-512 over TLS, if at all."""

    bootstrap: str
    user: str = ""
    password: str = ""
    authority: str = ""
    """The path of the certificates that the program is to trust."""

    @property
    def servers(self) -> list[str]:
        return self.bootstrap.split(",")


class Program(NamedTuple):
    """How a program is started: `command` takes a port to serve at, and a directory of its own."""

    name: str
    command: Callable[[Access, int, Path], list[str]]
    prefix: str
    """The start of the names of its metrics about Kafka."""


def _kafka_exporter(access: Access, port: int, directory: Path) -> list[str]:
    # By default it shares a scrape between readers, and often loses the last metrics of one.
    options = [f"--web.listen-address=127.0.0.1:{port}", "--concurrent.enable"]
    options += [f"--kafka.server={server}" for server in access.servers]
    if access.user:
        options += ["--sasl.enabled", "--sasl.mechanism=scram-sha512"]
        options += [f"--sasl.username={access.user}", f"--sasl.password={access.password}"]
        options += ["--tls.enabled", f"--tls.ca-file={access.authority}"]
    return ["kafka_exporter", *options]


def _kminion(access: Access, port: int, directory: Path) -> list[str]:
    settings = {"EXPORTER_HOST": "127.0.0.1", "EXPORTER_PORT": port}
    settings["KAFKA_BROKERS"] = access.bootstrap
    if access.user:
        settings |= {
            "KAFKA_TLS_ENABLED": "true",
            "KAFKA_TLS_CAFILEPATH": access.authority,
            "KAFKA_SASL_ENABLED": "true",
            "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "KAFKA_SASL_USERNAME": access.user,
            "KAFKA_SASL_PASSWORD": access.password,
        }
    return ["env", *(f"{name}={value}" for name, value in settings.items()), "kminion"]


def _kminion_by_topic(access: Access, port: int, directory: Path) -> list[str]:
    env, *command = _kminion(access, port, directory)
    return [env, "MINION_CONSUMERGROUPS_SCRAPEMODE=offsetsTopic", *command]


def _burrow(access: Access, port: int, directory: Path) -> list[str]:
    servers = json.dumps(access.servers)
    login = _BURROW_LOGIN.format(access=access) if access.user else ""
    profile = 'tls="tls"\nsasl="sasl"' if access.user else ""
    text = _BURROW.format(servers=servers, port=port, login=login, profile=profile, at=directory)
    (directory / "burrow.toml").write_text(text)
    return ["burrow", "--config-dir", str(directory)]


_BURROW = """
[general]
pidfile="{at}/burrow.pid"
[client-profile.profile]
client-id="burrow"
kafka-version="3.6.0"
{profile}
{login}
[cluster.local]
class-name="kafka"
servers={servers}
client-profile="profile"
topic-refresh=5
offset-refresh=2
[consumer.local]
class-name="kafka"
cluster="local"
servers={servers}
client-profile="profile"
group-denylist="^burrow-.*$"
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
min-distance=0
"""
_BURROW_LOGIN = """
[tls.tls]
cafile="{access.authority}"
[sasl.sasl]
mechanism="SCRAM-SHA-512"
handshake-first=true
username="{access.user}"
password="{access.password}"
"""
PROGRAMS = (
    Program("kafka_exporter", _kafka_exporter, "kafka_"),
    Program("kminion", _kminion, "kminion_kafka_"),
    Program("kminion-offsets-topic", _kminion_by_topic, "kminion_kafka_"),
    Program("burrow", _burrow, "burrow_kafka_"),
)


def is_installed(program: Program) -> bool:
    """Whether it is in PATH."""
    return shutil.which(program.name.partition("-")[0]) is not None


class Exporter:
    """A running program of `PROGRAMS`: the metrics that it serves, and its log."""

    def __init__(self, program: Program, port: int, log: Path):
        self._prefix = program.prefix
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._log = log

    def samples(self) -> list[Sample]:
        """What it reports about Kafka, comparable with what it reports about another cluster."""
        return comparable(scraped(self._url, self._prefix))

    def complaints(self) -> set[str]:
        """The warnings and errors in its log, without times and addresses."""
        found = set()
        for line in self._log.read_text().splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                if entry["level"] not in ("debug", "info"):
                    parts = (entry.get(key, "") for key in ("msg", "error", "reason"))
                    found.add(" ".join(map(str, parts)))
            elif re.match("[WEF][0-9]{4} ", line):
                found.add(re.sub(r"127\.0\.0\.1:\d+", "HOST", line.partition("] ")[2]))
        return found


@contextmanager
def exporter(program: Program, access: Access, directory: Path) -> Iterator[Exporter]:
    """Run a program, with its log and configuration in `directory`."""
    directory.mkdir(parents=True)
    [port] = free_ports(1)
    process = started(program.command(access, port, directory), directory)
    try:
        yield Exporter(program, port, directory / "out.log")
    finally:
        end(process)


def scraped(url: str, prefix: str) -> list[tuple[str, dict[str, str], float]]:
    """Read a page of metrics: the samples whose names begin with `prefix`."""
    with urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(prefix) and not _OF_THE_CLIENT.match(sample.name)
    ]


def comparable(samples: list[tuple[str, dict[str, str], float]]) -> list[Sample]:
    """Sorted samples without what differs between two clusters in the same state."""
    return sorted(_comparable(*sample) for sample in samples)


def _comparable(name: str, labels: dict[str, str], value: float) -> Sample:
    topic = labels.get("topic", labels.get("topic_name", ""))
    differs = _DIFFERING.fullmatch(name) or _DIFFERING.fullmatch(topic)
    kept = tuple(sorted(item for item in labels.items() if item[0] not in _PLACES))
    return name, kept, None if differs else value
