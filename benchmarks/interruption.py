"""Ends a benchmark on a signal: stops its brokers and clients, and reports that in a line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType

import psutil

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LEFT_LIMIT_S = 5


class Interrupted(BaseException):
    """Not an error: it passes whoever goes on after those."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def until_interrupted(program: Callable[[], int]) -> int:
    """What the program returns, or 128 and the number of the signal that ended it."""
    children: list[psutil.Process] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_IGN)  # One is enough: what follows is cleaning up.
        # Now, since whoever loses its parent is not found any more.
        children.extend(psutil.Process().children(recursive=True))
        raise Interrupted(number)

    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        return program()
    except Interrupted as interrupted:
        _kill(children)
        name = signal.Signals(interrupted.number).name
        print(f"ended by {name}: what was finished is kept", file=sys.stderr)
        return 128 + interrupted.number


def _kill(children: list[psutil.Process]) -> None:
    """Those that no `finally` has ended."""
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(children, _LEFT_LIMIT_S)
