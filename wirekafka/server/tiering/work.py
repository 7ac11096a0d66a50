"""Runs blocking requests to the object store in threads, each within a time limit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from wirekafka.clock import Clock
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.promise import Promise

Job: TypeAlias = Callable[[], Any]
Run: TypeAlias = Callable[[Job], Awaitable[Any]]
"""Runs a job that blocks, and returns its result or raises its exception."""


async def run_inline(job: Job) -> Any:
    """A `Run` without threads, for simulated stores."""
    return job()


async def run_in_own_thread(job: Job) -> Any:
    """A `Run` for few and long jobs: a job that hangs for ever holds no thread that others need."""
    return await _begun(job)


async def within(clock: Clock, limit_ms: int, work: Awaitable[Any]) -> tuple[Any] | None:
    """The result of some work, or None if it takes too long; a thread is not interrupted."""
    promise = Promise[tuple[Any] | None]()

    async def settle() -> None:
        try:
            promise.set((await work,))
        except BaseException as error:  # It is raised where the result is awaited.
            promise.set(error)

    task = asyncio.get_running_loop().create_task(settle())
    try:
        return await promise.within(clock, limit_ms)
    finally:
        task.cancel()


class Slots:
    """A limit of jobs at the same time, which may change; waiting jobs begin in their order."""

    def __init__(self, limit: Callable[[], int]):
        self._limit = limit
        self._used = 0
        self._turns: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many jobs wait for others to end."""
        return len(self._turns)

    @property
    def idle(self) -> float:
        """The share of the slots that are free, up to 1."""
        return max(1.0 - self._used / self._limit(), 0.0)

    async def enter(self) -> None:
        """Wait for a slot, which the caller gives back by `leave`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._turns:
                self._turns.remove(turn)
            elif not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Give a slot back."""
        self._used -= 1
        self._admit()

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *error: object) -> None:
        self.leave()

    def close(self) -> None:
        """Cancel the jobs that wait."""
        while self._turns:
            self._turns.popleft().cancel()

    def _admit(self) -> None:
        while self._turns and self._used < self._limit():
            turn = self._turns.popleft()
            if not turn.done():
                self._used += 1
                turn.set_result(None)


class ReaderPool:
    """The threads that read from the store, with a bounded number of waiting jobs."""

    def __init__(
        self,
        threads: Callable[[], int],
        most_waiting: int,
        took: Callable[[int], None] | None = None,
    ):
        """`took` is called with the duration of each job, in µs."""
        self.slots = Slots(threads)
        self._most_waiting = most_waiting
        self._took = took

    async def run(self, job: Job) -> Any:
        """A `Run`. A job that has begun goes on if its caller is cancelled; others are dropped.

        Raises KafkaError(UNKNOWN_SERVER_ERROR) while too many jobs wait, as Apache Kafka.
        """
        if self.slots.waiting >= self._most_waiting:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR, "too many reads of remote storage wait")
        await self.slots.enter()
        future = _begun(job)
        future.add_done_callback(partial(self._ended, time.perf_counter_ns()))
        return await asyncio.shield(future)

    def close(self) -> None:
        """Drop the jobs that have not begun."""
        self.slots.close()

    def _ended(self, began_ns: int, future: asyncio.Future[Any]) -> None:
        if self._took is not None:
            self._took((time.perf_counter_ns() - began_ns) // 1_000)
        if not future.cancelled():
            future.exception()  # So that the loop does not report it if nobody waits any more.
        self.slots.leave()


def _begun(job: Job) -> asyncio.Future[Any]:
    """The future of a job in a new thread, which does not keep the process from its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return  # Nobody waits any more.
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = job()
        except BaseException as error:  # It is raised where the result is awaited.
            failure = error
        with suppress(RuntimeError):  # The loop has been closed.
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="tier", daemon=True).start()
    return future
