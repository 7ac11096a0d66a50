"""The actions of a node in each of its roles: requests, timeouts, fetching."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import assert_never

from wirekafka.errors import Error, KafkaError
from wirekafka.log.disk_errors import is_passing
from wirekafka.replication.raft.fetched import Fetched, Position
from wirekafka.replication.raft.leading import Leading
from wirekafka.replication.raft.messages import (
    AddVoter,
    Answer,
    BeginEpoch,
    EndEpoch,
    FetchAnswer,
    FetchPosition,
    FetchSnapshot,
    Leadership,
    Outgoing,
    RemoveVoter,
    Request,
    SnapshotAnswer,
    SupportedVersions,
    UpdateVoter,
    VersionsAnswer,
    Vote,
)
from wirekafka.replication.raft.parts import RaftParts
from wirekafka.replication.raft.roles import Download, Follower, Nominee, Resigned, Unattached
from wirekafka.replication.raft.sending import ANY
from wirekafka.replication.raft.snapshot_file import BadSnapshot
from wirekafka.replication.raft.transitions import Transitions
from wirekafka.replication.raft.voter_set import Voter

logger = logging.getLogger(__name__)

_NEVER = 1 << 62
_SILENCE = (Error.NETWORK_EXCEPTION, Error.REQUEST_TIMED_OUT)


class Polling(Transitions):
    """Runs a node's role: takes the due actions after each event, and sets the next deadline."""

    def __init__(self, parts: RaftParts):
        super().__init__(parts)
        self.on_output: Callable[[], None] | None = None
        """Called when the outbox or the deadline may have changed."""
        self._deadline: int | None = None
        self._is_started = False
        self._is_polling = self._has_changed = False
        self._reported_leader = Leadership()
        self._not_installed: BaseException | None = None
        self._election.on_durable = self._log_changed

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
                self._become_unattached(Leadership(epoch=epoch), now_ms)
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
            role.download = Download(answer.snapshot)
            return
        asked = Position(
            request.leader_epoch, request.offset, request.last_fetched_epoch, request.high_watermark
        )
        assert isinstance(answer.records, bytes | bytearray | memoryview)
        fetched = Fetched(
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


def _or_never(due_ms: int | None) -> int:
    return _NEVER if due_ms is None else due_ms
