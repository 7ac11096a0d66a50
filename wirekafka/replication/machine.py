"""The contract of a replicated state machine: decide on a command, replay the records it became.

A machine is pure. It is told the time, it does no I/O, and it knows nothing of asyncio, so the
same machine runs in production, in a unit test and in a simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from wirekafka.replication.promise import Promise

Ticket = Promise
"""Stands for one submitted command. A machine keeps it and gives it back with the reply; what is
inside is the runtime's business."""


class Producer(NamedTuple):
    """In whose transaction records are written: the batch is then a transactional one."""

    id: int
    epoch: int


class Outcome(NamedTuple):
    """What a command leads to: records to append as one batch, and replies to release after.

    A reply may go to any ticket given earlier, so one command can wake others that were parked.
    A reply that is a `KafkaError` is raised at the one who submitted.
    """

    records: Sequence[Any] = ()
    replies: Sequence[tuple[Ticket, Any]] = ()
    producer: Producer | None = None

    @classmethod
    def reply(cls, ticket: Ticket, value: Any) -> Outcome:
        """Nothing is written; one submitter is answered."""
        return cls((), ((ticket, value),))


NOTHING = Outcome()


class Machine(Protocol):
    """State folded over records. Hard state changes in `replay` alone.

    Soft state (parked tickets, session deadlines) may change in `decide` and `tick`: it is not
    written, and it is lost when the machine is rebuilt.
    """

    def decide(self, command: Any, ticket: Ticket, now_ms: int) -> Outcome:
        """Answer `command` or park it. Raises `KafkaError` to refuse it."""

    def replay(self, record: Any) -> None:
        """Take in one record, just appended or read back from the log."""

    def deadline(self) -> int | None:
        """When `tick` is next due, in milliseconds; asked after every command, so O(1)."""

    def tick(self, now_ms: int) -> Outcome:
        """Do what fell due. The deadline must have moved beyond `now_ms` afterwards."""

    def snapshot(self) -> Iterable[Any]:
        """Records that rebuild the hard state in an empty machine."""


class TransactionalMachine(Machine, Protocol):
    """A machine whose log also carries records of transactions, and their end markers."""

    def replay_pending(self, record: Any, producer: Producer) -> None:
        """Take in a record that counts only once its transaction commits."""

    def replay_end_marker(self, producer: Producer, committed: bool) -> None:
        """End the producer's transaction: what was pending takes effect, or is dropped."""
