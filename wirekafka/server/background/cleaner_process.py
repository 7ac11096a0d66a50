"""Runs compaction jobs: in a worker process, or on the event loop for the disks of tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

from wirekafka.errors import KafkaError
from wirekafka.log.compaction.cleaned_segment import CleanedSizes
from wirekafka.log.compaction.cleaner import Cleaned, Cleaner, CleaningJob
from wirekafka.log.files import Disk
from wirekafka.log.scan import BadBatch

_PACKAGES = Path(__file__).resolve().parent.parent.parent


class CleaningFailed(Exception):
    """A log could not be compacted and is unchanged."""


class CleanerBackend(Protocol):
    """Compacts one log at a time."""

    def clean(self, job: CleaningJob) -> AsyncGenerator[Cleaned | int]:
        """Yield each new segment, then the offset up to which the log is clean.

        To be closed before the next job: that ends a job which is not complete. Raises
        CleaningFailed.
        """

    async def rest(self) -> None:
        """Release resources, as no job is due for a while."""

    def abort(self) -> None:
        """Stop the running job, if any."""


def worker_environment() -> dict[str, str]:
    """Environment variables with which a child process imports this same wirekafka package."""
    paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class CleanerProcess:
    """Runs jobs in a process of `clean_worker`, which is started for the first job."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._killed: Process | None = None

    async def clean(self, job: CleaningJob) -> AsyncGenerator[Cleaned | int]:
        """See `CleanerBackend.clean`."""
        is_over = False
        try:
            process = await self._running()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(job.encode().encode() + b"\n")
            await process.stdin.drain()
            while line := await process.stdout.readline():
                message = json.loads(line)
                is_over = "error" in message or "end" in message
                if "error" in message:
                    raise CleaningFailed(message["error"])
                if "end" in message:
                    yield int(message["end"])
                    return
                yield Cleaned(message["replaced"], CleanedSizes(*message["sizes"]))
        except OSError as error:
            raise CleaningFailed(f"the cleaner process cannot be used: {error}") from error
        finally:
            if not is_over:
                # What it still reports must not be taken for the outcome of the next job.
                await self._kill()
        raise CleaningFailed("the cleaner process has exited")

    async def rest(self) -> None:
        """End the worker process and wait until it has exited."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()

    def abort(self) -> None:
        """Kill the worker process."""
        process = self._process
        # Once: before Python 3.12, a second signal may take the exit status from asyncio.
        if process is not None and process.returncode is None and process is not self._killed:
            self._killed = process
            process.kill()

    async def _kill(self) -> None:
        self.abort()
        process, self._process = self._process, None
        if process is not None:
            await process.wait()

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "wirekafka.server.background.clean_worker",
                stdin=PIPE,
                stdout=PIPE,
                env=worker_environment(),
                start_new_session=True,
            )  # A Ctrl-C must reach the broker only, which then stops the worker.
        return self._process


class InlineCleaner:
    """Compacts on the event loop, for the disks of simulations and tests."""

    def __init__(self, disk: Disk):
        self._disk = disk

    async def clean(self, job: CleaningJob) -> AsyncGenerator[Cleaned | int]:
        """See `CleanerBackend.clean`."""
        cleaner = Cleaner(self._disk, job)
        try:
            for cleaned in cleaner.groups():
                yield cleaned
                await asyncio.sleep(0)
        except (BadBatch, KafkaError, OSError) as error:
            raise CleaningFailed(str(error)) from error
        yield cleaner.cleaned_end_offset

    async def rest(self) -> None:
        """Do nothing: there is no process."""

    def abort(self) -> None:
        """Do nothing: cancelling the task that iterates over `clean` ends the job."""
