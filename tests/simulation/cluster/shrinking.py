"""Finds the faults that a failing seed of a cluster needs in order to fail."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tests.simulation.cluster.faults import planned
from tests.simulation.cluster.simulation import simulate


def shrunk(seed: int, report: Callable[[str], object]) -> set[int] | None:
    """The faults that can be left out all at once; None if the seed does not fail.

    First half of the faults is left out, then each quarter, and so on: a part stays away if a
    violation of the same kind is still found.
    """
    wanted = _kinds(seed, ())
    if not wanted:
        return None
    faults = planned(seed)
    report(f"seed {seed} with {len(faults)} faults: {', '.join(sorted(wanted))}")
    left_out: set[int] = set()
    size = max(len(faults) // 2, 1)
    while True:
        kept = [fault.number for fault in faults if fault.number not in left_out]
        was_smaller = False
        for at in range(0, len(kept), size):
            tried = left_out | set(kept[at : at + size])
            if wanted & _kinds(seed, tried):
                left_out, was_smaller = tried, True
                report(f"{len(faults) - len(left_out)} faults are enough")
        if size == 1 and not was_smaller:
            break
        size = max(size // 2, 1)
    for fault in faults:
        if fault.number not in left_out:
            report(f"needed: {fault}")
    return left_out


def _kinds(seed: int, left_out: Collection[int]) -> set[str]:
    """The first word of each violation."""
    found = simulate(seed, left_out=left_out).violations
    return {violation.split(" ")[0] for violation in found}
