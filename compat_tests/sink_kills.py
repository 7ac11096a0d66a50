"""The processes of a Spark query, found below its driver, and how each is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

DRIVER, WORKER, EXECUTOR, COMMIT, BROKER = VICTIMS = (
    "driver",
    "Python worker",
    "executor",
    "commit process",
    "broker",
)
_EXECUTOR = "CoarseGrainedExecutorBackend"
_COMMIT = "python_streaming_sink_runner"
_LOOK_S = 0.004
_LONGEST_DELAY_S = 0.5
_LONGEST_WAIT_S = 10.0
_IN_COMMITS = 0.5
"""The share of kills that wait for a commit to begin."""


class QueryProcesses:
    """The processes below the Python program of a driver."""

    def __init__(self, program: int) -> None:
        self._program = psutil.Process(program)

    def of(self, victim: str) -> list[psutil.Process]:
        """The processes of a kind that run now."""
        found = self._descendants()
        match victim:
            case "driver":
                return [each for each, words in found if "SparkSubmit" in words]
            case "executor":
                return [each for each, words in found if _EXECUTOR in words]
            case "commit process":
                return _forks([each for each, words in found if _COMMIT in words])
            case "Python worker":
                executors = {each.pid for each in self.of(EXECUTOR)}
                workers = [each for each, words in found if "pyspark.daemon" in words]
                return _forks([each for each in workers if executors & _ancestors(each)])
            case _:
                raise ValueError(victim)

    def kill(self, victim: str) -> bool:
        """Kill a process of a kind with SIGKILL; returns whether there was any."""
        found = self.of(victim)
        for each in found[:1]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        if victim == DRIVER:
            # Its Python program has nothing left to do. Executors end by themselves, and later.
            with suppress(psutil.NoSuchProcess):
                self._program.kill()
        return bool(found)

    def all(self) -> list[psutil.Process]:
        """All processes, to end what a killed driver leaves behind."""
        return [each for each, _ in self._descendants()]

    def _descendants(self) -> list[tuple[psutil.Process, str]]:
        found = []
        with suppress(psutil.NoSuchProcess):
            for each in self._program.children(recursive=True):
                with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    found.append((each, " ".join(each.cmdline())))
        return found


def await_moment(
    processes: QueryProcesses, seed: random.Random, is_over: Callable[[], bool]
) -> str:
    """Wait for the moment of a kill, and name it: at a commit, or anywhere within a batch."""
    name = "in a batch"
    deadline = time.monotonic() + _LONGEST_WAIT_S
    if seed.random() < _IN_COMMITS:
        # Spark's own sink has no such process.
        while not is_over() and time.monotonic() < deadline:
            if processes.of(COMMIT):
                name = "in a commit"
                break
            time.sleep(_LOOK_S)
    time.sleep(seed.random() * _LONGEST_DELAY_S)
    return name


def _forks(found: Sequence[psutil.Process]) -> list[psutil.Process]:
    """The processes that do the work: Spark's daemon has the same command line as its forks."""
    known = {each.pid for each in found}
    forks = []
    for each in found:
        with suppress(psutil.NoSuchProcess):
            if each.ppid() in known:
                forks.append(each)
    return forks


def _ancestors(process: psutil.Process) -> set[int]:
    with suppress(psutil.NoSuchProcess):
        return {each.pid for each in process.parents()}
    return set()
