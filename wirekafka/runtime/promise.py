"""Promises of one value, and pauses; awaiting a value that has arrived allocates no future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from wirekafka.clock import Clock

_Result = TypeVar("_Result")

_PENDING = object()


class Promise(Generic[_Result]):
    """A value set once and awaited by one caller; a `BaseException` is raised there."""

    __slots__ = ("_future", "_value")

    def __init__(self) -> None:
        self._value: Any = _PENDING
        self._future: asyncio.Future[None] | None = None

    @property
    def done(self) -> bool:
        """Whether the value has arrived."""
        return self._value is not _PENDING

    def set(self, value: _Result | BaseException) -> None:
        """Deliver the value; ignored if there is one already."""
        if self._value is not _PENDING:
            return
        self._value = value
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def result(self) -> _Result:
        """The value that arrived; raised if it is an exception."""
        assert self.done, "the value has not arrived"
        value: _Result | BaseException = self._value
        if isinstance(value, BaseException):
            raise value
        return value

    async def within(self, clock: Clock, limit_ms: float) -> _Result | None:
        """Wait for the value; it is None if none has arrived after `limit_ms`."""
        timer = clock.call_later(limit_ms, self._time_out)
        try:
            return await self
        finally:
            timer.cancel()

    def _time_out(self) -> None:
        self.set(None)  # type: ignore[arg-type]  # Only `within` returns it.

    def __await__(self) -> Generator[object, None, _Result]:
        if self._value is _PENDING:
            self._future = asyncio.get_running_loop().create_future()
            yield from self._future
        return self.result()


class DirectPromise(Promise[_Result]):
    """A promise for a coroutine of a `Driver`, which goes on within `set`."""

    __slots__ = ("resume",)

    def __init__(self) -> None:
        self._value = _PENDING
        self.resume: Callable[[object], None] | None = None
        """The callback of `set`; None until the promise is awaited."""

    def set(self, value: _Result | BaseException) -> None:
        if self._value is not _PENDING:
            return
        self._value = value
        if self.resume is not None:
            self.resume(None)

    def __await__(self) -> Generator[object, None, _Result]:
        if self._value is _PENDING:
            yield self
        value: _Result | BaseException = self._value
        if isinstance(value, BaseException):
            raise value
        return value


async def computed(
    run_apart: Callable[[Callable[[], None], Callable[[BaseException | None], None]], None],
    compute: Callable[[], _Result],
) -> _Result:
    """Compute something by `run_apart`, which may use a thread.

    Work that has not begun when this coroutine is closed is dropped with all objects that it refers
    to: clients that leave at once could otherwise have any amount of work and memory wait for the
    thread.
    """
    waiting, found = [compute], list[_Result]()
    done: Promise[None] = Promise()

    def begin() -> None:
        try:
            taken = waiting.pop()
        except IndexError:
            return  # Dropped.
        found.append(taken())

    run_apart(begin, done.set)
    del compute
    try:
        await done
    finally:
        waiting.clear()
    [result] = found
    return result


async def pause(clock: Clock, delay_ms: float) -> None:
    """Wait for `delay_ms` of the clock's time."""
    never: Promise[None] = Promise()
    await never.within(clock, delay_ms)


class Pauses:
    """Waits between attempts that `end` cuts short, for an orderly stop."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._waiting: set[Promise[None]] = set()
        self.has_ended = False

    async def wait(self, delay_ms: float) -> None:
        """Wait for `delay_ms`, or until `end`."""
        if self.has_ended:
            return
        over: Promise[None] = Promise()
        self._waiting.add(over)
        try:
            await over.within(self._clock, delay_ms)
        finally:
            self._waiting.discard(over)

    def end(self) -> None:
        """End all present waits, and every later wait at once."""
        self.has_ended = True
        for over in tuple(self._waiting):
            over.set(None)
