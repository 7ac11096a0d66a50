"""A node's epoch, leader and vote, and the rules by which it grants votes (KIP-595, KIP-996)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wirekafka.errors import KafkaError
from wirekafka.log.disk_errors import is_passing, storage_error
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.replication.raft.messages import LeaderAndEpoch, ReplicaKey, Vote
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.quorum_state import QuorumState


@dataclass(frozen=True, slots=True)
class Elected:
    """The durable state of an epoch: the leader, once known, and the node's own vote."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None

    @property
    def has_leader(self) -> bool:
        """Whether the leader of the epoch is known."""
        return self.leader_id != NO_LEADER

    def may_vote_for(self, candidate: ReplicaKey) -> bool:
        """Whether a vote in this epoch would not be a second one."""
        if self.voted is not None:
            return self.voted.matches(candidate)
        return not self.has_leader


def is_up_to_date(request: Vote, last_epoch: int, end_offset: int) -> bool:
    """Whether a candidate's log is at least as complete as a log that ends there (Raft 5.4.1)."""
    return (request.last_epoch, request.end_offset) >= (last_epoch, end_offset)


class Election:
    """The `Elected` of the present epoch, stored before anything that depends on it is sent."""

    def __init__(self, log: QuorumLog):
        self._log = log
        self._version = self._stored = 0
        self._is_writing = False
        self._waiting: list[tuple[int, Callable[[KafkaError | None], None]]] = []
        self.failure: KafkaError | None = None
        """The error of a failed write, after which nothing is sent any more."""
        self.elected = Elected()
        self.on_durable: Callable[[], None] | None = None
        """Called when all there is to store has been stored."""

    @property
    def is_durable(self) -> bool:
        """Whether the present epoch, leader and vote are on the medium."""
        return self._stored == self._version

    def load(self) -> None:
        """Read the stored epoch, leader and vote. Raises `BadQuorumState`."""
        state = self._log.read_state()
        newest = self._log.last_epoch
        if state is None or state.leader_epoch < newest:
            self.elected = Elected(newest)
        else:
            self.elected = Elected(state.leader_epoch, state.leader_id, state.voted)
        self._show()

    def set(self, elected: Elected) -> None:
        """Replace the present state, and begin to store it."""
        before = self.elected
        assert elected.epoch >= before.epoch, "epochs only grow"
        if elected == before:
            return
        is_kept = before.voted in (None, elected.voted) or elected.has_leader
        assert elected.epoch > before.epoch or is_kept, "a vote is not forgotten in its epoch"
        self.elected = elected
        self._show()
        self._version += 1
        if not self._is_writing:
            self._write()

    def when_durable(self, callback: Callable[[KafkaError | None], None]) -> None:
        """Call back once the present state is stored, with None, or with the error."""
        if self.failure is not None or self.is_durable:
            callback(self.failure)
        else:
            self._waiting.append((self._version, callback))

    def leadership(self) -> LeaderAndEpoch:
        """The epoch and its leader, without endpoints."""
        return LeaderAndEpoch(self.elected.leader_id, self.elected.epoch)

    def _show(self) -> None:
        self._log.epoch, self._log.leader_id = self.elected.epoch, self.elected.leader_id

    def _write(self) -> None:
        version, elected = self._version, self.elected
        voters = None if self._log.is_dynamic else self._log.voters.ids or None
        state = QuorumState(elected.leader_id, elected.epoch, voters, elected.voted)
        self._is_writing = True
        self._log.write_state(state, lambda error: self._written(version, error))

    def _written(self, version: int, error: BaseException | None) -> None:
        self._is_writing = False
        if is_passing(error):
            assert error is not None
            self._is_writing = True  # Until then nothing that depends on it is sent.
            self._log.again_later(self._write, error)
            return
        if error is not None:
            self.failure = storage_error(error)
            self._log.fail(error)
        else:
            self._stored = version
            if version < self._version:
                self._write()
        waiting = self._waiting
        self._waiting = []
        for wanted, callback in waiting:
            if self.failure is not None or wanted <= self._stored:
                callback(self.failure)
            else:
                self._waiting.append((wanted, callback))
        if self.is_durable and self.on_durable is not None:
            self.on_durable()
