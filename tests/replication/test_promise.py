"""Promises with a limit of time, and pauses that a stop cuts short."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from weakref import ref

import pytest

from tests.manual_clock import ManualClock
from wirekafka.runtime.promise import DirectPromise, DirectRun, Pauses, Promise, computed, start


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


class Walk:
    """A coroutine of a `DirectRun` that awaits one thing after the other."""

    def __init__(self, *awaited: Callable[[], Awaitable[object]]):
        self.seen: list[object] = []
        self._awaited = awaited
        self.run = DirectRun(self._walk)

    async def _walk(self) -> None:
        try:
            for each in self._awaited:
                try:
                    self.seen.append(await each())
                except ValueError as error:
                    self.seen.append(str(error))
        finally:
            self.seen.append("end")


def test_a_direct_run_goes_on_within_the_call_that_sets_what_it_awaits() -> None:
    async def scenario() -> None:
        first, second, known = DirectPromise(), DirectPromise(), DirectPromise()
        walk = Walk(lambda: first, lambda: known, lambda: second)
        known.set("known")
        await asyncio.sleep(0)
        first.set(1)
        assert walk.seen == [1, "known"]
        first.set(2)
        assert first.done
        second.set(ValueError("late"))
        assert walk.seen == [1, "known", "late", "end"]
        walk.run.stop()

    asyncio.run(scenario())


def test_a_direct_run_awaits_futures_and_turns_of_the_event_loop_too() -> None:
    async def scenario() -> None:
        promise = Promise()
        walk = Walk(lambda: promise, lambda: asyncio.sleep(0, "slept"))
        await asyncio.sleep(0)
        promise.set(1)
        assert walk.seen == []
        await asyncio.sleep(0)
        assert walk.seen == [1]
        await asyncio.sleep(0)
        assert walk.seen == [1, "slept", "end"]

    asyncio.run(scenario())


def test_a_direct_run_that_is_stopped_ends_where_it_waits() -> None:
    async def scenario() -> None:
        direct, promise = DirectPromise(), Promise()
        walks = [Walk(lambda: direct), Walk(lambda: promise), Walk(lambda: asyncio.sleep(0))]
        await asyncio.sleep(0)
        for walk in walks:
            walk.run.stop()
            assert walk.seen == ["end"]
        early = Walk(lambda: direct)
        early.run.stop()
        direct.set(1)
        promise.set(1)
        for _ in range(3):
            await asyncio.sleep(0)
        assert [walk.seen for walk in walks] == [["end"]] * 3
        assert early.seen == []

    asyncio.run(scenario())


def test_a_direct_run_that_never_begins_makes_no_coroutine() -> None:
    async def crash() -> None:
        Walk(asyncio.Future)
        Walk(asyncio.Future).run.stop()
        # The loop ends with its current turn, as that of a simulated node that crashes.
        loop.stop()

    loop = asyncio.new_event_loop()
    crashing = loop.create_task(crash())
    with warnings.catch_warnings(record=True) as warned:
        # Others may be due to what tests before this one have left behind.
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", ".*was never awaited")
        loop.run_forever()
        loop.close()
        del crashing
        gc.collect()
    assert [str(each.message) for each in warned] == []


def test_a_direct_run_that_stops_itself_ends_at_its_next_wait() -> None:
    async def scenario() -> None:
        first, later = DirectPromise(), DirectPromise()

        async def stop() -> str:
            walk.run.stop()
            return "stopped"

        walk = Walk(lambda: first, stop, lambda: later)
        await asyncio.sleep(0)
        first.set(1)
        assert walk.seen == [1, "stopped", "end"]
        later.set(2)
        assert walk.seen == [1, "stopped", "end"]

    asyncio.run(scenario())
