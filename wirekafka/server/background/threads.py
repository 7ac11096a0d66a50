"""Runs long work in threads, and calls back on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from wirekafka.replication.raft.metadata_log import sync_inline


def sync_in_thread(
    run: Callable[[], None],
    done: Callable[[BaseException | None], None],
    pool: Executor | None = None,
) -> None:
    """Run an fsync in a thread, then call `done` on the event loop (a `metadata_log.Sync`).

    Other long work has a `pool` of its own, so that no fsync waits for it.
    """
    future = asyncio.get_running_loop().run_in_executor(pool, run)
    future.add_done_callback(lambda ended: None if ended.cancelled() else done(ended.exception()))


class OwnThread:
    """Runs long work piece by piece: in a thread of its own once started, before that at once."""

    def __init__(self, name: str):
        self._pool = ThreadPoolExecutor(1, name)  # Its thread starts with its first work.
        self._is_started = False

    def start(self) -> None:
        """Use the thread from now on; an event loop runs."""
        self._is_started = True

    def stop(self) -> None:
        """Drop the work that waits for the thread; later work runs at once again."""
        self._is_started = False
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run a piece of work, then call `done` on the event loop (a `metadata_log.Sync`)."""
        if self._is_started:
            sync_in_thread(run, done, self._pool)
        else:
            sync_inline(run, done)
