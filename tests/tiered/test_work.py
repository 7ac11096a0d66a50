"""Jobs of the store run in a bounded number of threads, which nobody waits for at the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from tests.eventually import eventually_async
from wirekafka.errors import Error, KafkaError
from wirekafka.server.tiering.work import ReaderPool, Slots


class _Jobs:
    """Jobs that run until they are let go."""

    def __init__(self) -> None:
        self.running = 0
        self.release = threading.Event()

    def __call__(self) -> int:
        self.running += 1
        assert self.release.wait(30)
        return 7


def test_reads_beyond_the_pending_tasks_are_refused_and_may_be_retried() -> None:
    async def scenario() -> None:
        jobs = _Jobs()
        took_us: list[int] = []
        pool = ReaderPool(lambda: 1, most_waiting=2, took=took_us.append)
        assert pool.slots.idle == 1
        tasks = [asyncio.create_task(pool.run(jobs)) for _ in range(3)]
        await eventually_async(lambda: jobs.running == 1)
        assert (pool.slots.idle, pool.slots.waiting) == (0, 2)
        with pytest.raises(KafkaError) as caught:
            await pool.run(jobs)
        assert caught.value.error is Error.UNKNOWN_SERVER_ERROR
        jobs.release.set()
        assert await asyncio.gather(*tasks) == [7, 7, 7]
        assert await pool.run(jobs) == 7
        assert len(took_us) == 4

    asyncio.run(scenario())


def test_a_read_that_nobody_waits_for_any_more_still_takes_its_thread() -> None:
    async def scenario() -> None:
        jobs = _Jobs()
        pool = ReaderPool(lambda: 1, most_waiting=5)
        first = asyncio.create_task(pool.run(jobs))
        await eventually_async(lambda: jobs.running == 1)
        first.cancel()
        second = asyncio.create_task(pool.run(jobs))
        dropped = asyncio.create_task(pool.run(jobs))
        await asyncio.sleep(0)
        assert jobs.running == 1
        dropped.cancel()
        jobs.release.set()
        assert await second == 7
        assert jobs.running == 2

    asyncio.run(scenario())


def test_more_threads_are_used_as_soon_as_they_are_configured() -> None:
    async def scenario() -> None:
        limit = 1
        jobs = _Jobs()
        pool = ReaderPool(lambda: limit, most_waiting=5)
        tasks = [asyncio.create_task(pool.run(jobs)) for _ in range(2)]
        await eventually_async(lambda: jobs.running == 1)
        limit = 3
        tasks.append(asyncio.create_task(pool.run(jobs)))
        await eventually_async(lambda: jobs.running == 3)
        jobs.release.set()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_a_task_that_is_cancelled_at_its_turn_passes_the_turn_on() -> None:
    async def scenario() -> None:
        slots = Slots(lambda: 1)
        entered = []

        async def work(name: str) -> None:
            async with slots:
                entered.append(name)

        await slots.enter()
        first, second = (asyncio.create_task(work(name)) for name in ("first", "second"))
        await asyncio.sleep(0)
        slots.leave()
        first.cancel()
        await second
        assert entered == ["second"]

    asyncio.run(scenario())


def test_a_process_ends_though_a_read_hangs_for_ever() -> None:
    code = """
import asyncio, threading
from wirekafka.server.tiering.work import ReaderPool

async def main():
    pool = ReaderPool(lambda: 1, most_waiting=1)
    started = threading.Event()
    def hang():
        started.set()
        threading.Event().wait()
    task = asyncio.create_task(pool.run(hang))
    while not started.is_set():
        await asyncio.sleep(0.01)
    pool.close()

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
