"""The same broker in a process of its own, whose engine is asked through a pipe."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from wirekafka.testing.engine import Engine, EngineGone, Setup

_DOWN_TIMEOUT_S = 10.0
_OWN = frozenset({"start", "stop", "close", "crash", "restart", "revive",
                  "abandon"})


class RemoteEngine(Engine):
    """An `Engine` whose methods run in a child process; `crash` kills that process.

    Rules and recordings die with it.
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
        """Start the process; the address. Raises OSError, ValueError."""
        return self._spawn()

    def restart(self) -> tuple[str, int]:
        """Start on the same directory, at the same port."""
        if self._child is not None:
            address: tuple[str, int] = self._call("restart")
            return address
        return self._spawn()

    def abandon(self) -> None:
        """Have it end, without waiting for that."""
        if self._pipe is not None:
            self._pipe.close()  # Upon which it stops.

    def revive(self) -> None:
        """`restart` after a crash; nothing if it runs."""
        if self._child is None:
            self._spawn()
        else:
            self._call("revive")

    def crash(self) -> None:
        """`kill -9`."""
        child, pipe, self._child, self._pipe = self._child, self._pipe, None, None
        if child is not None and pipe is not None:
            child.send_signal(signal.SIGKILL)
            child.wait()
            pipe.close()

    def stop(self) -> None:
        """Stop cleanly; the process stays, for `restart`."""
        if self._child is not None:
            self._call("stop")

    def close(self) -> None:
        """Stop cleanly, and end the process."""
        child, pipe, self._child, self._pipe = self._child, self._pipe, None, None
        if child is None or pipe is None:
            return
        pipe.close()  # Upon which it stops.
        try:
            child.wait(_DOWN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _spawn(self) -> tuple[str, int]:
        # The child alone holds the other end: if it dies before it is up, this one is told.
        self._pipe, theirs = Pipe()
        try:
            with theirs:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", "wirekafka.testing.remote", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
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
                raise ValueError(f"a broker in a process of its own cannot be given this: {error};"
                                 " leave out when=, or process=True") from None
            self._send(message)
            return self._answer()

    def _send(self, message: bytes) -> None:
        assert self._pipe is not None
        # Whether it has ended is told where its answer is looked for.
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
    """Be the child: do what is asked until the parent is gone."""
    engine = None
    try:
        setup: Setup = pipe.recv()
        engine = Engine(setup)
        pipe.send((True, engine.start()))
        while True:
            name, arguments = pickle.loads(pipe.recv_bytes())
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then stop us.
    _serve(Connection(int(sys.argv[1])))
