"""Waiting for a condition, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout_s: float = 30, every_s: float = 0.05) -> T:
    """The first true value of `condition`; AssertionError with its last value or error."""
    deadline = time.monotonic() + timeout_s
    while True:
        last: object
        try:
            value = condition()
            if value:
                return value
            last = value
        except Exception as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s; at last: {last!r}")
        time.sleep(every_s)
