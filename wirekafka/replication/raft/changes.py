"""Changes of the voter set: one at a time, each committed before the next (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wirekafka.errors import DEFAULT_MESSAGES, Error, KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.protocol.records.control import ControlType
from wirekafka.replication.raft.leading import Leading
from wirekafka.replication.raft.messages import (
    NO_DIRECTORY,
    AddVoter,
    Endpoints,
    RemoveVoter,
    ReplicaKey,
    SupportedVersions,
    UpdateVoter,
    VersionRange,
    VersionsAnswer,
)
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.sending import Sending
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.runtime.promise import Promise


@dataclass(slots=True)
class _Change:
    """The change in progress; `end_offset` is the end of its record once that is appended."""

    expires_at_ms: int
    adding: AddVoter | None = None
    end_offset: int | None = None
    promise: Promise[None] = field(default_factory=Promise)


class VoterChanges:
    """Adds, removes and updates voters for the leader of one epoch."""

    def __init__(self, log: QuorumLog, leading: Leading, listener: str, timeout_ms: int):
        self._log = log
        self._leading = leading
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._change: _Change | None = None

    @property
    def expires_at_ms(self) -> int | None:
        """When the change in progress fails; None if there is none."""
        return self._change.expires_at_ms if self._change is not None else None

    def add(self, request: AddVoter, sending: Sending, now_ms: int) -> Promise[None]:
        """Begin to add a voter, by requesting the versions that it supports; see `Raft`."""
        voters = self._check_ready("adding", now_ms)
        if request.voter.id in voters.ids:
            raise KafkaError(
                Error.DUPLICATE_VOTER,
                f"The voter id for {_named(request.voter)} is already part of the set of voters "
                f"{_all_named(voters)}.",
            )
        voter = Voter(request.voter.id, request.voter.directory_id, request.endpoints)
        endpoint = voter.endpoint(self._listener)
        if endpoint is None:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"Add voter request didn't include the endpoint ({_shown(request.endpoints)}) for "
                f"the default listener ListenerName({self._listener})",
            )
        if not sending.is_free(voter.id, now_ms):
            raise KafkaError(
                Error.REQUEST_TIMED_OUT,
                f"New voter {_named(request.voter)} is not ready to receive requests",
            )
        self._change = _Change(now_ms + self._timeout_ms, adding=request)
        sending.send(SupportedVersions(), request.voter, endpoint)
        return self._change.promise

    def remove(self, request: RemoveVoter, now_ms: int) -> Promise[None]:
        """Append the voter set without a voter; see `Raft`."""
        voters = self._check_ready("removing", now_ms)
        if voters.get(request.voter.id) is None or not voters.contains(request.voter):
            raise KafkaError(
                Error.VOTER_NOT_FOUND,
                f"Cannot remove voter {_named(request.voter)} from the set of voters "
                f"{_all_named(voters)}",
            )
        if len(voters) == 1:
            # Without a voter no record would ever be committed again.
            raise KafkaError(Error.INVALID_REQUEST, "The only voter cannot be removed")
        change = self._change = _Change(now_ms + self._timeout_ms)
        self._append(change, voters.removing(request.voter))
        return change.promise

    def update(self, request: UpdateVoter, now_ms: int) -> Promise[None]:
        """Append the voter set with other endpoints of a voter; see `Raft`."""
        voters = self._check_ready("updating", now_ms)
        if not _supports(request.versions, self._log.kraft_version):
            raise KafkaError(Error.INVALID_REQUEST)
        key = request.voter
        voter = Voter(key.id, key.directory_id, request.endpoints, request.versions)
        if voter.endpoint(self._listener) is None:
            raise KafkaError(Error.INVALID_REQUEST)
        before = voters.get(key.id)
        if before is None or before.key != key:
            raise KafkaError(Error.VOTER_NOT_FOUND)
        done: Promise[None] = Promise()
        done.set(None)
        if before != voter:
            self._log.append_control([_record(voters.updating(voter))])
        # Kafka responds before the record is committed.
        return done

    def answered(self, answer: VersionsAnswer | KafkaError, now_ms: int) -> None:
        """Append the voter set with the new voter, once its supported versions are known."""
        change = self._change
        if change is None or change.adding is None or change.end_offset is not None:
            return
        request, level = change.adding, self._log.kraft_version
        if isinstance(answer, KafkaError) or answer.error:
            self.fail(
                Error.REQUEST_TIMED_OUT,
                "Aborted add voter operation for since API_VERSIONS returned an error "
                f"{answer.error.name}",
            )
        elif answer.versions is None or not _supports(answer.versions, level):
            versions = answer.versions or VersionRange(min_supported=0, max_supported=0)
            self.fail(
                Error.INVALID_REQUEST,
                f"Aborted add voter operation for {_named(request.voter)} since the kraft.version "
                f"range (min: {versions.min_supported}, max: {versions.max_supported}) doesn't "
                f"support the finalized version {level}",
            )
        elif not self._leading.is_caught_up(request.voter, now_ms):
            self.fail(
                Error.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for {_named(request.voter)} since it is lagging "
                "behind",
            )
        else:
            key = request.voter
            voter = Voter(key.id, key.directory_id, request.endpoints, answer.versions)
            self._append(change, self._log.voters.adding(voter))
            if not request.ack_when_committed:
                change.promise.set(None)

    def committed(self, high_watermark: int) -> None:
        """End the change whose record the high watermark covers."""
        change = self._change
        if change is None or change.end_offset is None or high_watermark < change.end_offset:
            return
        self._change = None
        change.promise.set(None)

    def expire(self, now_ms: int) -> None:
        """Fail the change that has taken too long; if its record is appended, it may yet commit."""
        if self._change is not None and self._change.expires_at_ms <= now_ms:
            self.fail(Error.REQUEST_TIMED_OUT)

    def fail(self, error: Error, message: str | None = None) -> None:
        """End the change in progress with an error, by default with Kafka's own message."""
        change, self._change = self._change, None
        if change is not None:
            change.promise.set(KafkaError(error, message or DEFAULT_MESSAGES[error]))

    def _check_ready(self, what: str, now_ms: int) -> VoterSet:
        """Return the voters if they may be changed now. Raises KafkaError."""
        self.expire(now_ms)
        log, high_watermark = self._log, self._leading.high_watermark
        if self._change is not None:
            raise KafkaError(
                Error.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to handle previous voter change request",
            )
        if high_watermark is None:
            raise KafkaError(
                Error.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to establish HWM and fence previous voter "
                "changes",
            )
        if not log.is_dynamic:
            raise KafkaError(
                Error.UNSUPPORTED_VERSION,
                f"Cluster doesn't support {what} voter because the kraft.version feature is "
                f"{log.kraft_version}",
            )
        offset = log.voters_offset
        if offset is None or offset >= high_watermark:
            shown = "Optional.empty" if offset is None else f"Optional[{offset}]"
            raise KafkaError(
                Error.REQUEST_TIMED_OUT,
                "Request timed out waiting for voters to commit the latest voter change at "
                f"{shown} with HWM {high_watermark}",
            )
        return log.voters

    def _append(self, change: _Change, voters: VoterSet) -> None:
        # The append may commit at once; the change has to know its end before that.
        change.end_offset = self._log.end_offset + 1
        self._log.append_control([_record(voters)])


def _record(voters: VoterSet) -> tuple[int, bytes]:
    return ControlType.KRAFT_VOTERS, bytes(voters.to_record().encode(0))


def _supports(versions: VersionRange, level: int) -> bool:
    return versions.min_supported <= level <= versions.max_supported


def _named(key: ReplicaKey) -> str:
    """A replica as Kafka's messages show it."""
    known = key.directory_id != NO_DIRECTORY
    shown = uuid_text(key.directory_id) if known else "<undefined>"
    return f"ReplicaKey(id={key.id}, directoryId={shown})"


def _shown(endpoints: Endpoints) -> str:
    """Endpoints as Kafka's messages show them."""
    shown = (f"ListenerName({name})={host}/<unresolved>:{port}" for name, host, port in endpoints)
    return f"Endpoints(endpoints={{{', '.join(shown)}}})"


def _all_named(voters: Iterable[Voter]) -> str:
    return f"[{', '.join(_named(voter.key) for voter in voters)}]"
