"""A queue that applies topic changes to one shard, in order and in small pieces."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from wirekafka.clock import Clock
from wirekafka.errors import KafkaError
from wirekafka.runtime.machine import Command
from wirekafka.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

_RETRY_MS = 1_000

Pieces = Callable[[Callable[[], Any]], Iterator[Command[object]]]
"""Yields the commands that apply one change to a shard, given the getter of its machine.

Each command is computed once the previous ones have been replayed; a restart from the beginning is
harmless.
"""


class TopicChanges:
    """The queue of topic changes of one shard.

    A refused piece is retried, with the rest of its change, until the shard accepts it: only then
    the next change follows.
    """

    def __init__(self, runtime: Runtime, clock: Clock, name: str):
        self._runtime = runtime
        self._clock = clock
        self._name = name
        self._queue: deque[Pieces] = deque()
        self._pieces: Iterator[Command[object]] | None = None
        self._is_waiting = True
        self._is_refused = False
        self._is_closed = False

    def add(self, change: Pieces) -> None:
        """Queue a change; its first piece runs at once if the shard is ready for it."""
        self._queue.append(change)
        if not self._is_waiting:
            self.go_on()

    def close(self) -> None:
        """Stop after a loss of leadership: the new leader processes the same changes."""
        self._is_closed = True

    def go_on(self) -> None:
        """Run one piece and schedule the next; call it once the shard is loaded."""
        self._is_waiting = False
        if self._is_closed or not self._queue:
            return
        self._is_waiting = True
        try:
            has_more = self._run_one()
        except KafkaError as error:
            self._pieces = None
            if not self._is_refused:
                logger.warning(
                    "%s refused a change of topics, which is retried: %s", self._name, error
                )
            self._is_refused = True
            self._clock.call_later(_RETRY_MS, self.go_on)
            return
        except Exception:
            logger.exception("%s failed to process a change of topics", self._name)
            has_more = False  # The changes behind it must not wait for it.
        self._is_refused = False
        if not has_more:
            self._queue.popleft()
            self._pieces = None
        self._clock.call_later(0, self.go_on)

    def _run_one(self) -> bool:
        if self._pieces is None:
            self._pieces = self._queue[0](lambda: self._runtime.machine)
        piece = next(self._pieces, None)
        if piece is None:
            return False
        ticket = self._runtime.post(piece)
        if ticket.done:
            ticket.result()
        return True
