"""Coroutines without tasks, on every supported Python: a driver knows how asyncio's tasks wait."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from wirekafka.runtime.driver import start, start_later
from wirekafka.runtime.promise import DirectPromise, Promise

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
"""The supported versions."""


WAITS = """
import asyncio
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise

async def scenario():
    loop, seen = asyncio.get_running_loop(), []
    future, promise, failing = loop.create_future(), Promise(), loop.create_future()

    async def waiting():
        seen.append(await future)
        seen.append(await promise)
        await asyncio.sleep(0)
        seen.append("slept")
        try:
            await failing
        except ValueError as error:
            seen.append(str(error))

    start(waiting())
    assert seen == []
    future.set_result(1)
    await asyncio.sleep(0)
    assert seen == [1]
    promise.set(2)
    await asyncio.sleep(0)
    assert seen == [1, 2]
    await asyncio.sleep(0)
    assert seen == [1, 2, "slept"]
    failing.set_exception(ValueError("failed"))
    await asyncio.sleep(0)
    assert seen == [1, 2, "slept", "failed"]

asyncio.run(scenario(), debug=True)
"""


def python_of(version: str) -> str | None:
    """An interpreter of a version that works."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    places = [shutil.which(f"python{version}")]
    places += map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for place in filter(None, places):
        tried = subprocess.run([place, "-c", "import asyncio"], capture_output=True, check=False)
        if tried.returncode == 0:
            return place
    return None


@pytest.mark.parametrize("version", PYTHONS)
def test_a_driver_waits_as_a_task_does_on_every_supported_python(version: str) -> None:
    python = python_of(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    ran = subprocess.run(
        [python, "-W", "error", "-c", WAITS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_private_name_of_futures_is_used_in_one_place() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "wirekafka").rglob("*.py")
        if "_asyncio_future_blocking" in path.read_text()
    ]
    assert users == ["wirekafka/runtime/driver.py"]


def test_a_failure_is_raised_where_the_coroutine_went_on() -> None:
    async def fail() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        start(fail())


class Walk:
    """A coroutine of a `Driver` that awaits one thing after the other."""

    def __init__(self, *awaited: Callable[[], Awaitable[object]]):
        self.seen: list[object] = []
        self._awaited = awaited
        self.run = start_later(self._walk)

    async def _walk(self) -> None:
        try:
            for each in self._awaited:
                try:
                    self.seen.append(await each())
                except ValueError as error:
                    self.seen.append(str(error))
        finally:
            self.seen.append("end")


def test_a_driver_goes_on_within_the_call_that_sets_what_it_awaits() -> None:
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


def test_a_driver_awaits_futures_and_turns_of_the_event_loop_too() -> None:
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


def test_a_driver_that_is_stopped_ends_where_it_waits() -> None:
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


def test_a_driver_that_never_begins_makes_no_coroutine() -> None:
    async def crash() -> None:
        Walk(asyncio.Future)
        Walk(asyncio.Future).run.stop()
        # The loop ends with its current turn, as that of a simulated node that crashes.
        loop.stop()

    loop = asyncio.new_event_loop()
    crashing = loop.create_task(crash())
    with warnings.catch_warnings(record=True) as warned:
        # Others may be due to what tests before this one have left behind: kafka-python does not
        # close the sockets of connections that were refused.
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", ".*was never awaited")
        loop.run_forever()
        loop.close()
        del crashing
        gc.collect()
    assert [str(each.message) for each in warned] == []


def test_a_driver_that_stops_itself_ends_at_its_next_wait() -> None:
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
