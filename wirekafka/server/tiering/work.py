"""Runs blocking requests to the object store in threads, each within a time limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

from wirekafka.clock import Clock
from wirekafka.runtime.promise import Promise

Job: TypeAlias = Callable[[], Any]
Run: TypeAlias = Callable[[Job], Awaitable[Any]]
"""Runs a job that blocks, and returns its result or raises its exception."""


async def run_inline(job: Job) -> Any:
    """A `Run` without threads, for simulated stores."""
    return job()


async def run_in_own_thread(job: Job) -> Any:
    """A `Run` for few and long jobs: a job that hangs for ever holds no thread that others need."""
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
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="tier", daemon=True).start()
    return await future


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


class ReaderPool:
    """The threads that read from the store, with a bounded number of waiting jobs."""

    def __init__(self, threads: int, most_waiting: int):
        self._pool = ThreadPoolExecutor(threads, "tier-reader")
        self._most = threads + most_waiting
        self._jobs = 0

    @property
    def is_full(self) -> bool:
        """Whether no further job is accepted."""
        return self._jobs >= self._most

    async def run(self, job: Job) -> Any:
        """A `Run`. A job that has begun goes on if its caller is cancelled; others are dropped."""
        self._jobs += 1
        future = self._pool.submit(job)
        loop = asyncio.get_running_loop()
        future.add_done_callback(partial(self._done, loop))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Drop the jobs that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, loop: asyncio.AbstractEventLoop, _: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self._jobs -= 1
