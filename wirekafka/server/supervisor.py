"""Runs the nodes of one machine as child processes: starts, restarts and stops them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from wirekafka.runtime.backoff import Backoff
from wirekafka.server.background.cleaner_process import worker_environment
from wirekafka.server.service_manager import ServiceManager
from wirekafka.server.stop_signals import stop_signals
from wirekafka.visible_text import json_text

logger = logging.getLogger(__name__)

READY = "wirekafka ready: "
"""The beginning of the line that a node prints once it is in service, with its address."""

_RESTARTS = Backoff(first_ms=100, longest_ms=30_000)
_STABLE_S = 30.0
"""A node that was in service for so many seconds is restarted without delay, despite earlier
failures."""
_STOP_S = 60.0
"""How long nodes that stop may take before they are killed."""
_STDOUT, _STDERR = 1, 2
_OF_THE_SERVICE_MANAGER = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Environment variables with which systemd addresses the parent alone."""


@dataclass(frozen=True, slots=True)
class Program:
    """A node to run: its name in logs, and the arguments of its `wirekafka serve`."""

    name: str
    arguments: Sequence[str]


class Child:
    """One node, in a process that is started again when it ends.

    The process is in a session of its own, so that Ctrl-C in a terminal reaches the parent only.
    It stops by itself if the parent is killed: its standard input ends then.
    """

    def __init__(self, program: Program, label: Callable[[bytes], bytes]):
        """`label` adds the node's name to a line of its log."""
        self.name = program.name
        self.address = ""
        """Where clients connect, once the process was in service for the first time."""
        self.failed = False
        """Whether the node could not start, or has not stopped cleanly."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the node comes into service, and when it ends before it first did."""
        self._program = program
        self._label = label
        self._process: asyncio.SubprocessTransport | None = None
        self._in_service_since: float | None = None
        self._stop = asyncio.Event()

    async def keep_running(self) -> None:
        """Run the process, again and again, until `signal`, or until the first start fails."""
        failures = 0
        while not self._stop.is_set():
            try:
                status = await self._run()
            except OSError as error:  # The system has no room for another process, say.
                logger.error("%s cannot be started: %s", self.name, error)
                status = 1
            since, self._in_service_since = self._in_service_since, None
            if self._stop.is_set():
                # A process that had not installed its handlers yet has changed nothing.
                self.failed = status != 0 and (status != -signal.SIGTERM or since is not None)
                return
            if not self.address:
                self.failed = True
                self.on_change()
                return
            if since is not None and asyncio.get_running_loop().time() - since >= _STABLE_S:
                failures = 0
            delay_s = _RESTARTS.delay_ms(failures) / 1000
            failures += 1
            logger.error("%s %s; restart in %.1f s", self.name, _ending(status), delay_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._stop.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal after which the process is not started again."""
        self._stop.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def in_service(self, address: str) -> None:
        """Note that the process serves clients at this address."""
        self._in_service_since = asyncio.get_running_loop().time()
        if self.address:
            logger.info("%s is in service again", self.name)
        self.address = address
        self.on_change()

    async def _run(self) -> int:
        """Run the process to its end; returns its exit status, negative for a signal."""
        environment = worker_environment()
        for name in _OF_THE_SERVICE_MANAGER:
            environment.pop(name, None)
        process, output = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Output(self.in_service, self._label),
            sys.executable,
            *("-m", "wirekafka", "serve", "--stop-at-eof", *self._program.arguments),
            env=environment,
            start_new_session=True,
        )
        self._process = process
        if self._stop.is_set():
            self.signal(signal.SIGTERM)  # It was being started when the stop was requested.
        await output.ended
        status = process.get_returncode()
        assert status is not None, "ended"
        return status


class _Output(asyncio.SubprocessProtocol):
    """The output of a process: its ready line, and its log, which is passed on with its name.

    The end of the process does not wait for the end of its pipes, which its workers may keep open.
    """

    def __init__(self, in_service: Callable[[str], None], label: Callable[[bytes], bytes]):
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._in_service = in_service
        self._label = label
        self._rest = {_STDOUT: b"", _STDERR: b""}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._rest[fd] = (self._rest[fd] + data).split(b"\n")
        if fd == _STDERR:
            self._log(lines)
            return
        for line in lines:
            text = line.decode(errors="replace")
            if text.startswith(READY):
                self._in_service(text.removeprefix(READY).strip())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDERR and self._rest[fd]:
            self._log([self._rest[fd]])

    def process_exited(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _log(self, lines: Sequence[bytes]) -> None:
        """Write whole lines to standard error at once, so that lines of two nodes do not mix."""
        with suppress(OSError):
            os.write(sys.stderr.fileno(), b"".join(self._label(line) + b"\n" for line in lines))


class Supervisor:
    """Runs nodes together, in stages: each starts after, and stops before, the previous one."""

    def __init__(
        self,
        stages: Sequence[Sequence[Program]],
        *,
        logs_json: bool,
        ready: Callable[[str], None] | None = None,
    ):
        """`logs_json` is whether the logs of the nodes are JSON.

        `ready` is called with the addresses of the last stage once all nodes are in service.
        """
        self._ready = ready
        label = _json_label if logs_json else _text_label
        self._stages = [[Child(each, label(each.name)) for each in stage] for stage in stages]
        self._tasks: dict[Child, asyncio.Task[None]] = {}
        self._should_stop = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self) -> int:
        """Run until SIGTERM, SIGHUP or Ctrl-C; returns the exit status.

        The ready line has the addresses of the last stage. A second signal kills the nodes.
        """
        for number in stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, self._stop_requested)
        manager = ServiceManager()
        for stage in self._stages:
            if not await self._start(stage):
                break
        else:
            addresses = ",".join(child.address for child in self._stages[-1])
            print(READY + addresses, flush=True)
            if self._ready is not None:
                self._ready(addresses)
            manager.ready()
            await self._should_stop.wait()
            logger.info("Stopping")
        not_started = [child.name for child in self._tasks if child.failed]
        manager.stopping()
        await self._stop()
        failed = [child.name for child in self._tasks if child.failed]
        if not_started:
            print(f"wirekafka: {', '.join(not_started)} did not start", file=sys.stderr)
        elif failed:
            logger.error("Not stopped cleanly: %s", ", ".join(failed))
        else:
            logger.info("Stopped")
        return 1 if failed else 0

    def _stop_requested(self) -> None:
        if self._should_stop.is_set():
            _signal(self._tasks, signal.SIGKILL)
        self._should_stop.set()
        self._changed.set()

    async def _start(self, stage: Sequence[Child]) -> bool:
        """Whether all nodes of a stage are in service; not if one fails, or a stop is requested."""
        for child in stage:
            child.on_change = self._changed.set
            self._tasks[child] = asyncio.get_running_loop().create_task(child.keep_running())
        while not all(child.address for child in stage):
            await self._changed.wait()
            self._changed.clear()
            if self._should_stop.is_set() or any(child.failed for child in stage):
                return False
        return True

    async def _stop(self) -> None:
        """Stop the nodes, stage by stage: brokers need their controller for a clean stop."""
        for stage in reversed(self._stages):
            tasks = [self._tasks[child] for child in stage if child in self._tasks]
            if not tasks:
                continue
            _signal(stage, signal.SIGTERM)
            _, late = await asyncio.wait(tasks, timeout=_STOP_S)
            if late:
                logger.error("Killing what has not stopped within %.0f s", _STOP_S)
                _signal(stage, signal.SIGKILL)
                await asyncio.wait(tasks)


def supervise(
    stages: Sequence[Sequence[Program]],
    *,
    logs_json: bool,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Run nodes until SIGTERM, SIGHUP or Ctrl-C; returns the exit status. See `Supervisor`."""
    with asyncio.Runner() as runner:
        return runner.run(Supervisor(stages, logs_json=logs_json, ready=ready).run())


def _signal(children: Iterable[Child], number: signal.Signals) -> None:
    for child in children:
        child.signal(number)


def _ending(status: int) -> str:
    if status >= 0:
        return f"has ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _text_label(name: str) -> Callable[[bytes], bytes]:
    prefix = f"{name}: ".encode()
    return lambda line: prefix + line


def _json_label(name: str) -> Callable[[bytes], bytes]:
    """Add the member `node` to an object; other lines, such as an interpreter's, are wrapped."""
    member = json.dumps(name)

    def label(line: bytes) -> bytes:
        if line.startswith(b'{"'):
            return f'{{"node": {member}, '.encode() + line[1:]
        wrapped = {"node": name, "message": line.decode(errors="replace")}
        return json_text(wrapped).encode()

    return label
