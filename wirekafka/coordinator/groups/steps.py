"""Computations that can pause: generators that yield where other work may run."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A computation that yields at each place where it may pause, and returns its result.

Between two places it computes for about 10 µs, such as the target of one member.
"""


MEMBERS_PER_STEP = 8
"""How many members are gone through between two places, where little is done for each."""


def finish(steps: Steps[T]) -> T:
    """Run a computation to its end without pausing, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
