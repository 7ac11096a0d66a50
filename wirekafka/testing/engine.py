"""Runs a node on an event loop in a background thread and controls it from other threads."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import CoroutineType
from typing import Any, TypeVar

from wirekafka.apis.shared import registry, routes
from wirekafka.apis.shared.call import Call
from wirekafka.broker import Broker
from wirekafka.codec.batch import batches
from wirekafka.codec.message import Request, Response
from wirekafka.config.own import RegistryAccess
from wirekafka.coordinator.shards import Shards
from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.server.connections.listener import Listener
from wirekafka.server.node import Node, Platform
from wirekafka.testing.clock import LongPollClock, NodeClock
from wirekafka.testing.disk import TestDisk
from wirekafka.testing.hooks.hook import FaultsAndTraffic
from wirekafka.testing.hooks.rules import LiveRule, RuleBook, RuleSpec
from wirekafka.testing.hooks.traffic import Exchange
from wirekafka.testing.loop_thread import EngineGone
from wirekafka.testing.net import BETWEEN_NODES
from wirekafka.testing.settings import OWNER, checked
from wirekafka.testing.setup import Place, Setup, started, with_address

T = TypeVar("T")

registry.load()  # At import, so that the first start of a broker is fast.

_READ_BYTES = 1 << 20


class Engine:
    """A node in a background thread, with its clock, disk, fault rules and recorded traffic.

    Methods may be called from any thread except its own. Arguments and results can be pickled,
    since `RemoteEngine` sends them between processes.
    """

    def __init__(self, setup: Setup, place: Place | None = None):
        """Without a `place`, the engine has a thread of its own."""
        self._setup = setup
        self._place = place = place or Place()
        self._thread, self._loop = place.thread, place.thread.loop
        self._port = setup.port
        self._clock = NodeClock(self._thread.clock)
        self._steady = NodeClock(self._thread.steady)
        self._disk = TestDisk(syncs=setup.syncs)
        self._rules = RuleBook()
        self._recorder = place.recorder()
        self._hook = FaultsAndTraffic(self._rules, self._recorder)
        self._node: Node | None = None
        self._refusals = 0
        self._fillings = 0
        self._held: Counter[str] = Counter()

    # Starting and stopping.

    def start(self) -> tuple[str, int]:
        """Start the thread and the node; returns host and port. Raises OSError, ValueError."""
        self._thread.start()
        try:
            return self.restart()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop cleanly and end the thread."""
        if not self._thread.is_alive():
            return
        self._run(self.stop_node())
        self._thread.close()

    def abandon(self, ended: Callable[[], object]) -> None:
        """End the thread as by a crash, as its `Broker` was garbage-collected; then call `ended`.

        Waits only when the interpreter exits, which does not wait for the thread itself.
        """
        self._thread.abandon(self.abort_node, ended)

    def restart(self) -> tuple[str, int]:
        """Start a stopped node on its directory and port. Raises OSError, ValueError."""
        return self._run(self.start_node())

    def revive(self) -> None:
        """`restart` after a crash; do nothing if the node runs."""

        async def start_if_down() -> None:
            if self._node is None:
                await self.start_node()

        self._run(start_if_down())

    def stop(self) -> None:
        """Stop cleanly, as SIGTERM does; the engine can `restart`."""
        self._run(self.stop_node())

    def crash(self) -> None:
        """Stop as `kill -9` does."""

        async def crash() -> None:
            self.abort_node()
            await asyncio.sleep(0)

        self._run(crash())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.complete(coroutine)

    def _do(self, function: Callable[..., T], *arguments: Any) -> T:
        return self._thread.do(function, *arguments)

    # On the thread itself.

    @property
    def is_up(self) -> bool:
        """Whether the node runs."""
        return self._node is not None

    @property
    def node(self) -> Node:
        """The node. Raises EngineGone while it is down."""
        if self._node is None:
            raise EngineGone("the broker is down: start it again with broker.restart()")
        return self._node

    def pause(self) -> None:
        """Serve no clients and run no timers until `resume`, as after SIGSTOP."""
        self._hook.pause()
        self._clock.pause()
        self._steady.pause()

    def resume(self) -> None:
        """Continue after `pause`, as after SIGCONT."""
        self._clock.resume()
        self._steady.resume()
        self._hook.resume()

    def _forget_timers(self) -> None:
        self._clock.forget()
        self._steady.forget()

    async def start_node(self) -> tuple[str, int]:
        """`restart`, called on the thread."""
        assert self._node is None, "it runs"
        node = Node(
            checked(with_address(self._setup, self._port)),
            Platform(
                clock=lambda: self._clock,
                node_clock=(lambda: self._steady) if self._place.is_in_cluster else None,
                disk=lambda: self._disk,
                net=self._place.net,
                hook=self._hook,
                recover=None,
                store=self._setup.store,
                store_blocks=True,
                sync=sync_inline,
            ),
        )
        await started(node)
        node.broker.waiting.clock = LongPollClock(self._clock, self._loop)
        self._node = node
        self._hold_assignments()
        if self._refusals:
            self._stop_accepting()
        host, self._port = node.address
        return host, self._port

    async def stop_node(self) -> None:
        """`stop`, called on the thread."""
        node, self._node = self._node, None
        self._rules.clear()
        if node is not None:
            await node.stop()
        self._forget_timers()

    def validate_by(self, registry: RegistryAccess) -> None:
        """Look the schemas of records up in a registry, unless another one is configured."""
        self._do(lambda: self.node.validate_by(registry))

    def abort_node(self) -> None:
        """`crash`, called on the thread; the tasks of the node end in the next turn of the loop."""
        node, self._node = self._node, None
        if node is not None:
            self._forget_timers()
            node.abort()

    @property
    def _broker(self) -> Broker:
        return self.node.broker

    # Which broker of a cluster is responsible: for a single one, always this one.

    def members(self) -> Sequence[Engine]:
        """The engines of all brokers that run."""
        return [self]

    def leader(self, topic: str, partition: int) -> Engine:
        """The engine of the broker that leads a partition."""
        return self

    def coordinator(self, kind: str, key: str) -> Engine:
        """The engine of the broker that coordinates a "group" or a "transaction"."""
        return self

    # Requests and data.

    def ask(self, request: Request, version: int) -> Response:
        """Handle a request as if a client had sent it, without fault rules and recording."""
        return self._run(self._ask(request, version))

    async def _ask(self, request: Request, version: int) -> Response:
        route = routes.BROKERS.find(type(request).key << 16 | version)
        assert route is not None
        call = Call(self._broker)
        call.version, call.client_id = version, "wirekafka-testing"
        call.authenticated(OWNER)
        try:
            response = route.handle(request, call)
            if isinstance(response, CoroutineType):
                response = await response
        except KafkaError as error:
            return route.api.failure(request, error, call)
        assert isinstance(response, Response), "only a Produce with acks=0 gets none"
        return response

    def topics(self) -> dict[str, int]:
        """All topics with their partition counts, internal topics included."""
        return self._do(
            lambda: {
                name: len(topic.partitions) for name, topic in self._broker.image.topics.items()
            }
        )

    def batches(self, topic: str, partition: int) -> tuple[bytes, int]:
        """The batches of a partition up to the high watermark, and its last stable offset.

        Raises KafkaError(OFFSET_NOT_AVAILABLE) while a new leader does not know its high watermark.
        """
        return self._do(self._batches, topic, partition)

    def _batches(self, topic: str, index: int) -> tuple[bytes, int]:
        partition = self._broker.partition(topic, index)
        partition.check_available()
        data = []
        offset = partition.log.start_offset
        while offset < partition.high_watermark:
            records = partition.log.read(offset, _READ_BYTES, end_offset=partition.high_watermark)
            piece = b"".join(records.buffers())
            whole = 0
            for position, header in batches(piece):
                whole = position + header.size_bytes
                offset = header.end_offset
            data.append(piece[:whole])
            if not whole:
                break
        return b"".join(data), partition.last_stable_offset

    def aborted(self, topic: str, partition: int) -> list[tuple[int, int, int]]:
        """Producer id, first and last offset of every aborted transaction."""

        def find() -> list[tuple[int, int, int]]:
            log = self._broker.partition(topic, partition).log
            return [
                (each.producer_id, each.first_offset, each.last_offset)
                for each in log.aborted_transactions(log.start_offset, log.end_offset)
            ]

        return self._do(find)

    def on_broker(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function, which a child process can import, with the running broker."""
        return self._do(lambda: function(self._broker, *arguments))

    def topic_id(self, topic: str) -> str:
        """The id of a topic, as Kafka's base64 text."""
        return self._do(lambda: uuid_text(self._broker.image.topics[topic].id))

    def exchanges(self) -> list[Exchange]:
        """The recorded exchanges, oldest first."""
        return self._do(lambda: list(self._recorder.exchanges))

    def forget_exchanges(self) -> None:
        """Drop all recorded exchanges."""
        self._do(self._recorder.clear)

    # Faults.

    def add_rule(self, spec: RuleSpec) -> int:
        """Put a rule in force; returns its number."""

        def add() -> int:
            number = self._rules.add(spec)
            self._apply_to_waiting(spec)
            return number

        return self._do(add)

    def adopt_rule(self, rule: LiveRule) -> None:
        """Put a rule of all brokers in force at this broker; called on the thread."""
        self._rules.adopt(rule)
        self._apply_to_waiting(rule.spec)

    def disown_rule(self, rule: LiveRule) -> None:
        """Take a rule of all brokers out of force at this broker; called on the thread."""
        self._rules.disown(rule)

    def _apply_to_waiting(self, spec: RuleSpec) -> None:
        if "Fetch" in spec.apis and self._node is not None:
            # Fetches that wait for data return, and come again under the rule.
            self._node.broker.waiting.release_all()

    def remove_rule(self, number: int) -> None:
        """Take a rule out of force."""
        self._do(self._rules.remove, number)

    def rule_counts(self, number: int) -> tuple[int, int]:
        """How many requests a rule acted on, and how many it holds now."""

        def count(rule: LiveRule) -> tuple[int, int]:
            return rule.hits, rule.waiting

        return self._do(lambda: count(self._rules.rule(number)))

    def rule_mistake(self, number: int) -> str | None:
        """The error that the rule's `when` raised, as text; None if it raised none."""
        return self._do(lambda: self._rules.rule(number).mistake)

    def release(self, number: int) -> None:
        """Let the requests that a rule holds continue, and hold no further requests."""
        self._do(lambda: self._rules.rule(number).release())

    def refuse_connections(self) -> None:
        """Close the listeners and every connection; the broker keeps running."""

        def refuse() -> None:
            self._refusals += 1
            self._stop_accepting()

        self._do(refuse)

    def _stop_accepting(self) -> None:
        for listener in self._client_listeners():
            listener.stop_accepting()
            listener.abort()

    def _client_listeners(self) -> list[Listener]:
        """The listeners for clients, without listeners for other nodes of a cluster."""
        listeners = self._node.listeners if self._node is not None else ()
        return [each for each in listeners if each.name != BETWEEN_NODES]

    def accept_connections(self) -> None:
        """Undo one `refuse_connections`; the last call reopens the listeners. Raises OSError."""
        self._run(self._accept(max(self._refusals - 1, 0)))

    async def _accept(self, refusals: int) -> None:
        was_refusing = self._refusals > 0
        self._refusals = refusals
        if was_refusing and not refusals and self._node is not None:
            await self._node.accept_again()

    def cut_connections(self) -> None:
        """Close every connection at once."""

        def cut() -> None:
            for listener in self._client_listeners():
                listener.abort()

        self._do(cut)

    def fill_disk(self) -> None:
        """Make every append fail as on a full disk."""

        def fill() -> None:
            self._fillings += 1
            self._disk.is_full = True

        self._do(fill)

    def empty_disk(self) -> None:
        """Undo one `fill_disk`; after the last call, appends succeed again."""
        self._do(self._empty, 1)

    def _empty(self, fillings: int) -> None:
        self._fillings = max(self._fillings - fillings, 0)
        if self._fillings:
            return
        self._disk.is_full = False
        if self._node is None:
            return
        now_ms = self._node.broker.clock.now_ms()
        for directory in self._node.broker.directories:
            directory.check_space(0, now_ms)

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

    def hold_assignment(self, group: str) -> None:
        """Compute no new assignments of a group, also after a restart."""

        def hold() -> None:
            self._held[group] += 1
            self._hold_assignments()

        self._do(hold)

    def release_assignment(self, group: str) -> None:
        """Undo one `hold_assignment`."""

        def release() -> None:
            self._held -= Counter([group])
            self._hold_assignments()

        self._do(release)

    def _hold_assignments(self) -> None:
        if self._node is not None:
            held = self._node.broker.groups.held_assignments
            held.clear()
            held.update(self._held)

    # Time and state.

    def now_ms(self) -> int:
        """The broker's time."""
        return self._do(self._thread.clock.now_ms)

    def advance(self, delta_ms: float) -> None:
        """Move the clock forward."""
        self._run(self._thread.clock.advance(delta_ms))

    def freeze(self, at_ms: float | None) -> None:
        """Stop the clock."""
        self._do(self._thread.clock.freeze, at_ms)

    def thaw(self) -> None:
        """Let a frozen clock continue."""
        self._do(self._thread.clock.thaw)

    def clear(self) -> None:
        """Drop rules, recorded exchanges and connections, and return to the machine's time."""

        def drop() -> None:
            self._rules.clear()
            self._empty(self._fillings)
            self._held.clear()
            self._hold_assignments()
            self._thread.clock.reset()

        self.cut_connections()
        self._do(drop)
        self._run(self._accept(0))
        self.forget_exchanges()

    def copy_to(self, directory: str) -> None:
        """Copy the log directory while the broker does nothing else."""
        self._do(
            lambda: shutil.copytree(
                self._setup.directory,
                directory,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(".lock"),
            )
        )

    def replace_by(self, directory: str) -> None:
        """Stop, replace the log directory by a copy made by `copy_to`, and start again."""
        self.crash()
        for entry in Path(self._setup.directory).iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        shutil.copytree(directory, self._setup.directory, dirs_exist_ok=True)
        self.restart()
