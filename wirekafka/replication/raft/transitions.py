"""The transitions of a node between its roles, and the rules that lead to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.control import ControlType, KRaftVersionRecord, LeaderChangeMessage
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.replication.raft.changes import VoterChanges
from wirekafka.replication.raft.election import Elected, Election, is_up_to_date
from wirekafka.replication.raft.leading import Leading
from wirekafka.replication.raft.messages import NO_NODE, Endpoints, Leadership, ReplicaKey, Vote
from wirekafka.replication.raft.metadata_log import quorum_records
from wirekafka.replication.raft.parts import RaftParts
from wirekafka.replication.raft.roles import Follower, Nominee, Resigned, Unattached
from wirekafka.replication.raft.sending import Sending
from wirekafka.replication.raft.voter_set import Voter, VoterSet

logger = logging.getLogger(__name__)

_CHECK_QUORUM_FACTOR = 1.5
_FIRST_BACKOFF_MS = 50

Role = Unattached | Nominee | Follower | Leading | Resigned


class Transitions:
    """The state of a node, and the changes of its role."""

    def __init__(self, parts: RaftParts):
        self.log = parts.log
        """The metadata log: the same object in every role."""
        self.on_leader: Callable[[int], None] | None = None
        """Called with the epoch when this node has become leader and accepts appends."""
        self.on_resigned: Callable[[], None] | None = None
        """Called when this node, the leader so far, is so no longer; appends are refused."""
        self.on_leader_changed: Callable[[Leadership], None] | None = None
        """Called with each new epoch, and when its leader becomes known."""
        self._parts = parts
        self._options = parts.options
        self._own = parts.voter.key
        self._election = Election(parts.log)
        self._sending = Sending(parts.options.request_timeout_ms, parts.options.retry_backoff_ms)
        self._role: Role = Unattached(0)
        self._leader = Leadership()
        self._is_stopping = self._is_changing = False
        self._voter_changes: VoterChanges | None = None
        # What the voters of a static quorum report of themselves, by id.
        self._reported: dict[int, Voter] = {}
        self._watchers: dict[object, Callable[[], None]] = {}

    def listen(self, endpoints: Endpoints) -> None:
        """Set this node's controller listeners; call it before `start`."""
        self._parts = replace(self._parts, voter=replace(self._parts.voter, endpoints=endpoints))

    @property
    def leadership(self) -> Leadership:
        """The newest epoch, its leader and all its listeners, as every response reports them."""
        elected = self._election.elected
        leader = elected.leader_id
        if leader == NO_LEADER:
            return Leadership(epoch=elected.epoch)
        if leader == self._own.id:
            return Leadership(leader, elected.epoch, self._parts.voter.endpoints)
        known = self._leader.endpoints if self._leader.leader_id == leader else ()
        voter = self.voters.get(leader)
        return Leadership(leader, elected.epoch, known or (voter.endpoints if voter else ()))

    @property
    def voted_id(self) -> int:
        """The id that this node has voted for in the present epoch; -1 for none."""
        voted = self._election.elected.voted
        return NO_NODE if voted is None else voted.id

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the present epoch."""
        return isinstance(self._role, Leading)

    @property
    def is_voter(self) -> bool:
        """Whether this node is in the voter set at the end of its log."""
        return self._parts.can_vote and self.voters.contains(self._own)

    @property
    def voters(self) -> VoterSet:
        """The voters at the end of the log, or the configured voters."""
        return self.log.voters

    @property
    def is_cut_off(self) -> bool:
        """Whether so many voters did not answer their last request that no majority is left."""
        voters = self.voters
        return len(voters) - len(self._sending.silent.intersection(voters.ids)) < voters.majority

    @property
    def role(self) -> str:
        """Kafka's name of this node's state, for logs and metrics."""
        role = self._role
        if isinstance(role, Leading):
            return "leader"
        if isinstance(role, Nominee):
            return "prospective" if role.is_pre_vote else "candidate"
        name = type(role).__name__.lower()
        return name if self.is_voter or name == "resigned" else "observer"

    # Learning of epochs and leaders

    def _learn(self, leadership: Leadership, now_ms: int) -> None:
        """Take up an epoch or a leader that another node reports, if it is newer than known."""
        elected = self._election.elected
        leader, epoch, _ = leadership
        if epoch < elected.epoch:
            return
        if epoch > elected.epoch:
            self._become_unattached(Leadership(epoch=epoch), now_ms)
            elected = self._election.elected
        if leader == NO_LEADER:
            return
        if elected.has_leader and elected.leader_id != leader:
            logger.error("Epoch %d has two leaders: %d and %d", epoch, elected.leader_id, leader)
            return
        is_leaderless = isinstance(self._role, Nominee) and not elected.has_leader
        if is_leaderless or isinstance(self._role, Unattached):
            self._follow_if_possible(leadership, now_ms)

    def _follow_if_possible(self, leadership: Leadership, now_ms: int) -> None:
        """Follow a leader of this epoch if its address is known; else remember its id."""
        leader, epoch, endpoints = leadership
        if leader == NO_LEADER:
            return
        if endpoints:
            self._leader = leadership
        elected = replace(self._election.elected, leader_id=leader)
        voter = self.voters.get(leader)
        listener = self._parts.listener
        endpoint = Voter(leader, endpoints=endpoints).endpoint(listener)
        if endpoint is None and voter is not None:
            endpoint = voter.endpoint(listener)
        if endpoint is None or leader == self._own.id:
            self._become(self._role, elected)
            return
        key = voter.key if voter is not None else ReplicaKey(leader)
        due_ms = now_ms + self._options.fetch_timeout_ms
        self._become(Follower(key, endpoint, due_ms, due_ms), elected)
        logger.info("Following leader %d of epoch %d", leader, epoch)

    # Transitions

    def _become_unattached(self, leadership: Leadership, now_ms: int) -> None:
        """Enter an epoch whose leader is not known."""
        role = self._role
        election_at_ms = self._election_timeout(now_ms)
        if isinstance(role, Unattached):
            election_at_ms = role.election_at_ms
        elif isinstance(role, Nominee):
            election_at_ms = max(role.expires_at_ms, now_ms)
        self._become(Unattached(election_at_ms), Elected(leadership.epoch))

    def _become_prospective(self, retries: int, now_ms: int) -> None:
        """Ask whether an election could be won, without raising the epoch (KIP-996)."""
        expires = self._election_timeout(now_ms)
        self._become(Nominee(self._own.id, True, expires, retries), self._election.elected)

    def _become_candidate(self, retries: int, now_ms: int) -> None:
        """Begin an election, in the next epoch, with this node's own vote."""
        elected = Elected(self._election.elected.epoch + 1, voted=self._own)
        expires = self._election_timeout(now_ms)
        self._become(Nominee(self._own.id, False, expires, retries + 1), elected)
        logger.info("Candidate in epoch %d", elected.epoch)

    def _vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Store the vote, and give the candidate time to win."""
        elected = self._election.elected
        if elected.voted is None:
            elected = replace(elected, voted=candidate)
        self._become(Unattached(self._election_timeout(now_ms)), elected)

    def _become_leader(self, granted: Sequence[int], now_ms: int) -> None:
        """Begin the epoch with its first records."""
        epoch = self._election.elected.epoch
        check_quorum_ms = int(self._options.fetch_timeout_ms * _CHECK_QUORUM_FACTOR)
        leading = Leading(self._own, self.log.end_offset, check_quorum_ms, now_ms)
        leading.use(self.voters)
        leading.pending.update(each.key.id for each in leading.others)
        self._voter_changes = VoterChanges(
            self.log, leading, self._parts.listener, self._options.request_timeout_ms
        )
        self._reported.clear()
        self._become(leading, Elected(epoch, leader_id=self._own.id))
        self.log.lead()
        logger.info("Leader of epoch %d from offset %d on", epoch, leading.start_offset)
        self.log.append_control([self._leader_change(granted), *self._changed_voters()])
        if self.on_leader is not None and self._role is leading:
            self.on_leader(epoch)

    def _resign(self, role: Leading, now_ms: int) -> None:
        """Lead no more, and propose the voters with the longest logs as successors."""
        preferred = [each.key for each in role.others]
        others = {key.id for key in preferred}
        logger.info("Resigning as leader of epoch %d", self._election.elected.epoch)
        role_after = Resigned(self._election_timeout(now_ms), others, preferred)
        self._become(role_after, self._election.elected)

    def _become(self, role: Role, elected: Elected) -> None:
        """Change role and epoch; requests of the former role no longer count."""
        before, self._role = self._role, role
        self._is_changing = True
        try:
            self._election.set(elected)
        finally:
            self._is_changing = False
        if before is role:
            return
        self._sending.reset()
        if isinstance(before, Leading):
            changes, self._voter_changes = self._voter_changes, None
            self.log.cease()
            if changes is not None:
                changes.fail(Error.NOT_LEADER_OR_FOLLOWER)
            if self.on_resigned is not None:
                self.on_resigned()
        self._notify()

    def _notify(self) -> None:
        for callback in tuple(self._watchers.values()):
            callback()

    # Leading

    def _advance(self, role: Leading, now_ms: int) -> None:
        """Commit the records that a majority of the present voters has synced."""
        log = self.log
        role.use(log.voters)
        high_watermark = role.advanced(log.synced_offset)
        if high_watermark is None:
            return
        log.commit(high_watermark)
        if self._voter_changes is not None:
            self._voter_changes.committed(high_watermark)
        if self._role is role and not self.is_voter and (log.voters_offset or 0) < high_watermark:
            logger.info("Resigning: this node is no voter any more")
            self._resign(role, now_ms)
        self._notify()

    def _leading(self, epoch: int) -> Leading:
        """Return the role for a request of this epoch. Raises KafkaError, as `Raft.fetched`."""
        if epoch < self._election.elected.epoch:
            raise KafkaError(Error.FENCED_LEADER_EPOCH)
        if epoch > self._election.elected.epoch:
            raise KafkaError(Error.UNKNOWN_LEADER_EPOCH)
        if not isinstance(self._role, Leading):
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        return self._role

    def _leader_change(self, granted: Sequence[int]) -> tuple[int, bytes]:
        # Always version 0: Kafka 4.4 writes no other and cannot read one.
        message = LeaderChangeMessage
        change = message(
            leader_id=self._own.id,
            voters=[message.Voter(voter_id=id) for id in self.voters.ids],
            granting_voters=[message.Voter(voter_id=id) for id in sorted(granted)],
        )
        return ControlType.LEADER_CHANGE, bytes(change.encode(0))

    def _changed_voters(self) -> list[tuple[int, bytes]]:
        """The voters, if the log has none yet or this leader's endpoints have changed."""
        log, own = self.log, self._parts.voter
        stored = self.voters.get(own.id)
        if not log.is_dynamic or stored is None:
            return []
        # A node without a controller listener keeps the endpoints that were written before.
        moved = bool(own.endpoints) and stored != own
        if log.voters_offset != -1 and not moved:
            return []
        voters = self.voters.updating(own) if moved else self.voters
        return quorum_records(
            KRaftVersionRecord(kraft_version=log.kraft_version), voters.to_record()
        )

    def _known_voters(self) -> VoterSet:
        """The voters of a static quorum with their directory ids. Raises KafkaError."""
        found = {**self._reported, self._own.id: self._parts.voter}
        missing = [id for id in self.voters.ids if id not in found]
        if missing:
            raise KafkaError(
                Error.INVALID_UPDATE_VERSION,
                f"The directory ids of the voters {missing} are not known yet",
            )
        return VoterSet.of([found[id] for id in self.voters.ids])

    # Rules

    def _may_grant(self, request: Vote) -> bool:
        """Whether a candidate gets this node's vote (KIP-595) or pre-vote (KIP-996)."""
        role, elected = self._role, self._election.elected
        up_to_date = is_up_to_date(request, self.log.last_epoch, self.log.end_offset)
        if isinstance(role, Leading):
            return False
        if request.pre_vote:
            follows = isinstance(role, Follower) and role.has_fetched and not role.has_failed
            return up_to_date and not follows
        if not self._parts.can_vote or not isinstance(role, Unattached | Nominee):
            return False
        if not elected.may_vote_for(request.candidate):
            return False
        return up_to_date or elected.voted is not None

    def _check_voter_request(self, sender: int, epoch: int) -> None:
        if epoch < self._election.elected.epoch:
            raise KafkaError(Error.FENCED_LEADER_EPOCH)
        if sender < 0:
            raise KafkaError(Error.INVALID_REQUEST)
        self._sending.heard(sender)

    def _check_addressed(self, voter: ReplicaKey) -> None:
        """Raise INVALID_VOTER_KEY for a request that was meant for another directory."""
        if voter.id != NO_NODE and not voter.matches(self._own):
            raise KafkaError(Error.INVALID_VOTER_KEY)

    def _election_timeout(self, now_ms: int) -> int:
        """When an election is due: at random, so that voters seldom begin one together."""
        timeout_ms = self._options.election_timeout_ms
        return now_ms + timeout_ms + self._parts.random.randrange(max(timeout_ms, 1))

    def _lost_at(self, now_ms: int) -> int:
        """When a leader that cannot be connected to any more counts as dead: a killed one."""
        shortest_ms = max(self._options.fetch_timeout_ms // 8, 1)
        return now_ms + shortest_ms + self._parts.random.randrange(shortest_ms)

    def _first_election(self, now_ms: int) -> int:
        """As `_election_timeout`, but at once in a new quorum, where nobody can have a leader.

        If there is a leader after all, its voters refuse the pre-vote of a node without records.
        """
        if self._election.elected.epoch > 0 or self.log.end_offset > 0:
            return self._election_timeout(now_ms)
        return now_ms + self._parts.random.randrange(_FIRST_BACKOFF_MS)

    def _election_backoff_ms(self, retries: int) -> int:
        """How long a candidate waits that has lost: at random, longer after each loss."""
        limit_ms = _FIRST_BACKOFF_MS << min(retries, 20)
        return min(self._parts.random.randrange(limit_ms), self._options.election_backoff_max_ms)

    def _succession_delay_ms(self, preferred: Sequence[ReplicaKey]) -> int:
        """How long to wait before an election when the leader resigns: none for the first."""
        longest_ms = self._options.election_backoff_max_ms
        place = next((at for at, key in enumerate(preferred) if key.matches(self._own)), None)
        if place is None:
            return longest_ms
        if place == 0:
            return 0
        return min(longest_ms, (longest_ms >> (len(preferred) - 1)) << (place - 1))
