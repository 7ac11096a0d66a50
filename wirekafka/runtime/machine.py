"""The contract of a replicated state machine: decide on a command, replay the records it wrote.

A machine is pure. The time is an argument, it does no I/O, and it knows nothing of asyncio, so
the same machine runs in production, in a unit test and in a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, dataclass_transform

from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.promise import Promise
from wirekafka.runtime.timers import Timers

_Result = TypeVar("_Result")
_Result_co = TypeVar("_Result_co", covariant=True)
_Class = TypeVar("_Class")

Ticket = Promise
"""Identifies one submitted command. A machine may keep it, and returns it with the reply; only the
runtime looks inside."""


class Command(Generic[_Result_co]):
    """One operation on a machine, such as a client's request; its reply is a `_Result_co`.

    Commands are declared with `@command`. A machine finds what decides on a command by its class,
    in a table; or the command itself has a method that decides.
    """

    __slots__ = ()


@dataclass_transform(frozen_default=True)
def command(declared: type[_Class]) -> type[_Class]:
    """Make a dataclass of a class of commands, which only type checkers keep from being changed.

    To freeze its objects at run time would take six times as long as to make them.
    """
    return dataclass(slots=True, unsafe_hash=True)(declared)


class Producer(NamedTuple):
    """The producer in whose transaction records are written; their batch is transactional."""

    id: int
    epoch: int


class Outcome:
    """The result of a command or of an expired timer: records, soft effects and replies.

    `records` are appended as one batch, in a transaction if there is a `producer`. After the
    append, or at once where there are no records, come the soft effects: changes of timers, in
    order, and the callbacks given to `then`, such as replacing a group by a changed copy. The
    records are replayed next, and last the `replies` are released, each to any earlier ticket: one
    command can release others that were parked. If the append is refused, none of it happens.

    A reply that is a `KafkaError` is raised at the submitter.
    """

    __slots__ = ("effects", "encoded", "producer", "records", "replayed", "replies", "timers")

    def __init__(
        self,
        records: Iterable[object] = (),
        replies: Iterable[tuple[Ticket[Any], object]] = (),
        producer: Producer | None = None,
    ):
        self.records: list[object] = list(records)
        self.replies: list[tuple[Ticket[Any], object]] = list(replies)
        self.producer = producer
        self.encoded: bytes | None = None
        """The batch with the records, if it was encoded beforehand."""
        self.replayed: Callable[[], None] | None = None
        """Puts the state after the records in place, if they were replayed on a copy beforehand."""
        self.timers: list[tuple[Hashable, int | None]] = []
        self.effects: list[Callable[[], None]] = []

    @classmethod
    def reply(cls, ticket: Ticket[_Result], value: _Result | KafkaError) -> Outcome:
        """An outcome that only replies to one ticket and writes nothing."""
        return Outcome((), ((ticket, value),))

    def write(self, record: object) -> None:
        """Add a record to append."""
        self.records.append(record)

    def answer(self, ticket: Ticket[_Result] | None, reply: _Result | KafkaError) -> None:
        """Add the reply to a ticket; None is ignored."""
        if ticket is not None:
            self.replies.append((ticket, reply))

    def refuse(self, ticket: Ticket[_Result] | None, error: Error) -> None:
        """Add an error as the reply to a ticket; None is ignored.

        Unlike raising the error, this keeps the outcome's other effects.
        """
        if ticket is not None:
            self.replies.append((ticket, KafkaError(error)))

    def schedule(self, key: Hashable, due_ms: int) -> None:
        """Set or move the machine's timer `key`."""
        self.timers.append((key, due_ms))

    def cancel(self, key: Hashable) -> None:
        """Drop the machine's timer `key`, if there is one."""
        self.timers.append((key, None))

    def then(self, effect: Callable[[], None]) -> None:
        """Add a soft effect, run in order with the others; it must not raise."""
        self.effects.append(effect)

    def take_effect(self, timers: Timers) -> None:
        """Carry out the soft effects; called by the runtime alone."""
        for key, due_ms in self.timers:
            if due_ms is None:
                timers.cancel(key)
            else:
                timers.schedule(key, due_ms)
        for effect in self.effects:
            effect()


Deciders: TypeAlias = Mapping[type[Command[Any]], Callable[[Any, Ticket[Any], int], Outcome]]
"""The deciding method for each class of a machine's commands, called with the command, its ticket
and the time in ms.

Python's types cannot say that a row's command, its function and its ticket belong together: the
functions' signatures do."""


class Machine(Protocol):
    """State folded over records.

    Hard state changes in `replay` alone. Soft state (parked tickets, session timers, members that
    are not recorded) is lost when the machine is rebuilt, and changes only through the effects of
    an `Outcome`: `decide` and `tick` change nothing, so that an outcome whose append is refused
    leaves no trace. A command changes a larger piece of soft state in a copy, and an effect
    replaces the old piece by the copy.
    """

    timers: Timers
    """Deadlines by key. `replay` sets the deadlines that follow from records, outcomes set all
    others."""

    def decide(self, command: Any, ticket: Ticket[Any], now_ms: int) -> Outcome:
        """Decide on `command`: reply, or keep `ticket` for a later outcome.

        Changes nothing. Raises `KafkaError` to refuse the command.
        """

    def replay(self, record: Any) -> None:
        """Apply one record, just appended or read back from the log."""

    def loaded(self, now_ms: int) -> None:
        """Set up soft state after the log was read to its end.

        Called before the first command, or by a timer of the runtime if that is sooner.
        """

    def tick(self, key: Hashable, now_ms: int) -> Outcome:
        """Decide on the expiry of the timer `key`.

        The runtime drops the timer with the outcome's other effects, before them. If the append
        is refused, it keeps the timer and sets it to a second later.
        """

    def snapshot(self) -> Iterable[object]:
        """Records that rebuild the hard state in an empty machine."""


class TransactionalMachine(Machine, Protocol):
    """A machine whose log also carries records of transactions, and their end markers."""

    def replay_pending(self, record: Any, producer: Producer) -> None:
        """Apply a record that takes effect only once its transaction commits."""

    def replay_end_marker(self, producer: Producer, committed: bool) -> None:
        """End the producer's transaction: its pending records take effect or are dropped."""
