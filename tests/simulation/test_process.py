"""What belongs to a process waits while it is paused, and is dropped once it has ended."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

from tests.simulation.loop import NodeClock, VirtualLoop
from tests.simulation.process import Process


def run(scenario: Coroutine[Any, Any, None]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(scenario)
    finally:
        loop.close()


def started(done: list[str]) -> Process:
    """A process that notes each second, by a task, a timer and a thread."""
    loop = asyncio.get_running_loop()
    process = Process(loop)

    async def work() -> None:
        while True:
            await asyncio.sleep(1)
            done.append("task")
            loop.call_later(0.1, done.append, "timer")
            await asyncio.to_thread(done.append, "thread")

    process.create_task(work())
    return process


def test_a_paused_process_does_nothing_until_it_continues() -> None:
    async def scenario() -> None:
        loop, done = asyncio.get_running_loop(), list[str]()
        assert isinstance(loop, VirtualLoop)
        process = started(done)
        await asyncio.sleep(1.05)
        assert done == ["task", "thread"]
        process.pause()
        await asyncio.sleep(10)
        assert done == ["task", "thread"]
        loop.resume(process)
        await asyncio.sleep(0.01)
        assert done == ["task", "thread", "timer", "task", "thread"]

    run(scenario())


def test_nothing_of_a_process_is_run_after_its_end() -> None:
    async def scenario() -> None:
        done: list[str] = []
        process = started(done)
        await asyncio.sleep(1.05)
        process.end()
        process.run(done.append, "called")
        await asyncio.sleep(10)
        assert done == ["task", "thread"]
        assert process.died.done()

    run(scenario())


def test_no_finally_clause_of_an_ended_process_is_run_when_garbage_is_collected() -> None:
    """Ports that were closed so, after the next process had begun, changed the history."""

    async def scenario() -> None:
        loop, done = asyncio.get_running_loop(), list[str]()
        assert isinstance(loop, VirtualLoop)

        async def work() -> None:
            try:
                await loop.create_future()
            finally:
                done.append("finally")

        process = Process(loop)
        process.create_task(work())
        await asyncio.sleep(1)
        process.end()
        del process
        gc.collect()
        assert done == []

    run(scenario())


def test_a_process_that_ends_while_it_is_paused_does_not_continue() -> None:
    async def scenario() -> None:
        loop, done = asyncio.get_running_loop(), list[str]()
        assert isinstance(loop, VirtualLoop)
        process = started(done)
        process.pause()
        await asyncio.sleep(2)
        process.end()
        loop.resume(process)
        await asyncio.sleep(2)
        assert done == []

    run(scenario())


def test_a_cancelled_timer_of_a_paused_process_is_not_run() -> None:
    async def scenario() -> None:
        loop, done = asyncio.get_running_loop(), list[str]()
        assert isinstance(loop, VirtualLoop)
        process = Process(loop)
        timers: list[asyncio.TimerHandle] = []
        process.run(lambda: timers.append(loop.call_later(1, done.append, "timer")))
        process.pause()
        await asyncio.sleep(2)
        process.run(lambda: timers[0].cancel())
        timers[0].cancel()
        loop.resume(process)
        await asyncio.sleep(2)
        assert done == []

    run(scenario())


def test_work_in_a_thread_takes_as_long_as_the_disk_does() -> None:
    async def scenario() -> None:
        done: list[str] = []
        process = started(done)
        process.io_delay_s = lambda: 5.0
        await asyncio.sleep(5.9)
        assert done == ["task", "timer"]
        await asyncio.sleep(0.2)
        assert done == ["task", "timer", "thread"]

    run(scenario())


def test_a_clock_may_jump_and_drift() -> None:
    async def scenario() -> None:
        loop, fired = asyncio.get_running_loop(), list[float]()
        assert isinstance(loop, VirtualLoop)
        clock = NodeClock(loop, skew_ms=0, rate=2.0)
        begin_ms = clock.now_ms()
        clock.call_later(1_000, lambda: fired.append(loop.time()))
        await asyncio.sleep(3)
        assert fired == [0.5]
        assert clock.now_ms() - begin_ms == 6_000
        clock.offset_ms -= 4_000
        assert clock.now_ms() - begin_ms == 2_000

    run(scenario())
