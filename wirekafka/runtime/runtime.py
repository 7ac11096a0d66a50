"""The runtime of any machine on any replicated log: append, replay, reply once committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from struct import Struct
from typing import Any, TypeVar, cast

from wirekafka.clock import Clock, Timer
from wirekafka.codec.batch import BatchHeader, read_header
from wirekafka.codec.record import decode_records
from wirekafka.errors import Error, KafkaError
from wirekafka.log.disk_errors import is_passing
from wirekafka.runtime.lingering import LingeringLog
from wirekafka.runtime.machine import (
    Command,
    Machine,
    Outcome,
    Producer,
    Ticket,
    TransactionalMachine,
)
from wirekafka.runtime.observation import Committed, Observation, Observer
from wirekafka.runtime.record_codec import RecordCodec
from wirekafka.runtime.renewal import RenewingMachine
from wirekafka.runtime.replicated_log import Buffer, ReplicatedLog

_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)

_CONTROL_KEY = Struct(">hh")
_ABORT, _COMMIT = 0, 1
_RETRY_MS = 1_000
"""The delay of a timer whose outcome could not be appended."""
_RELOAD_MS = 500
"""When a machine is built again whose log could not be read, by an error that passes."""

_TIMERS_PER_STEP = 100
_BATCHES_PER_STEP = 500
_STEP_MS = 8
"""How many timers, or batches while loading, are processed before yielding to the loop.

They also yield once they have taken this long.
"""

_LOADED = object()


class Runtime:
    """One machine on the leader of its log.

    A reply is released once everything that its decision was based on is committed. A reply that
    waits longer than `write_timeout_ms` fails with REQUEST_TIMED_OUT, although its records stay
    appended; None waits without limit.

    A refused append fails only its command. If an append fails half way, the machine is dropped
    and rebuilt by replay, in steps. `lost` is the error of commands while there is no machine.
    `observer_failed` is called when an observer has failed too often and gets no more batches.

    With a `linger_ms` above 0, records of several commands are appended as one batch, up to so much
    later. If that append is refused, all of its commands fail, and the machine is rebuilt.
    """

    def __init__(
        self,
        create: Callable[[], Machine],
        log: ReplicatedLog,
        codec: RecordCodec,
        clock: Clock,
        *,
        lost: Error = Error.NOT_COORDINATOR,
        write_timeout_ms: int | None = None,
        linger_ms: int = 0,
        observer_failed: Callable[[Exception], None] | None = None,
    ):
        self._create = create
        self._lingering: LingeringLog | None = None
        if linger_ms > 0:
            log = self._lingering = LingeringLog(log, clock, linger_ms, self._lost_collected)
        self._log: ReplicatedLog = log
        self._codec = codec
        self._clock = clock
        self._lost = lost
        self._write_timeout_ms = write_timeout_ms
        self._observer_failed = observer_failed
        self._machine: Machine | None = None
        self._loading: Iterator[None] | None = None
        self._stopped = False
        self._applied = 0
        self._was_loaded = False
        self._is_live = False
        self._is_refused = False
        self._waiting: dict[Ticket[Any], None] = {}
        """Ordered: the first submitted is released first."""
        self._timer: Timer | None = None
        self._timer_due = 0
        self._observations: list[Observation] = []
        self._is_delivering = False

    @property
    def machine(self) -> Machine:
        """The machine, for reading only; raises `KafkaError` while it is not loaded."""
        if self._machine is None:
            raise KafkaError(self._lost if self._stopped else Error.COORDINATOR_LOAD_IN_PROGRESS)
        return self._machine

    @property
    def is_loaded(self) -> bool:
        """Whether the machine is loaded and accepts commands."""
        return self._machine is not None

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called, after which the machine is not built again."""
        return self._stopped

    @property
    def end_offset(self) -> int:
        """The end offset of the records that the machine has replayed."""
        return self._applied

    def when_committed(self, callback: Callable[[], None]) -> None:
        """Call back once all replayed records are committed; at once if they are."""
        self._log.when_committed(self._applied, callback)

    # Commands

    async def submit(self, command: Command[_Result]) -> _Result:
        """Run one command; returns its reply once committed, without suspending if it is.

        Raises the `KafkaError` that the machine replies, or that the append fails with.
        """
        ticket = self.post(command)
        return ticket.result() if ticket.done else await self.reply_to(ticket)

    async def reply_to(self, ticket: Ticket[_Result]) -> _Result:
        """Wait for the reply to a command that was posted, and raise as `submit` does."""
        self._waiting[ticket] = None
        try:
            return await ticket
        finally:
            self._waiting.pop(ticket, None)

    def post(
        self, command: Command[_Result], ticket: Ticket[_Result] | None = None
    ) -> Ticket[_Result]:
        """Run one command and return its ticket, which receives the reply now or later."""
        ticket = ticket or Ticket()
        machine = self.machine
        now_ms = self._clock.now_ms()
        if not self._is_live:
            self._go_live(machine, now_ms)
        try:
            outcome = machine.decide(command, ticket, now_ms)
        except KafkaError as error:
            # Even a refusal may depend on state that is not committed yet.
            outcome = Outcome.reply(ticket, error)
        failure = self._apply(machine, outcome, now_ms)
        if failure is not None:
            ticket.set(failure)
        self._arm()
        if self._observations:
            self._deliver()
        return ticket

    def renew(self, command: Command[_Result]) -> _Result | None:
        """The reply to a command that at most moves a timer; None if it has to be submitted.

        The machine is a `RenewingMachine`. Nothing that its state depends on waits to be committed.
        Fast twin of `wirekafka.runtime.runtime.Runtime.submit`.
        """
        machine = self._machine
        if machine is None or not self._is_live or self._log.committed_offset < self._applied:
            return None
        renewing = cast(RenewingMachine[Command[_Result], _Result], machine)
        renewal = renewing.renew(command, self._clock.now_ms())
        if renewal is None:
            return None
        key, due_ms, reply = renewal
        machine.timers.schedule(key, due_ms)
        if self._timer is None or due_ms < self._timer_due:
            self._arm()
        return reply

    def write_collected(self) -> None:
        """Append the records that linger, before something else is appended to the log.

        Raises the log's errors; the machine is then being rebuilt.
        """
        if self._lingering is not None:
            self._lingering.flush()

    def replay_end_marker(self, producer: Producer, committed: bool) -> None:
        """Replay an end marker that a transaction coordinator has appended to this log."""
        cast(TransactionalMachine, self.machine).replay_end_marker(producer, committed)
        self._arm()
        self.pass_control_batch()

    def pass_control_batch(self) -> None:
        """Move the machine and its observers past a control batch that was appended to the log."""
        self._applied = self._log.end_offset
        if self._observations:
            self._committed_later(Committed((), self._applied))
            self._deliver()

    # Observers

    def observe(self, observer: Observer) -> Observation:
        """Deliver every batch of records to `observer` once it is committed.

        Batches are delivered once and in order, never while a command runs: a batch that a command
        commits at once is delivered at the end of the outermost `post`, before `post` returns. An
        observer added before the machine is first loaded also gets the batches in the log.
        """
        observation = Observation(
            observer, self._clock, self._applied, self._observer_failed or _ignore
        )
        self._observations.append(observation)
        return observation

    # Loading and stopping

    def load(self) -> None:
        """Build the machine from the log, in a single step."""
        for _ in self.load_steps():
            pass

    def load_steps(self) -> Iterator[None]:
        """Build the machine from the log, pausing after each batch; commands fail until then."""
        self._machine = None
        machine = self._create()
        for batch in self._log.read_batches():
            records = _replay_batch(machine, batch, self._codec)
            if records and not self._was_loaded:
                self._committed_later(Committed(records, self._log.end_offset))
                self._deliver()
            yield
        if self._stopped:
            return
        self._is_live = False
        self._was_loaded = True
        self._machine = machine
        self._applied = self._log.end_offset
        self._committed_later(Committed((), self._applied))
        self._deliver()
        self._arm()

    def load_gradually(self, finished: Callable[[Exception | None], None]) -> None:
        """Build the machine from the log, yielding to the event loop between portions.

        A small log has been read when this returns. `finished` is called with None, or with the
        exception of a failed load, at the end; it is not called after `stop`.
        """
        self._loading = self.load_steps()
        self._load_on(self._loading, finished)

    def stop(self, error: KafkaError | None = None) -> None:
        """Stop after a loss of leadership or at a shutdown: every outstanding reply fails."""
        self._stopped = True
        error = error or KafkaError(self._lost)
        self._drop(error)
        for observation in self._observations:
            observation.close(error)

    def _load_on(self, steps: Iterator[None], finished: Callable[[Exception | None], None]) -> None:
        if self._loading is not steps:
            return
        end_ms = self._clock.now_ms() + _STEP_MS
        try:
            for _ in range(_BATCHES_PER_STEP):
                if next(steps, _LOADED) is _LOADED:
                    self._loading = None
                    finished(None)
                    return
                if self._clock.now_ms() >= end_ms:
                    break
        except Exception as error:
            if is_passing(error) and not self._observations:
                # Else nobody would serve it until the leadership changes.
                self._loading = again = self.load_steps()
                self._clock.call_later(_RELOAD_MS, partial(self._load_on, again, finished))
                return
            self._loading = None
            finished(error)
            return
        self._clock.call_later(0, partial(self._load_on, steps, finished))

    # Applying outcomes

    def _apply(self, machine: Machine, outcome: Outcome, now_ms: int) -> Exception | None:
        if not outcome.records:
            outcome.take_effect(machine.timers)
        elif (failure := self._append(machine, outcome, now_ms)) is not None:
            return failure
        if outcome.replies:
            if self._log.committed_offset >= self._applied:
                _release(outcome.replies)
            else:
                self._release_later(outcome.replies)
        return None

    def _append(self, machine: Machine, outcome: Outcome, now_ms: int) -> Exception | None:
        log = self._log
        records = outcome.records
        end_offset = log.end_offset
        try:
            batch = outcome.encoded or self._codec.encode(records, now_ms, outcome.producer)
            self._applied = log.append(batch)
            outcome.take_effect(machine.timers)
            if outcome.replayed is not None:
                outcome.replayed()
            else:
                _replay(machine, records, outcome.producer)
        except Exception as failure:
            if self._machine is not machine:
                return failure  # Records that lingered could not be written.
            if log.end_offset != end_offset:
                self._rebuild(failure)
                self._committed_later(Committed(records, log.end_offset))
            elif not self._is_refused:
                self._is_refused = True
                logger.warning(
                    "The log of a %s refuses appends: %s", type(machine).__name__, failure
                )
            return failure
        self._is_refused = False
        if self._observations:
            self._committed_later(Committed(records, self._applied))
        return None

    def _release_later(self, replies: Sequence[tuple[Ticket[Any], object]]) -> None:
        timer = None
        if self._write_timeout_ms is not None:
            overdue = [(ticket, KafkaError(Error.REQUEST_TIMED_OUT)) for ticket, _ in replies]
            timer = self._clock.call_later(self._write_timeout_ms, partial(_release, overdue))
        self._log.when_committed(self._applied, partial(_release_in_time, replies, timer))

    def _lost_collected(self, failure: Exception) -> None:
        """Fail the commands whose collected records could not be appended, and start again."""
        for ticket in self._waiting:
            ticket.set(failure)
        self._rebuild(failure)

    def _rebuild(self, failure: Exception) -> None:
        """Rebuild a machine whose state may differ from its log."""
        is_bug = not isinstance(failure, KafkaError)
        logger.warning(
            "Rebuilding a %s: an append failed half way: %s",
            type(self._machine).__name__,
            failure,
            exc_info=failure if is_bug else None,
        )
        self._drop(KafkaError(self._lost))
        self._loading = self.load_steps()
        self._clock.call_later(0, partial(self._load_on, self._loading, self._rebuilt))

    def _rebuilt(self, error: Exception | None) -> None:
        if error is not None:
            logger.error("The machine cannot be rebuilt from its log", exc_info=error)
            self.stop()

    def _drop(self, error: KafkaError) -> None:
        self._machine = None
        self._loading = None
        if self._lingering is not None:
            self._lingering.discard()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for ticket in waiting:
            ticket.set(error)

    # Delivering to observers

    def _committed_later(self, batch: Committed) -> None:
        if self._log.committed_offset >= batch.end_offset:
            self._queue(batch)
        else:
            self._log.when_committed(batch.end_offset, partial(self._queue_from_log, batch))

    def _queue(self, batch: Committed) -> None:
        for observation in self._observations:
            observation.add(batch)

    def _queue_from_log(self, batch: Committed) -> None:
        """Queue a batch, but deliver it later: the log calls this in the middle of an operation."""
        self._queue(batch)
        self._clock.call_later(0, self._deliver)

    def _deliver(self) -> None:
        if self._is_delivering:
            return  # Called from within an observer: the outer call delivers it.
        self._is_delivering = True
        try:
            while ready := [each for each in self._observations if each.is_ready]:
                for observation in ready:
                    observation.deliver()
        finally:
            self._is_delivering = False

    # Timers

    def _arm(self) -> None:
        """Schedule `_fire` for the machine's next deadline.

        A timer that is too early is kept: each heartbeat moves the deadline back, and one
        superfluous call is cheaper than a new timer for each heartbeat.
        """
        if self._machine is None:
            return
        due = self._machine.timers.deadline() if self._is_live else 0
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.call_later(max(due - self._clock.now_ms(), 0), self._fire)

    def _fire(self) -> None:
        self._timer = None
        machine = self._machine
        now_ms = self._clock.now_ms()
        if machine is not None and not self._is_live:
            self._go_live(machine, now_ms)
        for _ in range(_TIMERS_PER_STEP):
            if machine is None or self._machine is not machine:
                break
            key = machine.timers.next_due(now_ms)
            if key is None:
                break
            self._tick(machine, key, now_ms)
            if self._clock.now_ms() >= now_ms + _STEP_MS:
                break
        self._arm()
        if self._observations:
            self._deliver()

    def _go_live(self, machine: Machine, now_ms: int) -> None:
        """Start the machine's session timers: a long start must not count against the sessions."""
        self._is_live = True
        machine.loaded(now_ms)

    def _tick(self, machine: Machine, key: Hashable, now_ms: int) -> None:
        """Process one expired timer; a failure must not affect the other timers."""
        try:
            outcome = machine.tick(key, now_ms)
        except Exception:
            logger.exception("The machine failed on the expiry of timer %s; it is retried", key)
            machine.timers.schedule(key, now_ms + _RETRY_MS)
            return
        outcome.timers.insert(0, (key, None))
        if self._apply(machine, outcome, now_ms) is not None:
            machine.timers.schedule(key, now_ms + _RETRY_MS)


def _ignore(error: Exception) -> None:
    """The default `observer_failed`: the failure is only logged."""


def _release(replies: Sequence[tuple[Ticket[Any], object]]) -> None:
    for ticket, reply in replies:
        ticket.set(reply)


def _release_in_time(replies: Sequence[tuple[Ticket[Any], object]], timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
    _release(replies)


def _replay(machine: Machine, records: Sequence[object], producer: Producer | None) -> None:
    if producer is None:
        for record in records:
            machine.replay(record)
        return
    transactional = cast(TransactionalMachine, machine)
    for record in records:
        transactional.replay_pending(record, producer)


def _replay_batch(machine: Machine, batch: Buffer, codec: RecordCodec) -> Sequence[object]:
    header = read_header(batch)
    if header.is_control:
        if header.is_transactional:
            _replay_end_marker(cast(TransactionalMachine, machine), header, batch)
        return ()
    records = list(codec.decode(batch))
    producer = (
        Producer(header.producer_id, header.producer_epoch) if header.is_transactional else None
    )
    _replay(machine, records, producer)
    return records


def _replay_end_marker(machine: TransactionalMachine, header: BatchHeader, batch: Buffer) -> None:
    producer = Producer(header.producer_id, header.producer_epoch)
    for record in decode_records(batch):
        assert record.key is not None, "an end marker has a key"
        _, kind = _CONTROL_KEY.unpack_from(record.key)
        if kind in (_ABORT, _COMMIT):
            machine.replay_end_marker(producer, kind == _COMMIT)
