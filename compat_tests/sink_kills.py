"""The processes of a Spark query, found below its driver, and how each is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
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
_RESCAN_S = 0.5
"""How long processes are looked at before new ones are looked for, which costs more."""
_LONGEST_DELAY_S = 3.0
_LONGEST_COMMIT_S = 0.2
_LONGEST_WAIT_S = 90.0


class QueryProcesses:
    """The processes below the Python program of a driver."""

    def __init__(self, program: int, broker_port: int) -> None:
        self._program, self._broker_port = psutil.Process(program), broker_port

    def of(self, victim: str) -> list[psutil.Process]:
        """The processes of a kind that run now."""
        found = self._descendants()
        match victim:
            case "driver":
                return [each for each, words in found if "SparkSubmit" in words]
            case "executor":
                return [each for each, words in found if _EXECUTOR in words]
            case "commit process":
                commits = _forks([each for each, words in found if _COMMIT in words])
                return [each for each in commits if self._is_connected(each)]
            case "Python worker":
                executors = {each.pid for each, words in found if _EXECUTOR in words}
                workers = [each for each, words in found if "pyspark.daemon" in words]
                return _forks([each for each in workers if executors & _ancestors(each)])
            case _:
                raise ValueError(victim)

    def all(self) -> list[psutil.Process]:
        """All processes, to end what a killed driver leaves behind."""
        return [each for each, _ in self._descendants()]

    def await_moment(self, seed: random.Random, *, in_commit: bool) -> psutil.Process | None:
        """Wait for the moment of a kill; returns the process that commits at this moment, if any.

        The moment is in a commit, or anywhere in a batch.
        """
        if not in_commit:
            time.sleep(seed.random() * _LONGEST_DELAY_S)
            return next(iter(self.of(COMMIT)), None)
        deadline = time.monotonic() + _LONGEST_WAIT_S
        found: psutil.Process | None = None
        while found is None and time.monotonic() < deadline and self._program.is_running():
            found = self._seen_commit()
        if found is None:
            return None
        time.sleep(seed.random() ** 2 * _LONGEST_COMMIT_S)
        return found if self._is_connected(found) else None

    def _seen_commit(self) -> psutil.Process | None:
        """Look for a process that commits for a moment.

        Spark keeps the process for the next commit: it has no connections meanwhile.
        """
        found = self._descendants()
        known = _forks([each for each, words in found if _COMMIT in words])
        until_s = time.monotonic() + _RESCAN_S
        while time.monotonic() < until_s:
            for each in known:
                if self._is_connected(each):
                    return each
            time.sleep(_LOOK_S)
        return None

    def _is_connected(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            ports = {each.raddr.port for each in process.net_connections("tcp") if each.raddr}
            return self._broker_port in ports
        return False

    def _descendants(self) -> list[tuple[psutil.Process, str]]:
        found = []
        with suppress(psutil.NoSuchProcess):
            for each in self._program.children(recursive=True):
                with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    found.append((each, " ".join(each.cmdline())))
        return found


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
