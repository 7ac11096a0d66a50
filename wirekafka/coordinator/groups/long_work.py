"""Commands and timers that are processed in steps, so that none blocks the event loop.

Assigning thousands of partitions to a thousand members takes far longer than one turn of the event
loop may take. The function that processes such a command is a generator (see `steps`). Other
commands and timers of the same group wait until it has finished: replies and records are the same
as without pauses.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket

logger = logging.getLogger(__name__)

_YIELDS_PER_STEP = 500
_RECORDS_PER_BATCH = 100
"""A longer list of records is appended in several batches, one per step, unless it is atomic."""
_OVER: Final = object()
_TIMER_RETRY_MS = 20
_FAILED_TIMER_RETRY_MS = 1_000


class WorkKey(NamedTuple):
    """The timer that continues the work of a group."""

    group_id: str
    what: str = "work"


Encode: TypeAlias = Callable[[Sequence[Any], int], Steps[bytes]]
"""Encodes records as one batch, in steps, given the time in ms."""

Failed: TypeAlias = Callable[[Turn, KafkaError], None]
"""Adds the consequences of a failed command or timer to an outcome."""

Process: TypeAlias = Callable[[Any, Ticket[Any], Turn], Steps[None] | None]
"""Processes a command; returns its steps unless it has finished."""


class LongWork:
    """The work in progress of one shard, at most one per group, and the commands that wait for it.

    This is soft state, lost with the machine: callers that wait for a reply then get an error. Of a
    command with several batches of records, the soft effects take place with the first batch and
    the replies are released with the last. If the log refuses a batch, the command fails, or the
    timer falls due again; the earlier batches stay, as after a crash.
    """

    def __init__(self, process: Process, encode: Encode):
        self._process = process
        self._encode = encode
        self._works: dict[str, _Work] = {}

    @property
    def group_ids(self) -> Collection[str]:
        """The groups whose commands and timers have to wait."""
        return self._works

    def wait(self, command: Any, ticket: Ticket[Any], turn: Turn) -> None:
        """Process a command of a busy group after the waiting commands."""
        turn.then(partial(self._works[command.group_id].waiting.append, (command, ticket)))

    def wait_with_timer(self, key: Any, turn: Turn) -> None:
        """Process a timer of a busy group later."""
        turn.schedule(key, turn.now_ms + _TIMER_RETRY_MS)

    def begin(self, group_id: str, steps: Steps[None], turn: Turn, ticket: Ticket[Any]) -> Turn:
        """Take the first step of a command.

        Returns `turn` if the command is complete, else an outcome without records.
        """
        return self._begin(group_id, steps, turn, partial(_answer, ticket))

    def begin_timer(self, key: Any, steps: Steps[None], turn: Turn) -> Turn:
        """Take the first step of a timer, as `begin` does for a command."""
        return self._begin(key.group_id, steps, turn, partial(_schedule_again, key))

    def _begin(self, group_id: str, steps: Steps[None], turn: Turn, failed: Failed) -> Turn:
        steps = self._with_batch(steps, turn)
        if not _has_more(steps) and (turn.is_atomic or len(turn.records) <= _RECORDS_PER_BATCH):
            return turn
        outcome = turn.another()
        outcome.then(partial(self._works.__setitem__, group_id, _Work(steps, turn, failed)))
        outcome.schedule(WorkKey(group_id), turn.now_ms)
        return outcome

    def go_on(self, key: WorkKey, turn: Turn) -> Turn:
        """Take the next step of a group's work, or process the group's next waiting command.

        The work itself changes here and not in an effect, as no append decides on it.
        """
        work = self._works[key.group_id]
        if work.is_over:
            if not work.waiting:
                turn.then(partial(self._works.__delitem__, key.group_id))
                return turn
            work = self._works[key.group_id] = self._next(work, turn)
        turn.schedule(key, turn.now_ms)
        try:
            if _has_more(work.steps):
                return turn
        except Exception as error:
            work.fail(error)
        work.append(turn)
        return turn

    def _next(self, work: _Work, turn: Turn) -> _Work:
        command, ticket = work.waiting.popleft()
        next_work = _Work(_no_steps(), turn.another(), partial(_answer, ticket))
        next_work.waiting = work.waiting
        try:
            steps = self._process(command, ticket, next_work.turn)
            if steps is not None:
                next_work.steps = self._with_batch(steps, next_work.turn)
        except Exception as error:
            next_work.fail(error)
        return next_work

    def _with_batch(self, steps: Steps[None], turn: Turn) -> Steps[None]:
        """Take the steps, then encode the records in steps if they are many and need one batch."""
        yield from steps
        if turn.is_atomic and len(turn.records) > _RECORDS_PER_BATCH:
            turn.encoded = yield from self._encode(turn.records, turn.now_ms)


class _Work:
    """A command or timer in progress: remaining steps, its outcome, and the commands that wait."""

    def __init__(self, steps: Steps[None], turn: Turn, failed: Failed):
        self.steps = steps
        self.turn = turn
        self.waiting: deque[tuple[Any, Ticket[Any]]] = deque()
        self.is_over = False
        self._failed = failed
        self._written = 0
        self._attempted = -1

    def append(self, turn: Turn) -> None:
        """Add the next batch of records to `turn`."""
        if self._attempted == self._written:
            # The log refused this batch, as there is a second attempt.
            self.fail(KafkaError(Error.COORDINATOR_NOT_AVAILABLE))
        whole, start = self.turn, self._written
        end = len(whole.records) if whole.is_atomic else start + _RECORDS_PER_BATCH
        self._attempted = start
        turn.producer = whole.producer
        turn.encoded, turn.replayed = whole.encoded, whole.replayed
        turn.records = whole.records[start:end]
        if not start:
            turn.timers = [*whole.timers, *turn.timers]
            turn.effects = [*whole.effects, *turn.effects]
        is_last = end >= len(whole.records)
        if is_last:
            turn.replies = whole.replies
        turn.then(partial(self._has_written, end, is_last))

    def fail(self, error: Exception) -> None:
        """Replace the outcome by the failure's consequences: no caller is left to raise it to."""
        if not isinstance(error, KafkaError):
            logger.error("A command or timer of a group failed", exc_info=error)
            error = KafkaError(Error.UNKNOWN_SERVER_ERROR)
        self.turn = self.turn.another()
        self._failed(self.turn, error)
        self.steps = _no_steps()
        self._written, self._attempted = 0, -1

    def _has_written(self, end: int, is_last: bool) -> None:
        self._written = end
        self.is_over = is_last


def _answer(ticket: Ticket[Any], turn: Turn, error: KafkaError) -> None:
    turn.answer(ticket, error)


def _schedule_again(key: Any, turn: Turn, error: KafkaError) -> None:
    turn.schedule(key, turn.now_ms + _FAILED_TIMER_RETRY_MS)


def _has_more(steps: Steps[None]) -> bool:
    """Take a step; returns whether there may be more."""
    return next(islice(steps, _YIELDS_PER_STEP - 1, None), _OVER) is not _OVER


def _no_steps() -> Steps[None]:
    yield from ()
