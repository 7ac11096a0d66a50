"""Waiting for a condition, never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar

T = TypeVar("T")


class Impossible(Exception):
    """Raised by a condition that can no longer become true; `eventually` ends with it at once."""


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
        except Impossible:
            raise
        except Exception as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s; at last: {last!r}")
        time.sleep(every_s)


async def eventually_async(
    condition: Callable[[], T | Awaitable[T]], timeout_s: float = 30, every_s: float = 0.005
) -> T:
    """`eventually` on an event loop, whose other tasks go on; `condition` may be `async def`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        found = condition()
        value: T = await found if isawaitable(found) else found
        if value:
            return value
        if loop.time() > deadline:
            raise AssertionError(f"not within {timeout_s} s; at last: {value!r}")
        await asyncio.sleep(every_s)
