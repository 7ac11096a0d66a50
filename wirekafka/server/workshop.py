"""Where logs are compacted: in a process of its own, or here for the disks of tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from wirekafka.errors import KafkaError
from wirekafka.log.cleaned_segment import CleanedSizes
from wirekafka.log.cleaner import Cleaned, Cleaner, CleaningJob
from wirekafka.log.files import Disk
from wirekafka.log.scan import BadBatch

_PACKAGES = Path(__file__).resolve().parent.parent.parent


class CleaningFailed(Exception):
    """A log could not be compacted; nothing of it has changed."""


class Workshop(Protocol):
    """Compacts one log at a time."""

    def clean(self, job: CleaningJob) -> AsyncIterator[Cleaned | int]:
        """Each new segment, and in the end the offset up to which the log is clean.

        Raises CleaningFailed.
        """

    async def rest(self) -> None:
        """Nothing is to be done for a while."""

    def abort(self) -> None:
        """Stop what is under way."""


def worker_environment() -> dict[str, str]:
    """The environment of a process that finds this very wirekafka, wherever it came from."""
    paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class WorkerProcess:
    """A `wirekafka.server.clean_worker`, started when there is a job and let go afterwards."""

    def __init__(self) -> None:
        self._process: Process | None = None

    async def clean(self, job: CleaningJob) -> AsyncIterator[Cleaned | int]:
        """As `Workshop` has it."""
        try:
            process = await self._running()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(job.encode().encode() + b"\n")
            await process.stdin.drain()
            while line := await process.stdout.readline():
                told = json.loads(line)
                if "error" in told:
                    raise CleaningFailed(told["error"])
                if "end" in told:
                    yield int(told["end"])
                    return
                yield Cleaned(told["replaced"], CleanedSizes(*told["sizes"]))
        except OSError as error:
            self.abort()
            raise CleaningFailed(f"no process to compact in: {error}") from error
        raise CleaningFailed("the process that compacts has ended")

    async def rest(self) -> None:
        """Let the process end."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()

    def abort(self) -> None:
        """Kill the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "wirekafka.server.clean_worker", stdin=PIPE, stdout=PIPE,
                env=worker_environment(),
                start_new_session=True)  # A Ctrl-C is for the broker, which then stops it.
        return self._process


class Here:
    """Compacts on the loop, for the disks of simulations and tests."""

    def __init__(self, disk: Disk):
        self._disk = disk

    async def clean(self, job: CleaningJob) -> AsyncIterator[Cleaned | int]:
        """As `Workshop` has it."""
        cleaner = Cleaner(self._disk, job)
        try:
            for cleaned in cleaner.groups():
                yield cleaned
                await asyncio.sleep(0)
        except (BadBatch, KafkaError, OSError) as error:
            raise CleaningFailed(str(error)) from error
        yield cleaner.cleaned_end_offset

    async def rest(self) -> None:
        """Nothing to let go of."""

    def abort(self) -> None:
        """Nothing to stop."""
