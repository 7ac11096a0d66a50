"""How often tests repeat random cases: a few times in `make test`, many in `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest


def is_thorough() -> bool:
    """Whether all seeds and whole sweeps are wanted, as `make test-all` says."""
    return os.environ.get("WIREKAFKA_TESTS") == "all"


def repetitions(variable: str, *, usual: int, thorough: int) -> int:
    """The number in the environment's `variable`, or the number for this kind of run."""
    given = os.environ.get(variable)
    if given:
        return int(given)
    return thorough if is_thorough() else usual


def seeds(variable: str, *, usual: int, thorough: int) -> int:
    """As `repetitions`, where WIREKAFKA_SEEDS (`make test SEEDS=500`) sets all simulations."""
    everywhere = os.environ.get("WIREKAFKA_SEEDS")
    if everywhere:
        usual = thorough = int(everywhere)
    return repetitions(variable, usual=usual, thorough=thorough)


def swept(cases: Iterable[Any], *, every: int) -> list[Any]:
    """Parameters of a sweep: one in `every` is usual, the others have the marker `sweep`.

    `make test` omits tests with that marker, `make test-all` runs them.
    """
    return [case if number % every == 0 else _marked(case) for number, case in enumerate(cases)]


def _marked(case: Any) -> Any:
    # pytest's own type of parameters is private: it is recognized by its fields.
    if hasattr(case, "values") and hasattr(case, "marks"):
        return pytest.param(*case.values, marks=(*case.marks, pytest.mark.sweep), id=case.id)
    return pytest.param(case, marks=pytest.mark.sweep)
