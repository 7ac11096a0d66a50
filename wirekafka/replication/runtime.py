"""Runs any machine on any replicated log: append, replay, and answer once it is committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from struct import Struct
from typing import Any, cast

from wirekafka.clock import Clock, Timer
from wirekafka.codec.batch import BatchHeader, read_header
from wirekafka.codec.record import decode_records
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import (
    Machine,
    Outcome,
    Producer,
    Ticket,
    TransactionalMachine,
)
from wirekafka.replication.record_codec import RecordCodec
from wirekafka.replication.replicated_log import Buffer, ReplicatedLog

logger = logging.getLogger(__name__)

_CONTROL_KEY = Struct(">hh")
_ABORT, _COMMIT = 0, 1


class Runtime:
    """The leader's side of one machine.

    A reply leaves only when everything its decision saw is committed. A failed append leaves the
    machine's soft state ahead of the log, so the machine is dropped and rebuilt by replay.
    """

    def __init__(
        self,
        create: Callable[[], Machine],
        log: ReplicatedLog,
        codec: RecordCodec,
        clock: Clock,
        *,
        lost: Error = Error.NOT_COORDINATOR,
    ):
        self._create = create
        self._log = log
        self._codec = codec
        self._clock = clock
        self._lost = lost
        self._machine: Machine | None = None
        self._stopped = False
        self._applied = 0
        self._was_loaded = False
        self._waiting: dict[Ticket, None] = {}  # In order: who asked first is told first.
        self._timer: Timer | None = None
        self._timer_due = 0
        self.on_commit: Callable[[Sequence[Any]], None] | None = None
        """Told every batch of records once committed, in order, before any reply to them."""

    @property
    def machine(self) -> Machine:
        """The machine, to be looked at only; raises `KafkaError` while it is not loaded."""
        if self._machine is None:
            raise KafkaError(
                self._lost if self._stopped else Error.COORDINATOR_LOAD_IN_PROGRESS
            )
        return self._machine

    @property
    def applied_offset(self) -> int:
        """The end of what the machine has replayed."""
        return self._applied

    async def submit(self, command: Any) -> Any:
        """Run one command; returns its reply once committed, without suspending if it is.

        Raises the `KafkaError` that the machine answers with, or that the append fails with.
        """
        ticket = Ticket()
        self.post(command, ticket)
        if ticket.done:
            return ticket.result()
        self._waiting[ticket] = None
        try:
            return await ticket
        finally:
            self._waiting.pop(ticket, None)

    def post(self, command: Any, ticket: Ticket | None = None) -> Ticket:
        """Run one command and return its ticket, set now or later."""
        ticket = ticket or Ticket()
        machine = self.machine
        now_ms = self._clock.now_ms()
        try:
            outcome = machine.decide(command, ticket, now_ms)
        except KafkaError as error:
            # Even a refusal may tell of state that is not committed yet.
            outcome = Outcome.reply(ticket, error)
        failure = self._apply(outcome, now_ms)
        if failure is not None:
            ticket.set(failure)
        self._arm()
        return ticket

    def load(self) -> None:
        """Build the machine from the log in one go."""
        for _ in self.load_steps():
            pass

    def load_steps(self) -> Iterator[None]:
        """Build the machine from the log, pausing after each batch; commands fail until then."""
        self._machine = None
        machine = self._create()
        for batch in self._log.read_batches():
            records = _replay_batch(machine, batch, self._codec)
            if records and not self._was_loaded:
                self._tell(records, self._log.end_offset)
            yield
        if self._stopped:
            return
        self._was_loaded = True
        self._machine = machine
        self._applied = self._log.end_offset
        self._arm()

    def stop(self, error: KafkaError | None = None) -> None:
        """Leadership is gone or the node stops: every outstanding reply fails."""
        self._stopped = True
        self._drop(error or KafkaError(self._lost))

    def _apply(self, outcome: Outcome, now_ms: int) -> Exception | None:
        if outcome.records:
            try:
                self._append(outcome, now_ms)
            except Exception as failure:
                logger.warning("Rebuilding %s: its records were not appended: %s",
                               type(self._machine).__name__, failure)
                self._rebuild()
                return failure
        if outcome.replies:
            if self._log.committed_offset >= self._applied:
                _release(outcome.replies)
            else:
                self._log.when_committed(self._applied, partial(_release, outcome.replies))
        return None

    def _append(self, outcome: Outcome, now_ms: int) -> None:
        batch = self._codec.encode(outcome.records, now_ms, outcome.producer)
        self._applied = self._log.append(batch)
        assert self._machine is not None
        if outcome.producer is None:
            for record in outcome.records:
                self._machine.replay(record)
        else:
            transactional = cast(TransactionalMachine, self._machine)
            for record in outcome.records:
                transactional.replay_pending(record, outcome.producer)
        self._tell(outcome.records, self._applied)

    def _tell(self, records: Sequence[Any], end_offset: int) -> None:
        if self.on_commit is not None:
            self._log.when_committed(end_offset, partial(self._observe, records))

    def _observe(self, records: Sequence[Any]) -> None:
        # What is committed stays so, whatever its observer makes of it.
        assert self.on_commit is not None
        try:
            self.on_commit(records)
        except Exception:
            logger.exception("Committed records were not taken over")

    def replay_end_marker(self, producer: Producer, committed: bool) -> None:
        """A marker was appended to this log by a transaction coordinator: fold it in."""
        cast(TransactionalMachine, self.machine).replay_end_marker(producer, committed)
        self._applied = self._log.end_offset
        self._arm()

    def _rebuild(self) -> None:
        self._drop(KafkaError(self._lost))
        try:
            self.load()
        except Exception:
            logger.exception("The machine cannot be rebuilt from its log")
            self._stopped = True

    def _drop(self, error: KafkaError) -> None:
        self._machine = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for ticket in waiting:
            ticket.set(error)

    def _arm(self) -> None:
        """Have `_fire` called when the machine is next due.

        A timer that is too early is left alone: a heartbeat moves the deadline back every time,
        and firing once for nothing is cheaper than a new timer for each.
        """
        if self._machine is None:
            return
        due = self._machine.deadline()
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.call_later(max(due - self._clock.now_ms(), 0), self._fire)

    def _fire(self) -> None:
        self._timer = None
        machine = self._machine
        if machine is None:
            return
        now_ms = self._clock.now_ms()
        due = machine.deadline()
        if due is not None and due <= now_ms:
            self._apply(machine.tick(now_ms), now_ms)
        self._arm()


def _release(replies: Sequence[tuple[Ticket, Any]]) -> None:
    for ticket, reply in replies:
        ticket.set(reply)


def _replay_batch(machine: Machine, batch: Buffer, codec: RecordCodec) -> Sequence[Any]:
    header = read_header(batch)
    if header.is_control:
        if header.is_transactional:
            _replay_end_marker(cast(TransactionalMachine, machine), header, batch)
        return ()
    records = list(codec.decode(batch))
    if header.is_transactional:
        producer = Producer(header.producer_id, header.producer_epoch)
        for record in records:
            cast(TransactionalMachine, machine).replay_pending(record, producer)
    else:
        for record in records:
            machine.replay(record)
    return records


def _replay_end_marker(machine: TransactionalMachine, header: BatchHeader, batch: Buffer) -> None:
    producer = Producer(header.producer_id, header.producer_epoch)
    for record in decode_records(batch):
        assert record.key is not None, "an end marker has a key"
        _, kind = _CONTROL_KEY.unpack_from(record.key)
        if kind in (_ABORT, _COMMIT):
            machine.replay_end_marker(producer, kind == _COMMIT)
