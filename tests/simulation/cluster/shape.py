"""The nodes of a simulated cluster, drawn from its seed: their roles, and their configurations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from tests.simulation.disk import SimulatedDisk
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.directories.directory_identity import DirectoryIdentity
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.metadata.bootstrap import FILE_NAME
from wirekafka.metadata.controller.features import bootstrap_features
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.records.control import KRaftVersionRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.metadata_log import quorum_records
from wirekafka.replication.raft.voter_set import Voter, VoterSet

PORT = 9092
CONTROLLER_PORT = 9093
CONTROLLER = "CONTROLLER"
CLUSTER_ID = uuid_text(bytes(range(16)))
REPLICAS = 3
MIN_ISR = 2
_SETTINGS = {
    "controller.listener.names": CONTROLLER,
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "4000",
    "default.replication.factor": str(REPLICAS),
    "min.insync.replicas": str(MIN_ISR),
    "offsets.topic.replication.factor": str(REPLICAS),
    "transaction.state.log.replication.factor": str(REPLICAS),
    "transaction.state.log.min.isr": str(MIN_ISR),
    "share.coordinator.state.topic.replication.factor": str(REPLICAS),
    "share.coordinator.state.topic.min.isr": str(MIN_ISR),
    "leader.imbalance.check.interval.seconds": "7",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.retention.check.interval.ms": "3000",
    "log.initial.task.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "internal.metadata.log.segment.bytes": "3000",
    "metadata.log.max.record.bytes.between.snapshots": "5000",
    "metadata.max.retention.bytes": "20000",
}
SYNCED = {"log.flush.interval.messages": "1"}
"""With these settings no power cut, even of all nodes, may lose acknowledged records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node: its id and roles."""

    id: int
    roles: str

    @property
    def name(self) -> str:
        return f"node-{self.id}"

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The nodes of a cluster, and how its quorum is configured.

    A controller that is no voter at first is added and removed in a dynamic quorum.
    """

    specs: tuple[NodeSpec, ...]
    voters: tuple[int, ...]
    is_dynamic: bool
    is_synced: bool
    rolls: bool
    """Whether the segments of partitions are short: a power cut may then lose a hole of what was
    not synced, if it loses the end of each file, and such a log is not opened again."""

    @classmethod
    def drawn(cls, random: Random) -> Shape:
        """The shape of a seed."""
        kind = random.choice(("combined", "combined", "apart", "five"))
        is_dynamic = random.random() < 0.5
        if kind == "apart":
            specs = [NodeSpec(id=id, roles="controller") for id in (1, 2, 3)]
            specs += [NodeSpec(id=id, roles="broker") for id in (4, 5, 6)]
            voters: tuple[int, ...] = (1, 2, 3)
        else:
            count = 3 if kind == "combined" else 5
            voters = tuple(range(1, count + 1))
            specs = [NodeSpec(id=id, roles="broker,controller") for id in voters]
        if is_dynamic:
            specs.append(NodeSpec(id=9, roles="controller"))
        return cls(
            specs=tuple(specs),
            voters=voters,
            is_dynamic=is_dynamic,
            is_synced=random.random() < 0.4,
            rolls=random.random() < 0.5,
        )

    @property
    def topic_configs(self) -> dict[str, str]:
        """The configs of the topics that clients use."""
        rolling = {} if self.rolls else {"segment.ms": "604800000"}
        return {"min.insync.replicas": str(MIN_ISR), **rolling}

    def settings(self, spec: NodeSpec) -> dict[str, str]:
        """The configuration of one node."""
        listeners = []
        if spec.is_broker:
            listeners.append(f"PLAINTEXT://{spec.name}:{PORT}")
        if spec.is_controller:
            listeners.append(f"{CONTROLLER}://{spec.name}:{CONTROLLER_PORT}")
        at = [(id, f"node-{id}:{CONTROLLER_PORT}") for id in self.voters]
        if self.is_dynamic:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(each for _, each in at)}
        else:
            named = ",".join(f"{id}@{each}" for id, each in at)
            quorum = {"controller.quorum.voters": named}
        return {
            **_SETTINGS,
            **quorum,
            **(SYNCED if self.is_synced else {}),
            "process.roles": spec.roles,
            "node.id": str(spec.id),
            "listeners": ",".join(listeners),
        }


def directory_id(node_id: int) -> bytes:
    """The id of a node's log directory in a dynamic quorum."""
    return bytes([node_id]) * 16


def format_directory(disk: SimulatedDisk, path: str, node_id: int, voters: Iterable[int]) -> None:
    """Format a directory as `kafka-storage format --initial-controllers` does.

    Without voters, as `--no-initial-controllers` does: the node finds the quorum by itself.
    """
    disk.make_directory(path)
    directory = LogDirectory(disk, path)
    directory.claim(DirectoryIdentity(CLUSTER_ID, node_id, directory_id(node_id)))
    directory.release()
    members = [
        Voter(id, directory_id(id), ((CONTROLLER, f"node-{id}", CONTROLLER_PORT),)) for id in voters
    ]
    if members:
        quorum = quorum_records(
            KRaftVersionRecord(kraft_version=1), VoterSet.of(members).to_record()
        )
        frame = snapshot_file.Frame(now_ms=0, quorum=quorum)
        file = f"{path}/{FILE_NAME}"
        disk.make_directory(file.rpartition("/")[0])
        disk.write_atomic(
            file, b"".join(snapshot_file.encode(bootstrap_features(), MetadataCodec(), frame))
        )
