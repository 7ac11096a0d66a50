"""The parts of a node of the quorum, and the description of the quorum."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from wirekafka.replication.raft.messages import LeaderAndEpoch, ReplicaKey
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.voter_set import Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftOptions:
    """The options `controller.quorum.*`, in ms; the defaults are Kafka's."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    auto_join: bool = False
    """Whether a controller that is no voter adds itself to the voters (KIP-1186)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftParts:
    """The dependencies of a node.

    `voter` is this node: its id, directory id and endpoints. `log` knows the other voters.
    `listener` is the name of the controller listener that requests are sent to.
    A node that cannot vote is a broker, which follows and never becomes a voter.
    """

    voter: Voter
    log: QuorumLog
    random: Random
    listener: str = "CONTROLLER"
    options: RaftOptions = field(default_factory=RaftOptions)
    can_vote: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """The leader's knowledge of a replica (DescribeQuorum); -1 for unknown values."""

    key: ReplicaKey
    log_end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum as its leader sees it (DescribeQuorum); observers are listed while they fetch."""

    leadership: LeaderAndEpoch
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]
