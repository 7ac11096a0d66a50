"""One node of a KRaft quorum: a pure state machine over its log, with time as an argument."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import assert_never

from wirekafka.errors import Error, KafkaError
from wirekafka.log.slice import LogSlice
from wirekafka.protocol.records.control import KRaftVersionRecord
from wirekafka.replication.raft.changes import VoterChanges
from wirekafka.replication.raft.leading import Leading, Replica
from wirekafka.replication.raft.messages import (
    AddVoter,
    Answer,
    BeginEpoch,
    ChangeAnswer,
    EndEpoch,
    EpochAnswer,
    FetchAnswer,
    FetchPosition,
    FetchSnapshot,
    Leadership,
    Outgoing,
    RemoveVoter,
    SnapshotAnswer,
    UpdateVoter,
    VersionsAnswer,
    Vote,
    VoteAnswer,
)
from wirekafka.replication.raft.metadata_log import WrongQuorum, quorum_records
from wirekafka.replication.raft.parts import QuorumDescription, ReplicaProgress
from wirekafka.replication.raft.polling import Polling
from wirekafka.replication.raft.roles import Follower, Nominee, Resigned, Unattached
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import Voter
from wirekafka.runtime.promise import Promise

logger = logging.getLogger(__name__)


class Raft(Polling):
    """One node of a quorum: voter or observer, in one of KRaft's states (KIP-595, 853, 996).

    A Raft opens no connection and has no clock. Its driver calls one method for each request
    received, `answered` for each response, and `tick` at `deadline`; afterwards the driver sends
    the requests that `take_outbox` returns. All times are in ms. Before a response is sent,
    `durable` must have returned: epochs and votes are synced off the event loop. Requests that
    depend on them stay out of the outbox until then.
    """

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
            self._become_unattached(Leadership(epoch=request.epoch), now_ms)
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

    def _progress(self, replica: Replica, now_ms: int) -> ReplicaProgress:
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
