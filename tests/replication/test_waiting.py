"""Parked requests: woken by changes and deadlines, and removed afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.manual_clock import ManualClock
from wirekafka.replication.partition.waiting import Waiting, Watched


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_change_wakes_only_requests_that_are_ready(manual_clock: ManualClock) -> None:
    async def scenario() -> None:
        waiting, partition, other = Waiting(manual_clock), Watched(), Watched()
        size = 0
        task = asyncio.ensure_future(
            waiting.until(
                lambda changed: changed is partition and size >= 2, [partition, other], 10**15
            )
        )
        await settled()
        other.wake()
        partition.wake()
        await settled()
        assert not task.done()
        size = 2
        partition.wake()
        assert await task is True
        assert not partition.watchers and not other.watchers and not len(waiting)

    run(scenario())


def test_the_deadline_ends_the_wait(manual_clock: ManualClock) -> None:
    async def scenario() -> None:
        waiting, partition = Waiting(manual_clock), Watched()
        task = asyncio.ensure_future(
            waiting.until(lambda _: True, [partition], manual_clock.now_ms() + 500)
        )
        await settled()
        manual_clock.advance(499)
        await settled()
        assert not task.done()
        manual_clock.advance(1)
        assert await task is False
        assert not partition.watchers

    run(scenario())


def test_an_abandoned_wait_removes_its_watch(manual_clock: ManualClock) -> None:
    async def scenario() -> None:
        waiting, partition = Waiting(manual_clock), Watched()
        coroutine = waiting.until(lambda _: True, [partition], 10**15)
        coroutine.send(None)
        assert partition.watchers and len(waiting) == 1
        coroutine.close()
        assert not partition.watchers and not len(waiting)
        partition.wake()

    run(scenario())


def test_closing_releases_all_waits_and_refuses_new_ones(manual_clock: ManualClock) -> None:
    async def scenario() -> None:
        waiting, partition = Waiting(manual_clock), Watched()
        task = asyncio.ensure_future(waiting.until(lambda _: True, [partition], 10**15))
        await settled()
        waiting.close()
        assert await task is False
        assert await waiting.until(lambda _: True, [partition], 10**15) is False

    run(scenario())


def test_a_watcher_that_an_earlier_one_removes_is_not_called() -> None:
    partition, calls = Watched(), []

    class Remover:
        def look(self, changed: Watched) -> None:
            calls.append(self)
            changed.watchers.clear()
            changed.wake()

    for watcher in (Remover(), Remover()):
        partition.watchers[watcher] = None
    partition.wake()
    assert len(calls) == 1


def test_a_gathering_wait_ends_after_other_changes_of_the_same_turn(
    manual_clock: ManualClock,
) -> None:
    async def scenario() -> None:
        waiting, partition = Waiting(manual_clock), Watched()
        appended: list[int] = []
        seen: list[list[int]] = []

        async def wait() -> None:
            assert await waiting.until(lambda _: True, [partition], 10**15, gathers=True)
            seen.append(list(appended))

        def append(value: int) -> None:
            appended.append(value)
            partition.wake()

        waits = asyncio.ensure_future(wait())
        await settled()
        loop = asyncio.get_running_loop()
        for value in range(3):
            loop.call_soon(append, value)
        await waits
        assert seen == [[0, 1, 2]]
        assert not partition.watchers and not len(waiting)

    run(scenario())


def test_a_gathering_wait_that_is_released_meanwhile_ends_once(manual_clock: ManualClock) -> None:
    async def scenario() -> None:
        waiting, partition = Waiting(manual_clock), Watched()
        task = asyncio.ensure_future(
            waiting.until(lambda _: True, [partition], 10**15, gathers=True)
        )
        await settled()
        partition.wake()
        waiting.release_all()
        assert await task is False
        await settled()
        assert not partition.watchers

    run(scenario())
