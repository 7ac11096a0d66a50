"""The requests and responses of a quorum's nodes, apart from their encoding on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wirekafka.errors import Error
from wirekafka.log.slice import LogSlice
from wirekafka.replication.partition.replica import NO_EPOCH, NO_LEADER
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.runtime.replicated_log import Buffer

NO_DIRECTORY = bytes(16)
"""The directory id of a voter whose directory is not known, as in a static quorum."""

NO_NODE = -1
"""The id of a replica in a request that does not name one, e.g. Fetch of kafka-dump tools."""

Endpoints = tuple[tuple[str, str, int], ...]
"""A controller's listeners: (listener name, host, port), the default listener first."""


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node's id, and the id of its directory (16 bytes)."""

    id: int
    directory_id: bytes = NO_DIRECTORY

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both may be one replica: equal ids, and directories equal or not known."""
        return self.id == other.id and (
            self.directory_id == other.directory_id
            or NO_DIRECTORY in (self.directory_id, other.directory_id)
        )

    def __str__(self) -> str:
        return f"{self.id}-{self.directory_id.hex()}"


class LeaderAndEpoch(NamedTuple):
    """A leader epoch and its leader, -1 while unknown, as every response reports it.

    `endpoints` are the leader's listeners; a response names at most the listener that served it.
    """

    leader_id: int = NO_LEADER
    epoch: int = NO_EPOCH
    endpoints: Endpoints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Requests the vote of `voter` for `candidate` (Vote, KIP-595; `pre_vote`: KIP-996).

    The candidate's log ends at `end_offset`, with a record of `last_epoch`. A pre-vote names the
    candidate's present epoch; it asks whether an election could be won and binds nobody.
    """

    voter: ReplicaKey
    candidate: ReplicaKey
    epoch: int
    last_epoch: int
    end_offset: int
    pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer:
    """The response to a `Vote`; with an error, `granted` is False."""

    leadership: LeaderAndEpoch
    granted: bool = False
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """A new leader announces itself to `voter` (BeginQuorumEpoch)."""

    voter: ReplicaKey
    leadership: LeaderAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpoch:
    """A leader resigns, and proposes successors, by the length of their logs, the longest first.

    `preferred` are voters (EndQuorumEpoch). `leadership` has the epoch that ends.
    """

    leadership: LeaderAndEpoch
    preferred: Sequence[ReplicaKey] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAnswer:
    """The response to a `BeginEpoch` or an `EndEpoch`."""

    leadership: LeaderAndEpoch
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """The parameters of a Fetch of the metadata log.

    `leader_epoch` is the epoch that the replica believes in, `last_fetched_epoch` the epoch of its
    last record (-1: none), `high_watermark` its own (-1: unknown). A voter has synced everything
    below `offset`. `replica` has the id -1 for a consumer, which does not count as a replica.
    """

    replica: ReplicaKey
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """The response to a `FetchPosition`: either records, a divergence, a snapshot or an error.

    `diverging` is (epoch, end offset): the replica truncates its log to there or further, and
    fetches again. `snapshot` is to be fetched first: the log no longer has the offset.
    The leader fills `records` with a slice of its log, the driver of a follower with bytes.
    """

    leadership: LeaderAndEpoch
    high_watermark: int = -1
    log_start_offset: int = -1
    records: LogSlice | Buffer = b""
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot:
    """Requests a part of a snapshot file, from byte `position` on (FetchSnapshot, KIP-630)."""

    replica: ReplicaKey
    leader_epoch: int
    snapshot: SnapshotId
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAnswer:
    """A part of a snapshot file of `size_bytes` bytes in all."""

    leadership: LeaderAndEpoch
    size_bytes: int = 0
    position: int = 0
    data: Buffer = b""
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """The levels of `kraft.version` that a node supports."""

    min_supported: int = 0
    max_supported: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedVersions:
    """Requests the range of `kraft.version` of a node that is to become a voter (ApiVersions).

    The response is a `VersionsAnswer`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsAnswer:
    """The range of `kraft.version`, None if the node does not report any."""

    versions: VersionRange | None
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter:
    """Adds a replica to the voters (AddRaftVoter, KIP-853).

    With `ack_when_committed` False, the response is sent once the record is appended.
    """

    voter: ReplicaKey
    endpoints: Endpoints
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoter:
    """Removes a replica from the voters (RemoveRaftVoter, KIP-853)."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoter:
    """Changes the endpoints and versions of a voter (UpdateRaftVoter, KIP-853)."""

    voter: ReplicaKey
    leader_epoch: int
    endpoints: Endpoints
    versions: VersionRange = field(default_factory=VersionRange)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAnswer:
    """The response to an `AddVoter`, `RemoveVoter` or `UpdateVoter`."""

    leadership: LeaderAndEpoch = field(default_factory=LeaderAndEpoch)
    error: Error = Error.NONE


Request = (
    Vote
    | BeginEpoch
    | EndEpoch
    | FetchPosition
    | FetchSnapshot
    | SupportedVersions
    | AddVoter
    | RemoveVoter
    | UpdateVoter
)
"""The requests that nodes send to each other."""

Answer = VoteAnswer | EpochAnswer | FetchAnswer | SnapshotAnswer | VersionsAnswer | ChangeAnswer
"""The responses of nodes; a response with an error reports the leadership as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """A request to be sent, and then passed to `Raft.answered` with its response or error.

    `to` and `endpoint` are None for a request to any node of the quorum, because the leader is not
    known: one of `controller.quorum.bootstrap.servers`, or the configured voters. Otherwise
    `endpoint` is (host, port). After `timeout_ms` without a response the request has failed.
    """

    request: Request
    to: ReplicaKey | None
    endpoint: tuple[str, int] | None
    timeout_ms: int
