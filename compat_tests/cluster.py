"""Clusters of Apache Kafka and wirekafka nodes: laid out, started, stopped, killed, paused.

Every process ends with the `with` block of `Cluster.laid_out`. Ports are free ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from compat_tests.apache_kafka import (
    SMALL_CLEANER,
    SMALL_JVM,
    KafkaDied,
    formatted_files,
    java_command,
)
from compat_tests.wire import Wire
from tests import kafka_jars
from tests.eventually import eventually
from tests.ports import free_ports
from wirekafka.codec.message import Message
from wirekafka.log.checkpoints import meta_properties_text, uuid_text
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.metadata.controller.features import bootstrap_features
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.records.control import KRaftVersionRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.metadata_log import quorum_records
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import Voter, VoterSet

KAFKA, WIREKAFKA = "kafka", "wirekafka"
FIRST_CONTROLLER = 3000
HOST = "127.0.0.1"
CLIENTS = "CLIENTS"
"""The listener at which clients log in, where a cluster has one."""
_IN_SERVICE_S = 90
_STOP_S = 60


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The nodes of a cluster: brokers have the ids 1, 2, ..., controllers 3000, 3001, ...

    With `is_combined` the first brokers are the controllers as well.
    """

    brokers: Sequence[str] = (KAFKA, WIREKAFKA)
    """The engine of each broker."""
    controllers: int = 1
    """The number of controllers."""
    controller_engine: str = KAFKA
    """The engine of controllers that are no brokers."""
    controller_engines: Sequence[str] = ()
    """The engines of the first of them, where these differ."""
    first_voters: Sequence[int] = ()
    """The ids of the first voters of a dynamic quorum (KIP-853); empty for a static quorum of all
    controllers."""
    is_combined: bool = True
    settings: dict[str, str] = field(default_factory=dict)
    """Further settings of every node."""
    log_directories: int = 1
    """How many log directories each node has."""
    jvm: Sequence[str] = SMALL_JVM
    """The JVM options of Apache Kafka's nodes."""
    jars: Mapping[int, Path] = field(default_factory=dict)
    """The jars of another release of Apache Kafka, by node."""
    class_path: str = ""
    """Further classes of Apache Kafka's nodes."""
    has_racks: bool = False
    """Whether each broker is in a rack of its own (`rack_of`)."""
    records: Sequence[Message] = ()
    """The first records of the cluster; by default its features, at their newest levels."""
    snapshot_end: int = 0
    """The offset at which the metadata log begins; a snapshot of the new cluster precedes it."""
    has_logins: bool = False
    """Whether brokers have the listener `CLIENTS`, too; its options are among the settings."""


class Node:
    """One node: its files are in `directory`, `bootstrap` is where clients connect.

    Its log directories are `log_dirs`; the first, `data`, has the metadata log.
    """

    def __init__(self, id: int, engine: str, roles: Collection[str], directory: Path, shape: Shape):
        self.id = id
        self.engine = engine
        self.roles = roles
        self.jvm = shape.jvm
        self.jars = shape.jars.get(id)
        self.class_path = shape.class_path
        self.directory = directory
        self.data = directory / "data"
        self.log_dirs = [self.data, *self._further(shape.log_directories)]
        self.log = directory / "out.log"
        self.directory_ids = [uuid4().bytes for _ in self.log_dirs]
        """The ids of `log_dirs`, where these are formatted."""
        self.port, self.controller_port, self.login_port = free_ports(3)
        self.process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def login_address(self) -> str:
        """Where clients log in, if the cluster has a listener for them."""
        return f"{HOST}:{self.login_port}"

    def command(self) -> list[str]:
        properties = str(self.directory / "server.properties")
        if self.engine == WIREKAFKA:
            return [sys.executable, "-m", "wirekafka", "serve", "--config", properties]
        # With other options there is no archive of classes, as in Kafka's own scripts.
        jars = self.jars or (None if self.jvm == SMALL_JVM else kafka_jars.kafka_jars())
        java = java_command(self.directory, jars)
        if self.class_path:
            java[java.index("-cp") + 1] += f":{self.class_path}"
        return [*java, *self.jvm, "kafka.Kafka", properties]

    def _further(self, directories: int) -> list[Path]:
        return [self.directory / f"data{number}" for number in range(2, directories + 1)]

    def written(self, most: int = 2000) -> str:
        """The end of what the process has written: so many characters of each log."""
        parts = [path for path in (self.log, self.directory / "server.log") if path.exists()]
        return "\n".join(part.read_text()[-most:] for part in parts)


class Cluster:
    """A running cluster; nodes are named by their ids."""

    def __init__(self, shape: Shape, directory: Path):
        self.id = _cluster_id()
        self._shape = shape
        self.nodes = {node.id: node for node in _nodes(shape, directory)}
        for node in self.nodes.values():
            properties = self._properties(node) | shape.settings
            text = "".join(f"{name}={value}\n" for name, value in properties.items())
            (node.directory / "server.properties").write_text(text + SMALL_CLEANER)
            if node.engine == KAFKA or (shape.first_voters and node.is_controller):
                self._format(node)

    @classmethod
    @contextmanager
    def laid_out(cls, shape: Shape, directory: Path) -> Iterator[Cluster]:
        """A cluster whose nodes are down."""
        cluster = cls(shape, directory)
        try:
            yield cluster
        finally:
            cluster.end()

    @classmethod
    @contextmanager
    def running(cls, shape: Shape, directory: Path) -> Iterator[Cluster]:
        """A cluster with every broker in service."""
        with cls.laid_out(shape, directory) as cluster:
            cluster.start(*cluster.nodes)
            yield cluster

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(node.bootstrap for node in self.brokers())

    def brokers(self, engine: str | None = None) -> list[Node]:
        """The brokers, or those of one engine."""
        return [
            node for node in self.nodes.values() if node.is_broker and engine in (None, node.engine)
        ]

    def start(self, *ids: int) -> None:
        """Start nodes, and wait until their brokers are in service."""
        self.spawn(*ids)
        self.await_in_service(*ids)

    def spawn(self, *ids: int) -> None:
        """Start nodes without waiting for them."""
        for node in self._named(ids):
            with node.log.open("ab") as out:
                node.process = subprocess.Popen(
                    node.command(),
                    # wirekafka's directories are not formatted.
                    env=os.environ | {"CLUSTER_ID": self.id},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    # Ctrl-C in the terminal must reach only the tests, which then stop the nodes.
                    preexec_fn=os.setpgrp,
                )

    def await_in_service(self, *ids: int) -> None:
        """Wait until every running broker lists those of the nodes that are brokers."""
        wanted = {node.id for node in self._named(ids) if node.is_broker}

        def are_listed() -> bool:
            for node in self.nodes.values():
                if node.process is not None and not node.is_running:
                    raise KafkaDied(f"node {node.id} ended: {node.written()}")
            running = [node for node in self.brokers() if node.is_running]
            return all(wanted <= self.listed_by(node.id) for node in running)

        eventually(are_listed, timeout_s=_IN_SERVICE_S)

    def listed_by(self, id: int) -> set[int]:
        """The ids of the brokers in service, as one broker lists them; empty if it is not up."""
        node = self.nodes[id]
        wire = Wire((HOST, node.port), timeout_s=5)
        try:
            response = wire.ask(MetadataRequest(topics=[]), 12)
        except OSError:
            return set()
        finally:
            wire.close()
        return set() if isinstance(response, str) else {each.node_id for each in response.brokers}

    def stop(self, *ids: int) -> None:
        """Stop nodes in order, as SIGTERM does, and wait for their end."""
        self._signal(ids, signal.SIGTERM)
        for node in self._named(ids):
            if node.process is not None:
                node.process.wait(_STOP_S)
                node.process = None

    def kill(self, *ids: int) -> None:
        """Kill nodes with SIGKILL."""
        self._signal(ids, signal.SIGKILL)
        for node in self._named(ids):
            if node.process is not None:
                node.process.wait()
                node.process = None

    def pause(self, *ids: int) -> None:
        """Suspend nodes with SIGSTOP."""
        self._signal(ids, signal.SIGSTOP)

    def go_on(self, *ids: int) -> None:
        """Resume nodes with SIGCONT."""
        self._signal(ids, signal.SIGCONT)

    def end(self) -> None:
        """Kill every node that runs."""
        for id in self.nodes:
            with suppress(ProcessLookupError):
                self.kill(id)

    def _named(self, ids: Collection[int]) -> list[Node]:
        return [self.nodes[id] for id in ids]

    def _signal(self, ids: Collection[int], number: signal.Signals) -> None:
        for node in self._named(ids):
            if node.process is not None:
                node.process.send_signal(number)

    def _properties(self, node: Node) -> dict[str, str]:
        replicas = max(1, min(3, len(self._shape.brokers)))
        voters = [each for each in self.nodes.values() if each.is_controller]
        listeners = [f"PLAINTEXT://{HOST}:{node.port}"] if node.is_broker else []
        if node.is_broker and self._shape.has_logins:
            listeners.append(f"{CLIENTS}://{node.login_address}")
        if node.is_controller:
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        addresses = {each.id: f"{HOST}:{each.controller_port}" for each in voters}
        properties = {
            "process.roles": ",".join(sorted(node.roles)),
            "node.id": str(node.id),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "log.dirs": ",".join(map(str, node.log_dirs)),
            "offsets.topic.replication.factor": str(replicas),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.min.isr": str(min(2, replicas)),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.num.partitions": "4",
            "share.coordinator.state.topic.min.isr": str(min(2, replicas)),
            "group.initial.rebalance.delay.ms": "0",
        }
        if self._shape.first_voters:
            properties["controller.quorum.bootstrap.servers"] = ",".join(addresses.values())
        else:
            properties["controller.quorum.voters"] = ",".join(
                f"{id}@{address}" for id, address in addresses.items()
            )
        if node.is_broker:
            properties["inter.broker.listener.name"] = "PLAINTEXT"
            if self._shape.has_racks:
                properties["broker.rack"] = rack_of(node.id)
        return properties

    def _format(self, node: Node) -> None:
        """Write what Kafka's StorageTool writes."""
        for each, directory_id in zip(node.log_dirs, node.directory_ids, strict=True):
            each.mkdir()
            text = meta_properties_text(self.id, node.id, directory_id)
            (each / "meta.properties").write_bytes(text)
        voters = self._shape.first_voters
        if node.jars and not voters:
            # The features of that release, where that release looks for them.
            name = "bootstrap.checkpoint"
            (node.data / name).write_bytes(formatted_files(node.jars)[Path(name)])
        elif node.is_controller and (not voters or node.id in voters):
            end = self._shape.snapshot_end
            frame = snapshot_file.Frame(
                now_ms=0, epoch=int(end > 0), quorum=self._quorum_records() if voters else ()
            )
            records = self._shape.records or bootstrap_features()
            batches = snapshot_file.encode(records, MetadataCodec(), frame)
            metadata = node.data / METADATA_LOG
            metadata.mkdir()
            (metadata / SnapshotId(end, int(end > 0)).file_name).write_bytes(b"".join(batches))

    def _quorum_records(self) -> Sequence[tuple[int, bytes]]:
        voters = [
            Voter(id, node.directory_ids[0], (("CONTROLLER", HOST, node.controller_port),))
            for id, node in self.nodes.items()
            if id in self._shape.first_voters
        ]
        version = KRaftVersionRecord(kraft_version=1)
        return quorum_records(version, VoterSet.of(voters).to_record())


def rack_of(id: int) -> str:
    """The rack of a broker, in a cluster that has racks."""
    return f"rack-{id}"


def _nodes(shape: Shape, directory: Path) -> list[Node]:
    nodes = []
    for index, engine in enumerate(shape.brokers):
        id = 1 + index
        is_controller = shape.is_combined and index < shape.controllers
        roles = {"broker", "controller"} if is_controller else {"broker"}
        nodes.append(Node(id, engine, roles, directory / str(id), shape))
    if not shape.is_combined:
        for index in range(shape.controllers):
            id = FIRST_CONTROLLER + index
            given = shape.controller_engines[index : index + 1]
            [engine] = given or [shape.controller_engine]
            nodes.append(Node(id, engine, {"controller"}, directory / str(id), shape))
    return nodes


def _cluster_id() -> str:
    while True:
        text = uuid_text(uuid4().bytes)
        if not text.startswith("-"):  # Kafka's tools would parse it as an option.
            return text
