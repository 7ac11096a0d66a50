"""A broker in a child process, whose engine is called through a pipe."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from wirekafka.testing.engine import Engine
from wirekafka.testing.loop_thread import EngineGone
from wirekafka.testing.setup import Setup

_DOWN_TIMEOUT_S = 10.0
_OWN = frozenset(
    {"start", "stop", "close", "crash", "restart", "revive", "abandon"}
    | {"members", "leader", "coordinator"}
)


class RemoteEngine(Engine):
    """An `Engine` whose methods run in a child process; `crash` kills that process.

    Rules and recorded exchanges are lost with the process.
    """

    def __init__(self, setup: Setup):
        self._setup = setup
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._one_at_a_time = threading.Lock()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in _OWN or not hasattr(Engine, name):
            return super().__getattribute__(name)
        return lambda *arguments: self._call(name, *arguments)

    def start(self) -> tuple[str, int]:
        """Start the process; returns host and port. Raises OSError, ValueError."""
        return self._spawn()

    def restart(self) -> tuple[str, int]:
        """Start again on the same directory and port."""
        if self._child is not None:
            address: tuple[str, int] = self._call("restart")
            return address
        return self._spawn()

    def abandon(self, ended: Callable[[], object]) -> None:
        """Let the process end, without waiting for it; `ended` is called at once."""
        if self._pipe is not None:
            self._pipe.close()  # The child then stops.
        ended()

    def revive(self) -> None:
        """`restart` after a crash; do nothing if the broker runs."""
        if self._child is None:
            self._spawn()
        else:
            self._call("revive")

    def crash(self) -> None:
        """Kill the process by SIGKILL."""
        child, pipe, self._child, self._pipe = self._child, self._pipe, None, None
        if child is not None and pipe is not None:
            child.send_signal(signal.SIGKILL)
            child.wait()
            pipe.close()

    def stop(self) -> None:
        """Stop the broker cleanly; the process remains for `restart`."""
        if self._child is not None:
            self._call("stop")

    def close(self) -> None:
        """Stop cleanly and end the process."""
        child, pipe, self._child, self._pipe = self._child, self._pipe, None, None
        if child is None or pipe is None:
            return
        pipe.close()  # The child then stops.
        try:
            child.wait(_DOWN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _spawn(self) -> tuple[str, int]:
        # Only the child holds the other end, so that its early death ends the wait for it.
        self._pipe, theirs = Pipe()
        try:
            with theirs:
                self._child = subprocess.Popen(  # noqa: S603 (our own module)
                    [sys.executable, "-m", "wirekafka.testing.remote", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            self._send(pickle.dumps(self._setup))
            host, bound = self._answer()
        except BaseException:
            self.close()
            raise
        self._setup = replace(self._setup, port=bound)
        return host, bound

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._one_at_a_time:
            if self._pipe is None:
                raise EngineGone("the broker is down: start it again with broker.restart()")
            try:
                message = pickle.dumps((name, arguments))
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise ValueError(
                    f"a broker in a child process cannot be given this: {error};"
                    " leave out when=, or process=True"
                ) from None
            self._send(message)
            return self._answer()

    def _send(self, message: bytes) -> None:
        assert self._pipe is not None
        # `_answer` reports that the process has ended.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._pipe.send_bytes(message)

    def _answer(self) -> Any:
        assert self._pipe is not None
        try:
            is_good, value = self._pipe.recv()
        except (EOFError, OSError):
            raise EngineGone("the broker's process has ended") from None
        if not is_good:
            raise value
        return value


def _serve(pipe: Connection) -> None:
    """Run in the child: execute calls until the parent closes the pipe."""
    engine = None
    try:
        setup: Setup = pipe.recv()
        engine = Engine(setup)
        pipe.send((True, engine.start()))
        while True:
            # The pipe is inherited from the parent: nobody else can write to it.
            name, arguments = pickle.loads(pipe.recv_bytes())  # noqa: S301
            try:
                answer = True, getattr(engine, name)(*arguments)
            except Exception as error:
                answer = False, error
            pipe.send(answer)
    except (EOFError, ConnectionError):
        pass
    except Exception as error:
        pipe.send((False, error))
    finally:
        if engine is not None:
            engine.close()


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # A Ctrl-C must reach the tests only, which then stop this process.
    _serve(Connection(int(sys.argv[1])))
