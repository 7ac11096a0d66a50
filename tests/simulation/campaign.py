"""Runs many seeds in several processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NoReturn

from tests.simulation.simulation import Result, simulate

Simulate = Callable[[int], Result]
"""Runs one seed; must be a module-level function, since it is called in other processes."""

_SEEDS_OF_A_PROCESS = 1_000
"""About: the processes are then replaced, so that their memory stays bounded."""
_CHUNK = 5
_GARBAGE = 50_000
"""How many objects may be new before garbage is looked for: a seed leaves hundreds of thousands."""


class Campaign:
    """Runs seeds in several processes; `results` come in the order of the seeds.

    A seed that has not ended after `seed_limit_s` is named, with its stack, on the standard error,
    and ends its process.
    """

    def __init__(
        self, seeds: range, processes: int, simulate: Simulate = simulate, seed_limit_s: float = 300
    ):
        self._seeds = seeds
        self._seed_limit_s = seed_limit_s
        self._simulate = simulate
        self._processes = processes
        self.failed: dict[int, list[str]] = {}
        """The violations of each failing seed."""
        self._done = 0
        self._steps = 0
        self._crashes = 0

    def results(self) -> Iterator[Result]:
        """One result per seed; closing the generator early ends the processes.

        Raises BrokenProcessPool if a process dies, which also ends the others.
        """
        portion = _SEEDS_OF_A_PROCESS * self._processes
        for first in range(0, len(self._seeds), portion):
            yield from self._results(self._seeds[first : first + portion])

    def summary(self) -> str:
        """A summary of the seeds that were run."""
        return (
            f"{self._done:,} seeds, {self._steps:,} operations, {self._crashes:,} crashes,"
            f" {len(self.failed)} failing seeds"
        )

    def _results(self, seeds: range) -> Iterator[Result]:
        context = multiprocessing.get_context("forkserver")
        # The simulation is an argument so that its modules are imported first.
        pool = ProcessPoolExecutor(self._processes, context, _prepare, (self._simulate,))
        run = partial(_run, self._simulate, self._seed_limit_s)
        try:
            for result in pool.map(run, seeds, chunksize=_CHUNK):
                self._done += 1
                self._steps += result.steps
                self._crashes += result.crashes
                if result.violations:
                    self.failed[result.seed] = result.violations
                yield result
        finally:
            pool.shutdown(cancel_futures=True)


def _prepare(simulate: Simulate) -> None:
    """Let the garbage collector look rarely, and never at what is imported."""
    _end_with_the_parent()
    gc.freeze()
    gc.set_threshold(_GARBAGE, 2, 2)


def _end_with_the_parent() -> None:
    """End this process when the one that wants the results is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _run(simulate: Simulate, limit_s: float, seed: int) -> Result:
    signal.signal(signal.SIGALRM, partial(_give_up, seed))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        return simulate(seed)
    except Exception as error:
        return Result(
            seed=seed,
            violations=[f"the simulation broke: {error!r}"],
            digest="",
            steps=0,
            crashes=0,
            virtual_s=0,
        )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _give_up(seed: int, *_: object) -> NoReturn:
    """End the process: an exception, raised anywhere in an event loop, might not end the seed."""
    print(f"seed {seed} does not end:", file=sys.stderr)
    traceback.print_stack()
    sys.stderr.flush()
    os._exit(1)
