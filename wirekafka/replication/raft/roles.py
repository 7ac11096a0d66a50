"""The roles of a node in one epoch; a leader's is `Leading`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wirekafka.replication.raft.messages import ReplicaKey
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import VoterSet


@dataclass(slots=True)
class Unattached:
    """A node without a leader to follow; a voter tries to become leader at `election_at_ms`."""

    election_at_ms: int


@dataclass(slots=True)
class Nominee:
    """A node that asks voters for their votes: prospective (pre-vote, KIP-996), or candidate.

    A candidate that cannot win any more waits until `backed_off_ms`.
    """

    own_id: int
    is_pre_vote: bool
    expires_at_ms: int
    retries: int = 0
    granted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    backed_off_ms: int | None = None

    def __post_init__(self) -> None:
        self.granted.add(self.own_id)

    def has_won(self, voters: VoterSet) -> bool:
        """Whether a majority of the voters has granted its vote."""
        return len(self.granted & set(voters.ids)) >= voters.majority

    def has_lost(self, voters: VoterSet) -> bool:
        """Whether so many voters have refused that no majority is left."""
        return len(voters) - len(self.refused & set(voters.ids)) < voters.majority

    def undecided(self, voters: VoterSet) -> list[int]:
        """The voters that have not answered."""
        return [id for id in voters.ids if id not in self.granted and id not in self.refused]


@dataclass(slots=True)
class SnapshotDownload:
    """A snapshot that is being fetched from the leader."""

    id: SnapshotId
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Follower:
    """A node that fetches from the leader; a voter that fails until `fetch_by_ms` is prospective.

    At `update_at_ms` it checks whether the voter set has its present endpoints.
    """

    leader: ReplicaKey
    endpoint: tuple[str, int]
    fetch_by_ms: int
    update_at_ms: int
    has_fetched: bool = False
    has_failed: bool = False
    """Whether the last request to the leader failed: an observer then searches for another
    leader."""
    lost_at_ms: int | None = None
    """When a voter that cannot connect to the leader takes the leader for dead; None while it can
    connect. Earlier than `fetch_by_ms`, the deadline of a leader that is merely slow.
    """
    download: SnapshotDownload | None = None


@dataclass(slots=True)
class Resigned:
    """A node that led this epoch, and waits for a successor, but not beyond `until_ms`."""

    until_ms: int
    unacknowledged: set[int]
    preferred: Sequence[ReplicaKey] = ()
    repeat_at_ms: int = 0
    """When a stopping node asks again whether the other voters are still there to succeed it."""
