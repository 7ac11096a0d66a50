"""A leader's knowledge of the other replicas: its high watermark, and whether it still leads."""

from __future__ import annotations

from dataclasses import dataclass

from wirekafka.replication.raft.messages import ReplicaKey
from wirekafka.replication.raft.voter_set import VoterSet

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for this long is no longer listed."""

CAUGHT_UP_SESSION_MS = 3_600_000
"""A new voter must have been at the end of the log, and have fetched within this time."""


@dataclass(slots=True)
class QuorumReplica:
    """The leader's knowledge of another replica; -1 for unknown values."""

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_at_fetch: int = -1

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Note a Fetch; a replica is caught up if it has reached the end at its previous Fetch."""
        if offset >= leader_end:
            self.last_caught_up_ms = max(now_ms, self.last_caught_up_ms)
        elif self.leader_end_at_fetch >= 0 and offset >= self.leader_end_at_fetch:
            self.last_caught_up_ms = max(self.last_fetch_ms, self.last_caught_up_ms)
        self.end_offset = offset
        self.leader_end_at_fetch = leader_end
        self.last_fetch_ms = max(now_ms, self.last_fetch_ms)


class Leading:
    """The role of a leader. `start_offset` is where the records of its epoch begin."""

    def __init__(self, own: ReplicaKey, start_offset: int, check_quorum_ms: int, now_ms: int):
        self._own = own
        self._check_quorum_ms = check_quorum_ms
        self._voters: dict[int, QuorumReplica] = {}
        self._observers: dict[ReplicaKey, QuorumReplica] = {}
        self._is_voter = True
        self._voter_set: VoterSet | None = None
        self._fetched: set[int] = set()
        self._check_at_ms = now_ms + check_quorum_ms
        self.start_offset = start_offset
        self.high_watermark: int | None = None
        """The high watermark; None until it covers a record of this epoch."""
        self.pending: set[int] = set()
        """The voters that have to be informed of the leader, and have not acknowledged it."""
        self.announce_at_ms = now_ms
        """When the voters that do not fetch have to be informed of the leader (again)."""

    @property
    def others(self) -> list[QuorumReplica]:
        """The other voters, by the length of their logs, the longest first."""
        found = [each for id, each in self._voters.items() if id != self._own.id]
        return sorted(found, key=lambda replica: (-replica.end_offset, replica.key.id))

    @property
    def check_at_ms(self) -> int | None:
        """When the leader resigns unless a majority fetches before; None for the only voter."""
        return self._check_at_ms if self._majority_of_others else None

    def use(self, voters: VoterSet) -> None:
        """Take up a voter set; removed voters become observers."""
        if voters is self._voter_set:
            return
        self._voter_set = voters
        before = self._voters
        self._voters = {}
        for voter in voters:
            replica = before.get(voter.id)
            if replica is None or not replica.key.matches(voter.key):
                replica = self._observers.pop(voter.key, None) or QuorumReplica(voter.key)
            replica.key = voter.key
            self._voters[voter.id] = replica
        for id, replica in before.items():
            if self._voters.get(id) is not replica and replica.key != self._own:
                self._observers.setdefault(replica.key, replica)
        self._is_voter = voters.contains(self._own)
        self._fetched &= set(self._voters)

    def fetched(self, key: ReplicaKey, offset: int, leader_end: int, now_ms: int) -> None:
        """Note that a replica has synced all below `offset` and fetches from there."""
        self._find(key).fetched(offset, leader_end, now_ms)
        self.heard(key, now_ms)

    def heard(self, key: ReplicaKey, now_ms: int) -> None:
        """Note that a replica follows, which a majority has to do."""
        voter = self._voters.get(key.id)
        if voter is not None and voter.key.matches(key) and key.id != self._own.id:
            self._fetched.add(key.id)
        if len(self._fetched) >= self._majority_of_others:
            self._fetched.clear()
            self._check_at_ms = now_ms + self._check_quorum_ms

    def advanced(self, own_synced_end: int) -> int | None:
        """Recompute the high watermark; returns it if it has risen.

        The high watermark is the offset up to which a majority has synced, once it covers a record
        of this epoch: records of earlier epochs alone could still be replaced by a later leader
        (Raft 5.4.2).
        """
        ends = sorted(self._end_of(each, own_synced_end) for each in self._voters.values())
        if not ends:
            return None
        held_by_majority = ends[(len(ends) - 1) // 2]
        if held_by_majority <= max(self.start_offset, self.high_watermark or 0):
            return None
        self.high_watermark = held_by_majority
        return held_by_majority

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer is near enough to the end of the log to become a voter."""
        replica = self._observers.get(key)
        return (
            replica is not None
            and replica.last_caught_up_ms > 0
            and replica.last_fetch_ms > now_ms - CAUGHT_UP_SESSION_MS
        )

    def to_announce(self, now_ms: int, interval_ms: int) -> list[QuorumReplica]:
        """The voters that have not fetched within an interval."""
        return [each for each in self.others if each.last_fetch_ms + interval_ms <= now_ms]

    def listed(self, now_ms: int) -> tuple[list[QuorumReplica], list[QuorumReplica]]:
        """The voters and the observers that still fetch, ordered by id."""
        for key, replica in list(self._observers.items()):
            if replica.last_fetch_ms + OBSERVER_SESSION_MS <= now_ms:
                del self._observers[key]
        return (
            sorted(self._voters.values(), key=lambda each: each.key),
            sorted(self._observers.values(), key=lambda each: each.key),
        )

    @property
    def _majority_of_others(self) -> int:
        """How many other voters have to follow."""
        return len(self._voters) // 2 + 1 - self._is_voter if len(self._voters) > 1 else 0

    def _find(self, key: ReplicaKey) -> QuorumReplica:
        voter = self._voters.get(key.id)
        if voter is not None and voter.key.matches(key):
            return voter
        return self._observers.setdefault(key, QuorumReplica(key))

    def _end_of(self, replica: QuorumReplica, own_synced_end: int) -> int:
        is_own = self._is_voter and replica.key.id == self._own.id
        return own_synced_end if is_own else replica.end_offset
