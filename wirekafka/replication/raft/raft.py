"""One node of a KRaft quorum: a pure state machine over its log, with time as an argument."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from wirekafka.errors import Error, KafkaError
from wirekafka.log.disk_errors import is_passing
from wirekafka.log.slice import LogSlice
from wirekafka.protocol.records.control import ControlType, KRaftVersionRecord, LeaderChangeMessage
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.replication.raft.changes import VoterChanges
from wirekafka.replication.raft.election import Elected, Election, is_up_to_date
from wirekafka.replication.raft.leading import Leading, QuorumReplica
from wirekafka.replication.raft.messages import (
    NO_NODE,
    AddVoter,
    Answer,
    BeginEpoch,
    ChangeAnswer,
    EndEpoch,
    Endpoints,
    EpochAnswer,
    FetchAnswer,
    FetchPosition,
    FetchSnapshot,
    LeaderAndEpoch,
    Outgoing,
    RemoveVoter,
    ReplicaKey,
    Request,
    SnapshotAnswer,
    SupportedVersions,
    UpdateVoter,
    VersionsAnswer,
    Vote,
    VoteAnswer,
)
from wirekafka.replication.raft.metadata_log import WrongQuorum, quorum_records
from wirekafka.replication.raft.parts import QuorumDescription, RaftParts, ReplicaProgress
from wirekafka.replication.raft.quorum_log import FetchedLog, LogPosition
from wirekafka.replication.raft.roles import (
    Follower,
    Nominee,
    Resigned,
    SnapshotDownload,
    Unattached,
)
from wirekafka.replication.raft.sending import ANY, Sending
from wirekafka.replication.raft.snapshot_file import BadSnapshot, SnapshotId
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.runtime.promise import Promise

logger = logging.getLogger(__name__)

_NEVER = 1 << 62
_SILENCE = (Error.NETWORK_EXCEPTION, Error.REQUEST_TIMED_OUT)
_CHECK_QUORUM_FACTOR = 1.5
_FIRST_BACKOFF_MS = 50

Role = Unattached | Nominee | Follower | Leading | Resigned


class Raft:
    """One node of a quorum: voter or observer, in one of KRaft's states (KIP-595, 853, 996).

    A Raft opens no connection and has no clock. Its driver calls one method for each request
    received, `answered` for each response, and `tick` at `deadline`; afterwards the driver sends
    the requests that `take_outbox` returns. All times are in ms. Before a response is sent,
    `durable` must have returned: epochs and votes are synced off the event loop. Requests that
    depend on them stay out of the outbox until then.
    """

    def __init__(self, parts: RaftParts):
        self.log = parts.log
        """The metadata log: the same object in every role."""
        self.on_leader: Callable[[int], None] | None = None
        """Called with the epoch when this node has become leader and accepts appends."""
        self.on_resigned: Callable[[], None] | None = None
        """Called when this node, the leader so far, is so no longer; appends are refused."""
        self.on_leader_changed: Callable[[LeaderAndEpoch], None] | None = None
        """Called with each new epoch, and when its leader becomes known."""
        self.on_output: Callable[[], None] | None = None
        """Called when the outbox or the deadline may have changed."""
        self._parts = parts
        self._options = parts.options
        self._own = parts.voter.key
        self._election = Election(parts.log)
        self._sending = Sending(parts.options.request_timeout_ms, parts.options.retry_backoff_ms)
        self._role: Role = Unattached(0)
        self._leader = LeaderAndEpoch()
        self._is_stopping = self._is_changing = False
        self._voter_changes: VoterChanges | None = None
        # What the voters of a static quorum report of themselves, by id.
        self._reported: dict[int, Voter] = {}
        self._watchers: dict[object, Callable[[], None]] = {}
        self._deadline: int | None = None
        self._is_started = False
        self._is_polling = self._has_changed = False
        self._reported_leader = LeaderAndEpoch()
        self._not_installed: BaseException | None = None
        self._election.on_durable = self._log_changed

    def listen(self, endpoints: Endpoints) -> None:
        """Set this node's controller listeners; call it before `start`."""
        self._parts = replace(self._parts, voter=replace(self._parts.voter, endpoints=endpoints))

    @property
    def leadership(self) -> LeaderAndEpoch:
        """The newest epoch, its leader and all its listeners, as every response reports them."""
        elected = self._election.elected
        leader = elected.leader_id
        if leader == NO_LEADER:
            return LeaderAndEpoch(epoch=elected.epoch)
        if leader == self._own.id:
            return LeaderAndEpoch(leader, elected.epoch, self._parts.voter.endpoints)
        known = self._leader.endpoints if self._leader.leader_id == leader else ()
        voter = self.voters.get(leader)
        return LeaderAndEpoch(leader, elected.epoch, known or (voter.endpoints if voter else ()))

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
    def is_established(self) -> bool:
        """Whether this node leads, and all that earlier leaders have committed is committed here.

        Before the first record of its epoch is committed, a leader does not know how far they were.
        """
        return isinstance(self._role, Leading) and self._role.high_watermark is not None

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

    def load(self) -> None:
        """Read the quorum state, and the voters in the snapshot and the log; write nothing.

        Raises `BadQuorumState`, `BadSnapshot`, `WrongQuorum`.
        """
        self.log.note_voters()
        self._election.load()

    def check_alone(self) -> None:
        """Raise `WrongQuorum` if there are other voters than this node; call it after `load`."""
        state = self.log.read_state()
        ids = self.log.voters.ids
        if not self.log.is_dynamic and state is not None and state.voters:
            ids = state.voters
        if ids not in ((), (self._own.id,)):
            raise WrongQuorum(
                f"{self.log.directory} belongs to a quorum of controllers {list(ids)}; "
                f"node {self._own.id} cannot lead it alone"
            )

    def start(self, now_ms: int) -> None:
        """Take up the state that was stored; the only voter becomes leader before this returns."""
        elected, voters = self._election.elected, self.voters
        if voters.is_only(self._own):
            self._role = Unattached(now_ms)
        elif elected.leader_id == self._own.id:
            # Not a leader any more: records that it had not synced may be lost, and others must
            # not take their offsets in the same epoch.
            others = {id for id in voters.ids if id != self._own.id}
            self._role = Resigned(self._election_timeout(now_ms), others)
        else:
            self._role = Unattached(self._first_election(now_ms))
            self._follow_if_possible(self.leadership, now_ms)
        self._is_started = True
        self.log.on_append = self._log_changed
        if self._parts.can_vote:
            self.log.sync()
        self._poll(now_ms)

    def resign(self, now_ms: int) -> None:
        """Begin a clean stop: a leader refuses appends, and proposes successors (EndQuorumEpoch).

        The requests are in the outbox; the node takes part in no election any more.
        """
        self._is_stopping = True
        self._sending.silent.clear()  # Only what is sent from now on shows who can succeed it.
        if isinstance(self._role, Leading):
            self._resign(self._role, now_ms)
        self._poll(now_ms)

    def deadline(self) -> int | None:
        """When `tick` has to be called next, in ms; None: not before something else happens."""
        return self._deadline if self._not_installed is None else 0

    def tick(self, now_ms: int) -> None:
        """Take the due actions: elections, announcements, resignation without a majority, fetches.

        Raises the error of a snapshot that could not be installed, after which the node must stop:
        OSError, KafkaError, UnusableDirectory.
        """
        if self._not_installed is not None:
            raise self._not_installed
        self._poll(now_ms)

    def take_outbox(self) -> list[Outgoing]:
        """Return the requests to send now, and forget them."""
        return self._sending.take() if self._election.is_durable else []

    async def durable(self) -> None:
        """Return once the present epoch and vote are synced; does not suspend if they are.

        Raises KafkaError(KAFKA_STORAGE_ERROR) if that has failed.
        """
        promise: Promise[None] = Promise()
        self._election.when_durable(promise.set)
        await promise

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back once the present epoch and vote are synced; never if that fails."""
        self._election.when_durable(lambda error: callback() if error is None else None)

    def vote(self, request: Vote, now_ms: int) -> VoteAnswer:
        """Vote, or refuse to.

        Raises KafkaError: FENCED_LEADER_EPOCH, INVALID_VOTER_KEY, INVALID_REQUEST. The response
        to a request that is refused reports `leadership` too, here and below.
        """
        newest = request.epoch if request.pre_vote else request.epoch - 1
        if request.end_offset < 0 or not 0 <= request.last_epoch <= newest:
            raise KafkaError(Error.INVALID_REQUEST)
        self._check_voter_request(request.candidate.id, request.epoch)
        if request.epoch > self._election.elected.epoch:
            self._become_unattached(LeaderAndEpoch(epoch=request.epoch), now_ms)
            self._poll(now_ms)
        self._check_addressed(request.voter)
        granted = self._may_grant(request)
        if granted and not request.pre_vote:
            self._vote_for(request.candidate, now_ms)
        self._poll(now_ms)
        logger.info(
            "%s for %d in epoch %d, with a log of epoch %d up to %d: %s",
            "Pre-vote" if request.pre_vote else "Vote",
            request.candidate.id,
            request.epoch,
            request.last_epoch,
            request.end_offset,
            "granted" if granted else "refused",
        )
        return VoteAnswer(leadership=self.leadership, granted=granted)

    def begin_epoch(self, request: BeginEpoch, now_ms: int) -> EpochAnswer:
        """Follow a leader that announces itself. Raises as `vote`."""
        leadership = request.leadership
        self._check_voter_request(leadership.leader_id, leadership.epoch)
        self._learn(leadership, now_ms)
        self._poll(now_ms)
        self._check_addressed(request.voter)
        return EpochAnswer(leadership=self.leadership)

    def end_epoch(self, request: EndEpoch, now_ms: int) -> EpochAnswer:
        """Start an election soon, sooner the nearer to the front this node is. Raises as `vote`."""
        leadership = request.leadership
        self._check_voter_request(leadership.leader_id, leadership.epoch)
        self._learn(leadership, now_ms)
        role = self._role
        if isinstance(role, Follower) and role.leader.id == leadership.leader_id:
            role.fetch_by_ms = now_ms + self._succession_delay_ms(request.preferred)
            # It has said itself that it no longer leads: others may be voted for.
            role.has_fetched = False
        self._poll(now_ms)
        return EpochAnswer(leadership=self.leadership)

    def fetched(self, position: FetchPosition, max_bytes: int, now_ms: int) -> FetchAnswer:
        """Serve a Fetch, and note how far the replica is, which may commit records.

        Replicas get records up to the end of the log, consumers (id -1) up to the high watermark.
        A response without anything new may be delayed: see `watch`, and call this again.
        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
        OFFSET_OUT_OF_RANGE.
        """
        role = self._leading(position.leader_epoch)
        log, offset, epoch = self.log, position.offset, position.last_fetched_epoch
        newest = log.newest_snapshot()
        if newest is not None and (offset == 0 or not log.is_covered(offset, epoch)):
            return self._fetch_answer(role, snapshot=newest)
        diverging = log.diverging(offset, epoch)
        if diverging is not None:
            return self._fetch_answer(role, diverging=diverging)
        end_offset = log.end_offset
        if position.replica.id < 0:
            end_offset = role.high_watermark or 0
        else:
            self._sending.heard(position.replica.id)
            role.fetched(position.replica, offset, end_offset, now_ms)
            self._advance(role, now_ms)
            self._poll(now_ms)
        if not self._election.is_durable or self._role is not role or offset >= end_offset:
            # After a restart in this epoch its records must not differ from those sent before.
            return self._fetch_answer(role)
        return self._fetch_answer(role, records=log.read(offset, max_bytes, end_offset))

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back at each append, rise of the high watermark and change of the leader.

        Returns a function that ends it. The callback must not call into this object.
        """
        key = object()
        self._watchers[key] = callback

        def end() -> None:
            self._watchers.pop(key, None)

        return end

    def fetched_snapshot(
        self, request: FetchSnapshot, max_bytes: int, now_ms: int
    ) -> SnapshotAnswer:
        """Serve a part of a snapshot.

        Raises KafkaError: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, and as `fetched`.
        """
        role = self._leading(request.leader_epoch)
        if request.replica.id >= 0:
            role.heard(request.replica, now_ms)
        size_bytes, data = self.log.read_snapshot(request.snapshot, request.position, max_bytes)
        self._poll(now_ms)
        return SnapshotAnswer(
            leadership=self.leadership, size_bytes=size_bytes, position=request.position, data=data
        )

    def add_voter(self, request: AddVoter, now_ms: int) -> Promise[None]:
        """Add a voter; the promise holds None once that is committed, or the KafkaError.

        Raises KafkaError if it is refused at once: NOT_LEADER_OR_FOLLOWER, DUPLICATE_VOTER,
        UNSUPPORTED_VERSION, REQUEST_TIMED_OUT (another change is in progress), INVALID_REQUEST.
        """
        return self._changed(self._changes().add(request, self._sending, now_ms), now_ms)

    def remove_voter(self, request: RemoveVoter, now_ms: int) -> Promise[None]:
        """Remove a voter, as `add_voter`; VOTER_NOT_FOUND. A leader that is removed resigns."""
        return self._changed(self._changes().remove(request, now_ms), now_ms)

    def update_voter(self, request: UpdateVoter, now_ms: int) -> Promise[None]:
        """Change a voter's endpoints or versions, as `add_voter`; VOTER_NOT_FOUND.

        In a static quorum nothing is written: the leader remembers them for `keep_voters`.
        """
        self._leading(request.leader_epoch)
        if self.log.is_dynamic:
            return self._changed(self._changes().update(request, now_ms), now_ms)
        key = request.voter
        if not self.voters.contains(key):
            raise KafkaError(Error.VOTER_NOT_FOUND)
        self._reported[key.id] = Voter(
            key.id, key.directory_id, request.endpoints, request.versions
        )
        done: Promise[None] = Promise()
        done.set(None)
        return done

    def keep_voters(self, now_ms: int) -> int:
        """Write the voters to the log, irreversibly (kraft.version 1); returns the end offset.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER; INVALID_UPDATE_VERSION while the directory ids
        of some voters are not known.
        """
        self._changes()
        if not self.log.is_dynamic:
            voters = self._known_voters().to_record()
            version = KRaftVersionRecord(kraft_version=1)
            self.log.append_control(quorum_records(version, voters))
        self._poll(now_ms)
        return self.log.end_offset

    def describe(self, now_ms: int) -> QuorumDescription:
        """Describe the quorum. Raises KafkaError(NOT_LEADER_OR_FOLLOWER)."""
        role = self._leading(self._election.elected.epoch)
        voters, observers = role.listed(now_ms)
        return QuorumDescription(
            leadership=self.leadership,
            high_watermark=-1 if role.high_watermark is None else role.high_watermark,
            voters=tuple(self._progress(each, now_ms) for each in voters),
            observers=tuple(self._progress(each, now_ms) for each in observers),
        )

    def answered(self, outgoing: Outgoing, answer: Answer | KafkaError, now_ms: int) -> None:
        """Process the response to a request; a KafkaError says why there is none.

        Raises `DivergedMetadata`, `UnreadableMetadata` and `UnknownMetadata`, after which the
        node must stop; KafkaError(KAFKA_STORAGE_ERROR), OSError.
        """
        if not self._sending.answered(outgoing):
            return
        if isinstance(answer, KafkaError):
            self._failed(outgoing, answer, now_ms)
            self._poll(now_ms)
            return
        if outgoing.to is not None:
            self._sending.heard(outgoing.to.id)
        if isinstance(answer, VersionsAnswer):
            if self._voter_changes is not None:
                self._voter_changes.answered(answer, now_ms)
        elif self._learned(outgoing, answer, now_ms):
            self._process(outgoing, answer, now_ms)
        self._poll(now_ms)

    def _process(
        self,
        outgoing: Outgoing,
        answer: VoteAnswer | EpochAnswer | FetchAnswer | SnapshotAnswer | ChangeAnswer,
        now_ms: int,
    ) -> None:
        """Process the response of a node that agrees on the epoch and its leader."""
        role, request = self._role, outgoing.request
        if answer.error:
            self._refused(outgoing, answer.error, now_ms)
            return
        match answer:
            case VoteAnswer():
                assert isinstance(request, Vote)
                if isinstance(role, Nominee) and role.is_pre_vote == request.pre_vote:
                    voters = role.granted if answer.granted else role.refused
                    voters.add(request.voter.id)
            case EpochAnswer():
                assert outgoing.to is not None
                if isinstance(role, Resigned):
                    role.unacknowledged.discard(outgoing.to.id)
                elif isinstance(role, Leading):
                    role.pending.discard(outgoing.to.id)
            case FetchAnswer():
                assert isinstance(request, FetchPosition)
                if isinstance(role, Follower):
                    self._take(role, outgoing, answer, now_ms)
                else:
                    # It leads, but its address is not known: do not ask on without a pause.
                    self._sending.back_off(outgoing, now_ms)
            case SnapshotAnswer():
                if isinstance(role, Follower):
                    self._take_part(role, outgoing, answer, now_ms)
            case ChangeAnswer():
                pass
            case _:
                assert_never(answer)

    def _refused(self, outgoing: Outgoing, error: Error, now_ms: int) -> None:
        self._sending.back_off(outgoing, now_ms)
        role, request = self._role, outgoing.request
        if isinstance(role, Follower) and isinstance(request, FetchSnapshot):
            # The leader may have a newer one.
            role.download = None
        if isinstance(request, Vote) and error is Error.UNSUPPORTED_VERSION:
            self._failed(outgoing, KafkaError(error), now_ms)
        logger.info("%s was refused: %s", request, error.name)

    def _progress(self, replica: QuorumReplica, now_ms: int) -> ReplicaProgress:
        is_own = replica.key.id == self._own.id
        return ReplicaProgress(
            key=replica.key,
            log_end_offset=self.log.end_offset if is_own else replica.end_offset,
            last_fetch_ms=now_ms if is_own else replica.last_fetch_ms,
            last_caught_up_ms=now_ms if is_own else replica.last_caught_up_ms,
        )

    def _fetch_answer(
        self,
        role: Leading,
        *,
        records: LogSlice | bytes = b"",
        diverging: tuple[int, int] | None = None,
        snapshot: SnapshotId | None = None,
    ) -> FetchAnswer:
        return FetchAnswer(
            leadership=self.leadership,
            # A new leader does not know yet what its predecessor has committed last.
            high_watermark=-1 if role.high_watermark is None else role.high_watermark,
            log_start_offset=self.log.start_offset,
            records=records,
            diverging=diverging,
            snapshot=snapshot,
        )

    def _changes(self) -> VoterChanges:
        self._leading(self._election.elected.epoch)
        assert self._voter_changes is not None
        return self._voter_changes

    def _changed(self, promise: Promise[None], now_ms: int) -> Promise[None]:
        self._poll(now_ms)
        return promise

    def _log_changed(self) -> None:
        """Go on after an append, a sync, or a write of the quorum state."""
        if self._is_changing:
            return
        now_ms = self.log.now_ms()
        if isinstance(self._role, Leading):
            self._advance(self._role, now_ms)
            self._notify()
        self._poll(now_ms)

    def _poll(self, now_ms: int) -> None:
        """Take the due actions of the present role, and of each role that follows from them."""
        self._has_changed = True
        if self._is_polling or not self._is_started:
            return
        self._is_polling = True
        try:
            while self._has_changed:
                self._has_changed = False
                role = self._role
                due_ms = self._poll_role(now_ms)
                self._has_changed = self._has_changed or self._role is not role
        finally:
            self._is_polling = False
        self._deadline = due_ms if due_ms < _NEVER else None
        leadership = self.leadership
        if leadership[:2] != self._reported_leader[:2]:
            self._reported_leader = leadership
            if self.on_leader_changed is not None:
                self.on_leader_changed(leadership)
        if self.on_output is not None:
            self.on_output()

    def _poll_role(self, now_ms: int) -> int:
        """Take the due actions of the present role; returns when the next action is due."""
        role = self._role
        match role:
            case Unattached():
                return self._poll_unattached(role, now_ms)
            case Nominee():
                return self._poll_nominee(role, now_ms)
            case Follower():
                return self._poll_follower(role, now_ms)
            case Leading():
                return self._poll_leading(role, now_ms)
            case Resigned():
                return self._poll_resigned(role, now_ms)
            case _:
                assert_never(role)

    def _poll_unattached(self, role: Unattached, now_ms: int) -> int:
        due_ms = _NEVER
        if not self._is_stopping:
            if self.is_voter:
                due_ms = role.election_at_ms
            elif self._may_be_needed():
                # The voters go first: they need no help if they have the record.
                due_ms = role.election_at_ms + 2 * self._options.election_timeout_ms
            if now_ms >= due_ms:
                self._become_prospective(0, now_ms)
                return now_ms
        return min(due_ms, self._fetch_anywhere(now_ms))

    def _may_be_needed(self) -> bool:
        """Whether this node was a voter until a record that perhaps no other node has.

        A leader of two voters that removes itself, and ends before the other voter has fetched the
        removal, would block both: the other voter needs its vote, but has a shorter log. So the
        removed leader leads once more, as in Raft's membership changes (section 4.2.2 of Ongaro's
        thesis).
        """
        before = self.log.voters_before
        return self._parts.can_vote and before is not None and before.contains(self._own)

    def _poll_nominee(self, role: Nominee, now_ms: int) -> int:
        voters = self.voters
        if role.has_won(voters):
            if role.is_pre_vote:
                self._become_candidate(role.retries, now_ms)
            else:
                self._become_leader(sorted(role.granted), now_ms)
            return now_ms
        if role.is_pre_vote:
            if now_ms >= role.expires_at_ms or role.has_lost(voters) or self._is_stopping:
                has_expired = now_ms >= role.expires_at_ms
                due = self._first_election if has_expired else self._election_timeout
                unattached = Unattached(due(now_ms))
                self._become(unattached, self._election.elected)
                self._follow_if_possible(self.leadership, now_ms)
                return now_ms
        elif role.backed_off_ms is None and (now_ms >= role.expires_at_ms or role.has_lost(voters)):
            role.backed_off_ms = now_ms + self._election_backoff_ms(role.retries)
        if role.backed_off_ms is not None:
            if now_ms >= role.backed_off_ms and not self._is_stopping:
                self._become_prospective(role.retries, now_ms)
                return now_ms
            return role.backed_off_ms if not self._is_stopping else _NEVER
        return min(role.expires_at_ms, self._ask_for_votes(role, now_ms))

    def _ask_for_votes(self, role: Nominee, now_ms: int) -> int:
        log = self.log
        if not self._is_synced():
            # The end of the log in the request must not be lost in a crash.
            return _NEVER
        due_ms = _NEVER
        for id in role.undecided(self.voters):
            voter = self.voters.get(id)
            assert voter is not None
            request = Vote(
                voter=voter.key,
                candidate=self._own,
                epoch=self._election.elected.epoch,
                last_epoch=log.last_epoch,
                end_offset=log.end_offset,
                pre_vote=role.is_pre_vote,
            )
            due_ms = min(due_ms, self._send_to_voter(voter, request, now_ms))
        return due_ms

    def _poll_leading(self, role: Leading, now_ms: int) -> int:
        changes = self._voter_changes
        assert changes is not None
        changes.expire(now_ms)
        check_at_ms = role.check_at_ms
        has_failed = self.log.failure is not None and len(self.voters) > 1
        if has_failed or (check_at_ms is not None and now_ms >= check_at_ms):
            logger.info("Resigning: no majority follows" if not has_failed else "Disk failed")
            self._is_stopping = self._is_stopping or has_failed
            self._resign(role, now_ms)
            return now_ms
        if now_ms >= role.announce_at_ms:
            role.announce_at_ms = now_ms + self._announce_ms
            role.pending |= {each.key.id for each in role.to_announce(now_ms, self._announce_ms)}
        due_ms = min(_or_never(check_at_ms), role.announce_at_ms, _or_never(changes.expires_at_ms))
        for id in sorted(role.pending):
            voter = self.voters.get(id)
            if voter is None:
                role.pending.discard(id)
                continue
            request = BeginEpoch(voter=voter.key, leadership=self.leadership)
            due_ms = min(due_ms, self._send_to_voter(voter, request, now_ms))
        return due_ms

    @property
    def _announce_ms(self) -> int:
        """The interval in ms at which a leader announces itself, or its resignation, to voters."""
        return max(self._options.fetch_timeout_ms // 2, 1)

    def _poll_resigned(self, role: Resigned, now_ms: int) -> int:
        due_ms = _NEVER
        if not self._is_stopping:
            if now_ms >= role.until_ms:
                # In this epoch others may still take this node for the leader.
                epoch = self._election.elected.epoch + 1
                self._become_unattached(LeaderAndEpoch(epoch=epoch), now_ms)
                return now_ms
            due_ms = role.until_ms
        else:
            # The others may stop as well, after they have acknowledged it.
            if now_ms >= role.repeat_at_ms:
                role.repeat_at_ms = now_ms + self._announce_ms
                role.unacknowledged |= {id for id in self.voters.ids if id != self._own.id}
            due_ms = role.repeat_at_ms
        for id in sorted(role.unacknowledged):
            voter = self.voters.get(id)
            if voter is not None:
                request = EndEpoch(leadership=self.leadership, preferred=tuple(role.preferred))
                due_ms = min(due_ms, self._send_to_voter(voter, request, now_ms))
        return due_ms

    def _poll_follower(self, role: Follower, now_ms: int) -> int:
        is_late = now_ms >= role.fetch_by_ms
        due_ms = _NEVER
        if self.is_voter and not self._is_stopping:
            due_ms = min(role.fetch_by_ms, _or_never(role.lost_at_ms))
            if now_ms >= due_ms:
                logger.info("The leader %d has not answered in time", role.leader.id)
                self._become_prospective(0, now_ms)
                return now_ms
        elif is_late or role.has_failed:
            # Others may count it as a voter already: it must not refuse them for a failed leader.
            role.has_fetched = role.has_fetched and not is_late
            due_ms = self._fetch_anywhere(now_ms)
        if not self._sending.is_free(role.leader.id, now_ms):
            return min(due_ms, _or_never(self._sending.free_at(role.leader.id)))
        request = self._due_update(role, now_ms) or self._next_fetch(role)
        if request is not None:
            self._sending.send(request, role.leader, role.endpoint)
        return due_ms

    # Sending

    def _is_synced(self) -> bool:
        """Whether the whole log is on the medium; if not, begin a sync, which polls at its end."""
        if self.log.synced_offset < self.log.end_offset:
            self.log.sync()
        return self.log.synced_offset == self.log.end_offset

    def _send_to_voter(self, voter: Voter, request: Request, now_ms: int) -> int:
        """Send to a voter if it is free; returns when it will be free, if known."""
        endpoint = voter.endpoint(self._parts.listener)
        if endpoint is None:
            return _NEVER
        if self._sending.is_free(voter.id, now_ms):
            self._sending.send(request, voter.key, endpoint)
        return _or_never(self._sending.free_at(voter.id))

    def _fetch_anywhere(self, now_ms: int) -> int:
        """Fetch from any node: a node that does not lead responds with the leader that it knows."""
        if self.voters.is_only(self._own):
            return _NEVER
        if not self._sending.is_free(ANY, now_ms):
            return _or_never(self._sending.free_at(ANY))
        position = self._position()
        if position is not None:
            self._sending.send(position)
        return _NEVER

    def _next_fetch(self, role: Follower) -> FetchPosition | FetchSnapshot | None:
        if self.log.is_installing:
            return None
        if role.download is None:
            return self._position()
        return FetchSnapshot(
            replica=self._own,
            leader_epoch=self._election.elected.epoch,
            snapshot=role.download.id,
            position=len(role.download.data),
        )

    def _position(self) -> FetchPosition | None:
        """The next Fetch; None until the log is synced, since the Fetch's offset promises that."""
        if self._parts.can_vote and not self._is_synced():
            return None
        position = self.log.position
        return FetchPosition(
            replica=self._own,
            leader_epoch=self._election.elected.epoch,
            offset=position.offset,
            last_fetched_epoch=position.last_fetched_epoch,
            high_watermark=position.high_watermark,
        )

    def _due_update(self, role: Follower, now_ms: int) -> Request | None:
        """The request that updates this node's entry in the voter set; None if no update is due."""
        if now_ms < role.update_at_ms or not self._parts.can_vote:
            return None
        own = self._parts.voter
        role.update_at_ms = now_ms + self._options.fetch_timeout_ms
        if not own.endpoints:
            return None
        stored = self.voters.get(own.id)
        if self.is_voter:
            if not self.log.is_dynamic:
                # The leader of a static quorum has to know the directory ids to write them.
                role.update_at_ms = _NEVER
            elif stored == own:
                return None
            return UpdateVoter(
                voter=self._own,
                leader_epoch=self._election.elected.epoch,
                endpoints=own.endpoints,
                versions=own.versions,
            )
        if not self._options.auto_join or not self.log.is_dynamic:
            return None
        if stored is not None:
            return RemoveVoter(voter=stored.key)
        return AddVoter(voter=self._own, endpoints=own.endpoints, ack_when_committed=False)

    # Responses

    def _learned(self, outgoing: Outgoing, answer: Answer, now_ms: int) -> bool:
        """Take up the leadership in a response; False if nothing else remains to be done."""
        assert not isinstance(answer, VersionsAnswer)
        epoch, error = answer.leadership.epoch, answer.error
        if error:
            self._sending.back_off(outgoing, now_ms)
        own_epoch = self._election.elected.epoch
        is_stale = epoch < own_epoch or error is Error.UNKNOWN_LEADER_EPOCH
        if is_stale and not (error and epoch < 0):
            return False
        if epoch >= own_epoch:
            self._learn(answer.leadership, now_ms)
        return epoch <= own_epoch and error not in (
            Error.FENCED_LEADER_EPOCH,
            Error.NOT_LEADER_OR_FOLLOWER,
        )

    def _failed(self, outgoing: Outgoing, error: KafkaError, now_ms: int) -> None:
        """Process that there is no response."""
        self._sending.back_off(outgoing, now_ms)
        if error.error in _SILENCE:
            self._sending.lost(outgoing)
        role, request = self._role, outgoing.request
        if isinstance(request, SupportedVersions) and self._voter_changes is not None:
            self._voter_changes.answered(error, now_ms)
        if isinstance(role, Follower) and outgoing.to is not None:
            role.has_failed = True
            if error.error is Error.NETWORK_EXCEPTION and role.lost_at_ms is None:
                role.lost_at_ms = self._lost_at(now_ms)
        if (
            error.error is Error.UNSUPPORTED_VERSION
            and isinstance(role, Nominee)
            and role.is_pre_vote
        ):
            # A voter of an older release knows no pre-vote (KIP-996).
            self._become_candidate(role.retries, now_ms)

    def _take(self, role: Follower, outgoing: Outgoing, answer: FetchAnswer, now_ms: int) -> None:
        """Append the leader's records, or truncate or begin a snapshot if the response says so.

        Raises as `Raft.answered`.
        """
        request = outgoing.request
        assert isinstance(request, FetchPosition)
        if request.leader_epoch != self._election.elected.epoch:
            return
        role.fetch_by_ms = now_ms + self._options.fetch_timeout_ms
        role.has_fetched, role.has_failed, role.lost_at_ms = True, False, None
        if answer.snapshot is not None:
            logger.info("Fetching the metadata snapshot %s", answer.snapshot.file_name)
            role.download = SnapshotDownload(answer.snapshot)
            return
        asked = LogPosition(
            request.leader_epoch, request.offset, request.last_fetched_epoch, request.high_watermark
        )
        assert isinstance(answer.records, bytes | bytearray | memoryview)
        fetched = FetchedLog(
            asked=asked,
            high_watermark=answer.high_watermark,
            records=answer.records,
            diverging=answer.diverging,
        )
        try:
            self.log.take(fetched)
        except KafkaError as error:
            if error.error is Error.KAFKA_STORAGE_ERROR and not is_passing(error):
                raise
            logger.warning("The leader's response cannot be appended: %s", error)
            self._sending.back_off(outgoing, now_ms)
        self._notify()

    def _take_part(
        self, role: Follower, outgoing: Outgoing, answer: SnapshotAnswer, now_ms: int
    ) -> None:
        """Collect a part of a snapshot, and install it when it is complete."""
        download, request = role.download, outgoing.request
        if download is None or not isinstance(request, FetchSnapshot):
            return
        if (request.snapshot, answer.position) != (download.id, len(download.data)):
            return
        role.fetch_by_ms = now_ms + self._options.fetch_timeout_ms
        role.has_failed, role.lost_at_ms = False, None
        download.data += answer.data
        if len(download.data) < answer.size_bytes and len(answer.data):
            return
        done = partial(self._snapshot_installed, role, outgoing)
        self.log.install(download.id, bytes(download.data), done)

    def _snapshot_installed(
        self, role: Follower, outgoing: Outgoing, error: BaseException | None
    ) -> None:
        """Fetch on after a snapshot; after a broken one, ask again."""
        now_ms = self.log.now_ms()
        role.download = None
        role.fetch_by_ms = now_ms + self._options.fetch_timeout_ms
        if isinstance(error, BadSnapshot):
            logger.warning("The leader's snapshot is broken: %s", error)
            self._sending.back_off(outgoing, now_ms)
        elif is_passing(error):
            logger.warning("The leader's snapshot cannot be written; it is retried: %s", error)
            self._sending.back_off(outgoing, now_ms)
        elif error is not None:
            self._not_installed = error
        self._notify()
        self._poll(now_ms)

    def _learn(self, leadership: LeaderAndEpoch, now_ms: int) -> None:
        """Take up an epoch or a leader that another node reports, if it is newer than known."""
        elected = self._election.elected
        leader, epoch, _ = leadership
        if epoch < elected.epoch:
            return
        if epoch > elected.epoch:
            self._become_unattached(LeaderAndEpoch(epoch=epoch), now_ms)
            elected = self._election.elected
        if leader == NO_LEADER:
            return
        if elected.has_leader and elected.leader_id != leader:
            logger.error("Epoch %d has two leaders: %d and %d", epoch, elected.leader_id, leader)
            return
        is_leaderless = isinstance(self._role, Nominee) and not elected.has_leader
        if is_leaderless or isinstance(self._role, Unattached):
            self._follow_if_possible(leadership, now_ms)

    def _follow_if_possible(self, leadership: LeaderAndEpoch, now_ms: int) -> None:
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

    def _become_unattached(self, leadership: LeaderAndEpoch, now_ms: int) -> None:
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


def _or_never(due_ms: int | None) -> int:
    return _NEVER if due_ms is None else due_ms
