"""A broker in a thread of its own: started, crashed and started again, asked from any thread."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CoroutineType
from typing import Any, TypeVar

from wirekafka.apis import registry
from wirekafka.apis.registry import Call
from wirekafka.broker import Broker
from wirekafka.codec.batch import batches
from wirekafka.codec.message import Request, Response
from wirekafka.coordinator.shards import Shards
from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.log_directory import UnusableDirectory
from wirekafka.log.recovery import CorruptLog
from wirekafka.replication.partition import ReadRange
from wirekafka.server.node import Node, Surroundings
from wirekafka.testing.clock import LongPollClock, VirtualClock
from wirekafka.testing.disk import TestDisk
from wirekafka.testing.rules import LiveRule, RuleBook, RuleSpec
from wirekafka.testing.serving import Serving
from wirekafka.testing.settings import checked
from wirekafka.testing.traffic import Exchange, Recorder

T = TypeVar("T")

registry.load()  # Here, so that it is part of the import and not of the first start.

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an engine starts from. `syncs` is for directories that are kept."""

    settings: Mapping[str, str]
    directory: str
    host: str = "127.0.0.1"
    port: int = 0
    syncs: bool = False


class EngineGone(RuntimeError):
    """The broker was stopped, so it cannot be asked any more."""


class Engine:
    """All of a broker that a test can take hold of. Methods are called from any thread but its
    own; what they take and return can be pickled."""

    def __init__(self, setup: Setup):
        self._setup = setup
        self._process_id = os.getpid()
        self._config = checked(_with_address(setup, setup.port))
        self._port = setup.port
        self._loop = asyncio.new_event_loop()
        self._clock = VirtualClock(self._loop)
        self._disk = TestDisk(syncs=setup.syncs)
        self._rules = RuleBook()
        self._recorder = Recorder()
        self._serving = Serving(self._rules, self._recorder)
        self._node: Node | None = None
        self._refusals = 0
        self._fillings = 0
        self._thread = threading.Thread(target=self._main, name="wirekafka", daemon=True)

    # The thread.

    def start(self) -> tuple[str, int]:
        """Come up; the address. Raises OSError, ValueError."""
        self._thread.start()
        try:
            return self.restart()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop as told to, and end the thread."""
        if not self._thread.is_alive():
            return
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def abandon(self) -> None:
        """Have it end as by a crash, without waiting for that: its owner is gone."""
        def end() -> None:
            if self._node is not None:
                self._node.abort()
            self._loop.stop()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(end)

    def restart(self) -> tuple[str, int]:
        """Start on the directory as it is, at the same port. Raises OSError, ValueError."""
        return self._run(self._start())

    def revive(self) -> None:
        """`restart` after a crash; nothing if it runs."""
        async def start_if_down() -> None:
            if self._node is None:
                await self._start()
        self._run(start_if_down())

    def stop(self) -> None:
        """Stop cleanly, as SIGTERM does; the engine can `restart`."""
        self._run(self._stop())

    def crash(self) -> None:
        """Stop as `kill -9` does."""
        self._run(self._abort())

    def _main(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            self._clock.forget()
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            coroutine.close()
            raise EngineGone("the broker was stopped" if self._process_id == os.getpid() else
                             "the broker runs in the process this one was forked from: connect to"
                             " its bootstrap_servers from here, as any client does")
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("asked from the broker's own thread, in which `when=` is called: it"
                               " would wait for itself; decide by the request alone")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _do(self, function: Callable[..., T], *arguments: Any) -> T:
        async def call() -> T:
            return function(*arguments)

        return self._run(call())

    async def _start(self) -> tuple[str, int]:
        assert self._node is None, "it runs"
        config = checked(_with_address(self._setup, self._port))
        node = Node(config, Surroundings(
            clock=lambda loop: self._clock, disk=lambda: self._disk,
            serve=self._serving.serve, recover=None))
        try:
            await node.start()
        except (UnusableDirectory, CorruptLog) as error:
            raise ValueError(str(error)) from None
        except OSError as error:
            if "cannot listen" in str(error):
                hint = "; port=0 takes a free port" if "in use" in str(error) else ""
                raise OSError(f"{error}{hint}") from None
            raise
        node.broker.waiting.clock = LongPollClock(self._clock, self._loop)
        self._node = node
        if self._refusals:
            self._stop_accepting()
        host, self._port = node.address
        return host, self._port

    async def _stop(self) -> None:
        node, self._node = self._node, None
        self._rules.clear()
        self._serving.forget_throttling()
        if node is not None:
            await node.stop()
        self._clock.forget()

    async def _abort(self) -> None:
        node, self._node = self._node, None
        if node is None:
            return
        self._clock.forget()
        node.abort()
        await asyncio.sleep(0)

    @property
    def _broker(self) -> Broker:
        if self._node is None:
            raise EngineGone("the broker is down: start it again with broker.restart()")
        return self._node.broker

    # Asking.

    def ask(self, request: Request, version: int) -> Response:
        """Have a request handled as if a client had sent it, past all rules and recording."""
        return self._run(self._ask(request, version))

    async def _ask(self, request: Request, version: int) -> Response:
        route = registry.find(type(request).key << 16 | version)
        assert route is not None
        call = Call(self._broker)
        call.version, call.client_id = version, "wirekafka-testing"
        try:
            response = route.handle(request, call)
            if response.__class__ is CoroutineType:
                response = await response
        except KafkaError as error:
            response = route.api.failure(request, error, call)
        answer: Response = response
        return answer

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions, Kafka's own too."""
        return self._do(lambda: {
            name: len(topic.partitions) for name, topic in self._broker.image.topics.items()})

    def batches(self, topic: str, partition: int) -> tuple[bytes, int]:
        """All batches of a partition as they lie in its log, and its last stable offset."""
        return self._do(self._batches, topic, partition)

    def _batches(self, topic: str, index: int) -> tuple[bytes, int]:
        partition = self._broker.partition(topic, index)
        data, offset = [], partition.log.start_offset
        while offset < partition.high_watermark:
            found = partition.read(ReadRange(offset=offset, max_bytes=_READ_BYTES))
            piece = b"".join(found.records.buffers()) if found.records is not None else b""
            whole = 0
            for position, header in batches(piece):
                whole, offset = position + header.size_bytes, header.end_offset
            data.append(piece[:whole])
            if not whole:
                break
        return b"".join(data), partition.last_stable_offset

    def aborted(self, topic: str, partition: int) -> list[tuple[int, int, int]]:
        """Producer id, first and last offset of every aborted transaction."""
        def find() -> list[tuple[int, int, int]]:
            log = self._broker.partition(topic, partition).log
            return [(each.producer_id, each.first_offset, each.last_offset)
                    for each in log.aborted_transactions(log.start_offset, log.end_offset)]
        return self._do(find)

    def cluster_id(self) -> str:
        """As clients are told."""
        return self._do(lambda: self._broker.cluster_id)

    def topic_id(self, topic: str) -> str:
        """As clients are told."""
        return self._do(lambda: uuid_text(self._broker.image.topics[topic].id))

    def exchanges(self) -> list[Exchange]:
        """What was recorded, oldest first."""
        return self._do(lambda: list(self._recorder.exchanges))

    def forget_exchanges(self) -> None:
        """Record from here."""
        self._do(self._recorder.clear)

    # Faults.

    def add_rule(self, spec: RuleSpec) -> int:
        """Put a rule in force; its number."""
        def add() -> int:
            number = self._rules.add(spec)
            if "Fetch" in spec.apis and self._node is not None:
                # Those that wait for data are to come again, under the rule.
                self._node.broker.waiting.release_all()
            return number
        return self._do(add)

    def remove_rule(self, number: int) -> None:
        """Take a rule out of force."""
        self._do(self._rules.remove, number)

    def rule_counts(self, number: int) -> tuple[int, int]:
        """How many requests a rule acted on, and how many it holds now."""
        def count(rule: LiveRule) -> tuple[int, int]:
            return rule.hits, rule.waiting
        return self._do(lambda: count(self._rules.rule(number)))

    def rule_mistake(self, number: int) -> str | None:
        """What a rule could not do for a mistake of whoever wrote it."""
        return self._do(lambda: self._rules.rule(number).mistake)

    def release(self, number: int) -> None:
        """Let go what a rule holds, now and later."""
        self._do(lambda: self._rules.rule(number).release())

    def refuse_connections(self) -> None:
        """Close the listeners and cut every connection; the broker goes on."""
        def refuse() -> None:
            self._refusals += 1
            self._stop_accepting()
        self._do(refuse)

    def _stop_accepting(self) -> None:
        if self._node is not None:
            for listener in self._node.listeners:
                listener.stop_accepting()
                listener.abort()

    def accept_connections(self) -> None:
        """Open the listeners again, if none else has them closed. Raises OSError."""
        self._run(self._accept(max(self._refusals - 1, 0)))

    async def _accept(self, refusals: int) -> None:
        was_refusing, self._refusals = self._refusals > 0, refusals
        if was_refusing and not refusals and self._node is not None:
            for listener in self._node.listeners:
                await listener.reopen(self._node.broker)

    def cut_connections(self) -> None:
        """Drop every connection there is."""
        def cut() -> None:
            if self._node is not None:
                for listener in self._node.listeners:
                    listener.abort()
        self._do(cut)

    def fill_disk(self) -> None:
        """Have no append succeed for want of space."""
        def fill() -> None:
            self._fillings += 1
            self._disk.is_full = True
        self._do(fill)

    def empty_disk(self) -> None:
        """Have appends succeed again, if none else has the disk full."""
        self._do(self._empty, 1)

    def _empty(self, fillings: int) -> None:
        self._fillings = max(self._fillings - fillings, 0)
        if self._fillings:
            return
        self._disk.is_full = False
        for directory in self._node.broker.directories if self._node is not None else ():
            directory.check_space(0)

    def move_coordinator(self, kind: str, key: str, seconds: float) -> None:
        """Resign as coordinator of a "group" or "transaction", and take over again later."""
        self._run(self._move(kind, key, seconds))

    async def _move(self, kind: str, key: str, seconds: float) -> None:
        broker = self._broker
        shards: Shards = broker.groups if kind == "group" else broker.transactions
        index = shards.partition_for(key)
        shards.resign(index)
        if seconds:
            await asyncio.sleep(seconds)
        if self._node is not None and self._node.broker is broker:
            shards.lead(index, broker.partition(shards.topic, index))

    # Time and state.

    def now_ms(self) -> int:
        """The broker's time."""
        return self._do(self._clock.now_ms)

    def advance(self, delta_ms: float) -> None:
        """Move time on."""
        self._run(self._clock.advance(delta_ms))

    def freeze(self, at_ms: float | None) -> None:
        """Have time stand still."""
        self._do(self._clock.freeze, at_ms)

    def thaw(self) -> None:
        """Have time go on."""
        self._do(self._clock.thaw)

    def clear(self) -> None:
        """Drop rules, recording and connections, and tell the machine's time."""
        def drop() -> None:
            self._rules.clear()
            self._serving.forget_throttling()
            self._empty(self._fillings)
            self._clock.reset()
        self.cut_connections()
        self._do(drop)
        self._run(self._accept(0))
        self.forget_exchanges()

    def copy_to(self, directory: str) -> None:
        """Copy all that is on the disk, at one moment."""
        self._do(lambda: shutil.copytree(
            self._setup.directory, directory, dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(".lock")))

    def replace_by(self, directory: str) -> None:
        """Put what `copy_to` copied in place of what is on the disk; down while that is done."""
        self._run(self._abort())
        for entry in Path(self._setup.directory).iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        shutil.copytree(directory, self._setup.directory, dirs_exist_ok=True)
        self.restart()


def _with_address(setup: Setup, port: int) -> dict[str, str]:
    settings = dict(setup.settings)
    host = f"[{setup.host}]" if ":" in setup.host else setup.host
    settings.setdefault("listeners", f"PLAINTEXT://{host}:{port}")
    settings.setdefault("log.dirs", setup.directory)
    return settings
