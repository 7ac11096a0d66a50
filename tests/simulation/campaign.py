"""Runs many seeds in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial

from tests.simulation.simulation import Result, simulate

Simulate = Callable[[int], Result]
"""Runs one seed; must be a module-level function, since it is called in other processes."""


class Campaign:
    """Runs seeds on all processors; `results` come in any order."""

    def __init__(self, seeds: range, processes: int, simulate: Simulate = simulate):
        self._seeds = seeds
        self._simulate = simulate
        self._processes = processes
        self.failed: dict[int, list[str]] = {}
        """The violations of each failing seed."""
        self._done = 0
        self._steps = 0
        self._crashes = 0

    def results(self) -> Iterator[Result]:
        """One result per seed; closing the generator early ends the processes."""
        context = multiprocessing.get_context("forkserver")
        with context.Pool(self._processes, maxtasksperchild=500) as pool:
            for result in pool.imap_unordered(
                partial(_run, self._simulate), self._seeds, chunksize=5
            ):
                self._done += 1
                self._steps += result.steps
                self._crashes += result.crashes
                if result.violations:
                    self.failed[result.seed] = result.violations
                yield result

    def summary(self) -> str:
        """A summary of the seeds that were run."""
        return (
            f"{self._done:,} seeds, {self._steps:,} operations, {self._crashes:,} crashes,"
            f" {len(self.failed)} failing seeds"
        )


def _run(simulate: Simulate, seed: int) -> Result:
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
