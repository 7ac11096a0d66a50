"""The voters of a quorum: static (from the configuration), or kept in the log (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wirekafka.protocol.records.control import VotersRecord
from wirekafka.replication.raft.messages import NO_DIRECTORY, Endpoints, ReplicaKey, VersionRange

KRAFT_FEATURE = "kraft.version"
"""The feature that lets the voters be kept in the log."""


@dataclass(frozen=True)
class Voter:
    """A controller with a vote; `endpoints` are (listener name, host, port).

    `directory_id` is of 16 bytes, zeros if it is not known, as in `controller.quorum.voters`.
    """

    id: int
    directory_id: bytes = NO_DIRECTORY
    endpoints: Endpoints = ()
    versions: VersionRange = field(default_factory=VersionRange)

    @cached_property
    def key(self) -> ReplicaKey:
        """The id and the directory id."""
        return ReplicaKey(self.id, self.directory_id)

    def endpoint(self, listener: str) -> tuple[str, int] | None:
        """The host and port of a listener; None if the voter does not have it."""
        for name, host, port in self.endpoints:
            if name == listener:
                return host, port
        return None

    def to_record(self) -> VotersRecord.Voter:
        """The voter as in a `VotersRecord`."""
        record = VotersRecord.Voter
        return record(
            voter_id=self.id,
            voter_directory_id=self.directory_id,
            endpoints=[
                record.Endpoint(name=name, host=host, port=port)
                for name, host, port in self.endpoints
            ],
            kraft_version_feature=record.KRaftVersionFeature(
                min_supported_version=self.versions.min_supported,
                max_supported_version=self.versions.max_supported,
            ),
        )

    @classmethod
    def of_record(cls, record: VotersRecord.Voter) -> Voter:
        """The voter of a `VotersRecord`."""
        versions = record.kraft_version_feature
        return cls(
            record.voter_id,
            record.voter_directory_id,
            tuple((each.name, each.host, each.port) for each in record.endpoints),
            VersionRange(
                min_supported=versions.min_supported_version,
                max_supported=versions.max_supported_version,
            ),
        )


@dataclass(frozen=True)
class VoterSet:
    """Voters with different ids, ordered by id. Immutable; a change returns another set."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def of(cls, voters: Sequence[Voter]) -> VoterSet:
        """The set of these voters."""
        return cls(tuple(sorted(voters, key=lambda voter: voter.id)))

    @classmethod
    def of_record(cls, record: VotersRecord) -> VoterSet:
        """The set in a control record."""
        return cls.of([Voter.of_record(voter) for voter in record.voters])

    def to_record(self) -> VotersRecord:
        """The set as a control record."""
        return VotersRecord(voters=[voter.to_record() for voter in self.voters])

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The ids of the voters, ascending."""
        return tuple(voter.id for voter in self.voters)

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        return len(self.voters) // 2 + 1

    def get(self, id: int) -> Voter | None:
        """The voter of an id."""
        for voter in self.voters:
            if voter.id == id:
                return voter
        return None

    def contains(self, key: ReplicaKey) -> bool:
        """Whether a replica is a voter: a voter has its id, and no other directory id."""
        voter = self.get(key.id)
        return voter is not None and voter.key.matches(key)

    def is_only(self, key: ReplicaKey) -> bool:
        """Whether a replica is the only voter."""
        return len(self.voters) == 1 and self.contains(key)

    def adding(self, voter: Voter) -> VoterSet:
        """The set with one more voter, whose id must be new."""
        assert voter.id not in self.ids, f"{voter.id} is a voter already"
        return VoterSet.of([*self.voters, voter])

    def removing(self, key: ReplicaKey) -> VoterSet:
        """The set without a voter, which must be a member."""
        assert self.contains(key), f"{key} is not a voter"
        return VoterSet.of([voter for voter in self.voters if voter.id != key.id])

    def updating(self, voter: Voter) -> VoterSet:
        """The set with other endpoints or versions of a voter, which must be a member."""
        assert voter.id in self.ids, f"{voter.id} is not a voter"
        return VoterSet.of([voter if each.id == voter.id else each for each in self.voters])

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)


class QuorumHistory:
    """The levels of kraft.version and the voter sets in a log, each with the offset it is at.

    They take effect when they are appended, committed or not; truncating the log undoes them.
    """

    def __init__(self) -> None:
        self._versions: list[tuple[int, int]] = []
        self._voters: list[tuple[int, VoterSet]] = []

    @property
    def kraft_version(self) -> int:
        """The newest level, 0 if the log has none."""
        return self._versions[-1][1] if self._versions else 0

    @property
    def voters(self) -> VoterSet | None:
        """The newest voter set; None for a static quorum."""
        return self._voters[-1][1] if self._voters else None

    @property
    def voters_offset(self) -> int | None:
        """The offset of the newest voter set's batch; None if there is none."""
        return self._voters[-1][0] if self._voters else None

    @property
    def voters_before(self) -> VoterSet | None:
        """The voter set that the newest one has replaced; None if that is not known."""
        return self._voters[-2][1] if len(self._voters) > 1 else None

    def note_version(self, offset: int, level: int) -> None:
        """Add the kraft.version level at an offset; no effect at or below a known offset."""
        if not self._versions or offset > self._versions[-1][0]:
            self._versions.append((offset, level))

    def note_voters(self, offset: int, voters: VoterSet) -> None:
        """Add the voter set at an offset, as `note_version`."""
        if not self._voters or offset > self._voters[-1][0]:
            self._voters.append((offset, voters))

    def before(self, end_offset: int) -> tuple[int, VoterSet | None]:
        """The level and the voter set that were in effect at an end of the log."""
        levels = [level for offset, level in self._versions if offset < end_offset]
        sets = [voters for offset, voters in self._voters if offset < end_offset]
        return levels[-1] if levels else 0, sets[-1] if sets else None

    def truncate(self, end_offset: int) -> None:
        """Forget entries at or after the log's new end."""
        self._versions = [each for each in self._versions if each[0] < end_offset]
        self._voters = [each for each in self._voters if each[0] < end_offset]

    def clear(self) -> None:
        """Forget everything, before a snapshot is read that replaces the log."""
        self._versions, self._voters = [], []
