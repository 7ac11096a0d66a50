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
    """Ends the program; not an Exception, so that no error handling catches it."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def until_interrupted(program: Callable[[], int]) -> int:
    """The program's result, or 128 plus the number of the signal that ended it."""
    children: list[psutil.Process] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_IGN)  # Further signals are ignored during the clean-up.
        # Now, since processes that lose their parent are not found afterwards.
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
    """Kill the processes that no `finally` has ended."""
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(children, _LEFT_LIMIT_S)
