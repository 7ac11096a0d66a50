"""Promises with a limit of time, and pauses that a stop cuts short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import ref

import pytest

from tests.manual_clock import ManualClock
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Pauses, Promise, computed


def test_a_promise_is_waited_for_until_its_limit() -> None:
    clock = ManualClock()
    kept, late = Promise(), Promise()
    found = []

    async def wait(promise: Promise) -> None:
        found.append(await promise.within(clock, 10))

    async def scenario() -> None:
        start(wait(kept))
        start(wait(late))
        clock.advance(9)
        kept.set("kept")
        await asyncio.sleep(0)
        assert found == ["kept"]
        clock.advance(1)
        late.set("late")
        await asyncio.sleep(0)
        assert found == ["kept", None]

    asyncio.run(scenario())


def test_pauses_end_at_once_at_a_stop() -> None:
    clock = ManualClock()
    pauses = Pauses(clock)
    over = []

    async def wait(delay_ms: int) -> None:
        await pauses.wait(delay_ms)
        over.append(delay_ms)

    async def scenario() -> None:
        start(wait(10))
        start(wait(20))
        clock.advance(10)
        await asyncio.sleep(0)
        assert over == [10]
        pauses.end()
        await asyncio.sleep(0)
        assert over == [10, 20]
        start(wait(30))
        assert over == [10, 20, 30]

    asyncio.run(scenario())


def test_what_is_computed_apart_is_returned_or_raised() -> None:
    def in_turn(run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        try:
            run()
        except ZeroDivisionError as error:
            done(error)
        else:
            done(None)

    assert asyncio.run(computed(in_turn, lambda: 6 / 3)) == 2
    with pytest.raises(ZeroDivisionError):
        asyncio.run(computed(in_turn, lambda: 1 / 0))


def test_what_waits_to_be_computed_is_dropped_when_nobody_wants_it_any_more() -> None:
    class Work:
        def __call__(self) -> None:
            raise AssertionError("it is computed")

    held: list[Callable[[], None]] = []

    async def scenario() -> None:
        waiting = computed(lambda run, _: held.append(run), work := Work())
        waiting.send(None)
        kept = ref(work)
        del work
        waiting.close()
        assert kept() is None
        held[0]()

    asyncio.run(scenario())
