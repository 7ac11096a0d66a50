"""The process that writes tables: started, restarted after failures, and stopped."""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress

from wirekafka.clock import Clock
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.promise import Promise
from wirekafka.server.background.cleaner_process import worker_environment

logger = logging.getLogger(__name__)

COMMAND = [sys.executable, "-m", "wirekafka.translation.worker"]
_RESTARTS = Backoff(first_ms=500, longest_ms=60_000)
_STABLE_MS = 60_000
"""A process that has run for so long is restarted without much delay, despite earlier failures."""
_STOP_S = 10.0
"""How long a process may take to end once its input has ended, before it is killed."""
_LINE_BYTES = 64 << 20
"""The longest line: a topic with all its partitions."""
_READ_BYTES = 1 << 16
_LOGGED_BYTES = 4 << 10
"""Of a line of standard error."""


class WorkerProcess:
    """The worker, which is sent lines and reports lines; one process at a time."""

    def __init__(self, clock: Clock, first_line: Callable[[], bytes]):
        """`first_line` returns what each process is sent at its start."""
        self._clock = clock
        self._first_line = first_line
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._known: bytes = b""
        """The first line of the running process."""
        self._is_stopped = False
        self._last_error = ""
        self._pause: Promise[None] | None = None
        """The wait for the next start."""
        self._limit: asyncio.TimerHandle | None = None
        """When the process is killed unless it has ended."""
        self.started: Callable[[], None] = lambda: None
        """Called when a process takes lines."""
        self.received: Callable[[bytes], None] = lambda line: None
        """Called with each line of its standard output."""
        self.failures = 0
        """How many processes have ended by themselves."""

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.returncode is None

    @property
    def _is_ending(self) -> bool:
        stdin = None if self._process is None else self._process.stdin
        return stdin is not None and stdin.is_closing()

    def start(self) -> None:
        """Keep a process running from now on; no effect if that has begun."""
        if self._task is None and not self._is_stopped:
            self._task = asyncio.get_running_loop().create_task(self._keep_running())

    def send(self, line: bytes) -> bool:
        """Send a line; False if no process takes it now, or if the last line still waits."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return False
        if process.stdin.transport.get_write_buffer_size():
            return False
        process.stdin.write(line)
        return True

    def renew(self) -> None:
        """Replace the process if its first line would be another one now."""
        if self.is_running and not self._is_ending and self._known != self._first_line():
            self._end_input()

    async def stop(self) -> None:
        """End the input of the process, and wait until it has ended; it is killed if that lasts."""
        self._is_stopped = True
        self._end_input()
        if self._pause is not None:
            self._pause.set(None)
        if self._task is not None:
            await asyncio.wait([self._task])

    def abort(self) -> None:
        """Kill the process."""
        self._is_stopped = True
        self._kill()
        if self._task is not None:
            self._task.cancel()

    async def _keep_running(self) -> None:
        failures = 0
        while not self._is_stopped:
            began_ms = self._clock.now_ms()
            ending = await self._live()
            if self._is_stopped:
                return
            if ending is None:
                continue
            self.failures += 1
            if self._clock.now_ms() - began_ms >= _STABLE_MS:
                failures = 0
            delay_ms = _RESTARTS.delay_ms(failures)
            failures += 1
            logger.error("The worker of tables %s; restart in %.1f s", ending, delay_ms / 1_000)
            self._pause = Promise()
            await self._pause.within(self._clock, delay_ms)
            self._pause = None

    async def _live(self) -> str | None:
        """Run one process to its end; returns how it failed, or None if that was wanted."""
        self._known, self._last_error = self._first_line(), ""
        try:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=_LINE_BYTES,
                env=worker_environment(),
                start_new_session=True,
            )  # A Ctrl-C must reach the broker only, which then stops the worker.
        except OSError as error:
            return f"cannot be started: {error}"
        assert process.stdin and process.stdout and process.stderr
        self._process = process
        errors = asyncio.create_task(self._log_errors(process.stderr))
        try:
            process.stdin.write(self._known)
            if self._is_stopped:
                self._end_input()
            self.started()
            with suppress(ValueError):  # A longer line: the process is of no use.
                while line := await process.stdout.readline():
                    self.received(line)
            if not process.stdin.is_closing():
                with suppress(ProcessLookupError):
                    process.kill()  # It has closed its output, and may still run.
            status = await process.wait()
            await asyncio.wait([errors], timeout=1)
        finally:
            errors.cancel()
            self._process = None
            if self._limit is not None:
                self._limit.cancel()
            is_wanted = process.stdin.is_closing()
            process.stdin.close()
        if is_wanted and status == 0:
            return None
        shown = f"exit status {status}" if status >= 0 else f"signal {-status}"
        return f"has ended with {shown}" + (f" ({self._last_error})" if self._last_error else "")

    async def _log_errors(self, stream: asyncio.StreamReader) -> None:
        """Pass on what the process logs, line by line."""
        rest = b""
        while piece := await stream.read(_READ_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            for line in filter(None, lines):
                text = line[:_LOGGED_BYTES].decode(errors="replace")
                self._last_error = text
                logger.warning("The worker of tables: %s", text)
            rest = rest[:_LOGGED_BYTES]

    def _end_input(self) -> None:
        """Let the process end, and kill it if that lasts too long."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._limit = asyncio.get_running_loop().call_later(_STOP_S, self._kill_late)

    def _kill_late(self) -> None:
        logger.warning("The worker of tables did not end within %.0f s, and is killed", _STOP_S)
        self._kill()

    def _kill(self) -> None:
        if self.is_running and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
