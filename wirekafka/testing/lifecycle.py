"""`with` and `async with` for brokers and clusters under test, and their temporary directories."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from wirekafka.testing.operations import in_asyncio


class Lifecycle(ABC):
    """Started and stopped by `with`, `async with`, or by `start` and `stop`."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and return once clients are served."""

    @abstractmethod
    def stop(self) -> None:
        """Stop cleanly."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.create_task(_in_thread(self.start)) if in_asyncio() else None
        if starting is None:
            return self.start()
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread starts it all the same, and nobody else would stop it.
            with suppress(Exception):
                await starting
            self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await _in_thread(self.stop)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a broker cannot be given to another process: give its bootstrap_servers")


def scratch_directory() -> tuple[str, Callable[[], None]]:
    """Create a temporary directory; returns its path, and a function that removes it."""
    path = tempfile.mkdtemp(prefix="wirekafka-")
    return path, partial(_remove, path, os.getpid())


def _remove(scratch: str, process_id: int) -> None:
    # A forked child that exits must not remove the directory of its parent.
    if os.getpid() == process_id:
        shutil.rmtree(scratch, ignore_errors=True)


async def _in_thread(do: Callable[[], object]) -> None:
    """Call a function in a thread under asyncio, and directly under other event loops."""
    if in_asyncio():
        await asyncio.to_thread(do)
    else:
        do()
