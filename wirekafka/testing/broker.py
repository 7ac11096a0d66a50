"""`wirekafka.Broker`: a Kafka broker as an object, for tests."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from wirekafka.testing import admin, records
from wirekafka.testing.admin import Group
from wirekafka.testing.engine import Engine, EngineGone, Setup
from wirekafka.testing.faults import Faults
from wirekafka.testing.records import Recordlike, StoredRecord
from wirekafka.testing.settings import broker_settings, checked, directory_name, wanted_topics
from wirekafka.testing.traffic import Traffic

if TYPE_CHECKING:
    from wirekafka.testing.control import Control

T = TypeVar("T")

_POLL_S = 0.003
_MS = 1000.0


class Broker(Faults):
    """A Kafka broker that lives in a thread of this process, or in one of its own.

        with Broker(topics=["orders"]) as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    `async with` works too. Nothing is logged, no signal is handled, and no environment variable
    is read. Methods may be called from any thread.
    """

    def __init__(self, directory: str | Path | None = None, *,
                 topics: Iterable[str] | Mapping[str, int] = (), host: str = "127.0.0.1",
                 port: int = 0, process: bool = False,
                 config: Mapping[str, object] | None = None, **options: object):
        """Nothing runs before `start`, or before the `with`.

        directory: kept, and what is in it served again; None is a new one, removed at the end.
        topics: names, or names with numbers of partitions, made at the start.
        port: 0 takes a free one.
        process: run in a process of its own; `when=` must then be picklable, and a crash is a
        real `kill -9`.
        config, options: Kafka's, as {"log.retention.ms": 1000} or log_retention_ms=1000.
        ValueError for a name or value that Kafka would not take, TypeError for what is of the
        wrong type.
        """
        self._settings = broker_settings(config, options)
        self._topics = wanted_topics(topics)
        self._kept = None if directory is None else directory_name(directory)
        self._host, self._wanted_port, self._in_process = host, port, process
        checked(self._settings)
        self._running: Engine | None = None
        self._was_stopped = False
        self._snapshots = 0
        self._rules = WeakSet()
        self._control: Control | None = None
        self.requests = Traffic(lambda: self._engine.exchanges(),
                                lambda: self._engine.forget_exchanges())
        """What clients asked and were told."""
        self.clock = Clock(self)
        """The broker's time."""

    # Starting and stopping.

    def start(self) -> Self:
        """Come up, ready for clients. OSError for a port in use, ValueError for a directory that
        cannot be used."""
        if self._running is not None:
            raise RuntimeError("this broker runs already")
        self._scratch = tempfile.mkdtemp(prefix="wirekafka-")
        self._remove_scratch = weakref.finalize(self, _remove, self._scratch, os.getpid())
        self.directory = self._kept or f"{self._scratch}/data"
        """Where its data is."""
        engine = _engine_class(self._in_process)(Setup(
            settings=self._settings, directory=self.directory, host=self._host,
            port=self._wanted_port, syncs=self._kept is not None))
        try:
            self.host, self.port = engine.start()
        except BaseException:
            self._remove_scratch()
            raise
        self._running = engine
        self._abandon = weakref.finalize(self, engine.abandon)
        self._was_stopped = False
        try:
            self._make_topics()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop as SIGTERM does: what is under way is answered. A second time does nothing."""
        engine, self._running = self._running, None
        if engine is None:
            return
        self._was_stopped = True
        self._abandon.detach()
        try:
            self._end_rules(engine)
            if self._control is not None:
                self._control.close()
                self._control = None
            engine.close()
        finally:
            self._remove_scratch()

    def crash(self) -> None:
        """Die as by `kill -9`: connections are cut, nothing is answered, no file is closed in
        good order. What was acknowledged is there after `restart`."""
        self._engine.crash()

    def restart(self) -> None:
        """Stop cleanly, unless it crashed, and start on the same data at the same port."""
        self._engine.stop()
        self._engine.restart()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.create_task(_in_thread(self.start)) if _in_asyncio() else None
        if starting is None:
            return self.start()
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # It comes up all the same, and nobody would end it.
            with suppress(Exception):
                await starting
            self.stop()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await _in_thread(self.stop)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect, as "127.0.0.1:32768"."""
        self._engine  # noqa: B018
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def serve_control(self, port: int = 0) -> str:
        """Open the control port, on the loopback address, until the broker stops; its URL.

        docs/testing.md tells what can be asked there. OSError for a port in use.
        """
        from wirekafka.testing.control import Control

        self._engine  # noqa: B018
        if self._control is None:
            self._control = Control(self, port=port)
        return self._control.url

    @property
    def cluster_id(self) -> str:
        """As clients are told."""
        return self._engine.cluster_id()

    # Seeding and looking.

    def create_topic(self, name: str, partitions: int = 1,
                     config: Mapping[str, object] | None = None, **options: object) -> None:
        """Make a topic, with Kafka's topic configs. KafkaError, such as TOPIC_ALREADY_EXISTS."""
        admin.create_topic(self._engine, name, partitions, {**(config or {}), **options})

    def delete_topic(self, name: str) -> None:
        """Delete a topic. KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        admin.delete_topics(self._engine, [name])

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions, without Kafka's own."""
        return {name: count for name, count in self._engine.topics().items()
                if not name.startswith("__")}

    def produce(self, topic: str, given: Iterable[Recordlike]) -> list[int]:
        """Append records, each a `Record`, a value or a (key, value) pair; returns their offsets.

        The topic is made, with one partition, if it is not there. Faults do not touch this.
        KafkaError as a producer would be told.
        """
        if isinstance(given, bytes | str | Mapping | records.Record):
            raise TypeError(f"give a list of records, such as [{given!r}]" if not isinstance(
                given, Mapping) else "give a list of records, such as [(key, value)]")
        if topic not in self._engine.topics():
            self.create_topic(topic)
        return records.produce(self._engine, topic, given)

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """What a topic holds, by partition and offset, records of aborted and open transactions
        too (see `StoredRecord.transaction`). LookupError for an unknown topic."""
        count = self._engine.topics().get(topic)
        if count is None:
            raise LookupError(f"there is no topic {topic!r}; there are: "
                              f"{', '.join(sorted(self.topics())) or 'none'}")
        if partition is not None and not 0 <= partition < count:
            raise LookupError(f"{topic!r} has partitions 0 to {count - 1}, not {partition}")
        wanted = range(count) if partition is None else (partition,)
        return [record for index in wanted
                for record in records.stored(self._engine, topic, index)]

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets a group has committed, by (topic, partition)."""
        return admin.committed(self._engine, group)

    def groups(self) -> list[Group]:
        """Every group with its members, by id."""
        return admin.groups(self._engine)

    def wait_for(self, condition: Callable[[], T], timeout_s: float = 10.0) -> T:
        """Ask until the answer is true, and return it. TimeoutError, which tells what clients did
        last.

        It blocks. Beside clients of an event loop: `await asyncio.to_thread(broker.wait_for, ...)`.
        """
        if not callable(condition):
            raise TypeError(f"give a function, such as lambda: {condition!r}")
        deadline = time.monotonic() + timeout_s
        while True:
            answer = condition()
            if isinstance(answer, Coroutine):
                answer.close()
                raise TypeError("the condition is to be a plain function, not an `async def`")
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(f"not so within {timeout_s} s{_hint_of_loop()}; the broker"
                                   f" saw:\n{self._traffic_text()}")
            time.sleep(_POLL_S)

    # State.

    def reset(self) -> None:
        """Be as new, at the same port: topics, groups, transactions, rules, recorded requests and
        a changed clock are gone, connections are cut, the topics of the start are made again.
        After a crash it runs again."""
        self._engine.revive()
        self._engine.clear()
        admin.delete_topics(self._engine, list(self._engine.topics()))
        self._make_topics()

    def snapshot(self) -> Snapshot:
        """All data as it is now, to go back to; kept until the broker stops."""
        self._snapshots += 1
        snapshot = Snapshot(f"{self._scratch}/snapshot-{self._snapshots}")
        self._engine.copy_to(snapshot.directory)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this broker; connections are cut, the port stays."""
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"{snapshot!r} is no snapshot: give what broker.snapshot() returned")
        self._engine.replace_by(snapshot.directory)

    @property
    def _engine(self) -> Engine:  # type: ignore[override]
        if self._running is None:
            if self._was_stopped:
                raise EngineGone("this broker was stopped: use it inside its `with`, or start() it"
                                 " again")
            raise EngineGone("this broker was not started: write `with Broker() as broker:` or"
                             " call start()")
        return self._running

    def _make_topics(self) -> None:
        present = self._engine.topics()
        for name, partitions in self._topics.items():
            if name not in present:
                admin.create_topic(
                    self._engine, name, -1 if partitions is None else partitions, None)

    def _traffic_text(self) -> str:
        return str(self.requests)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a broker cannot be given to another process: give its bootstrap_servers")

    def __repr__(self) -> str:
        return f"<Broker {self.bootstrap_servers if self._running else 'not running'}>"


class Snapshot:
    """What `Broker.restore` takes."""

    def __init__(self, directory: str):
        self.directory = directory


class Clock:
    """A broker's time: sessions, retention, transactions and rebalances run by it. Clients keep
    the machine's."""

    def __init__(self, broker: Broker):
        self._broker = broker

    @property
    def now_ms(self) -> int:
        """In ms since the epoch."""
        return self._broker._engine.now_ms()

    def advance(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0,
                days: float = 0.0) -> None:
        """Go on by so much; all that falls due meanwhile has happened upon return.

        ValueError for a negative time: records and sessions cannot go back.
        """
        delta_s = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        if delta_s < 0:
            raise ValueError(f"time goes forward only, not by {delta_s} s")
        self._broker._engine.advance(delta_s * _MS)

    def freeze(self, at_ms: float | None = None) -> Frozen:
        """Stand still, now or at a time in ms since the epoch, until `thaw` or the end of a
        `with`. `advance` goes on from there."""
        self._broker._engine.freeze(at_ms)
        return Frozen(self)

    def thaw(self) -> None:
        """Go on from where it stands."""
        self._broker._engine.thaw()


class Frozen:
    """A clock that stands still within a `with`."""

    def __init__(self, clock: Clock):
        self._clock = clock

    def __enter__(self) -> Clock:
        return self._clock

    def __exit__(self, *_: Any) -> None:
        self._clock.thaw()


async def _in_thread(do: Callable[[], object]) -> None:
    """Without holding up asyncio's loop; others' are held up for a few milliseconds."""
    if _in_asyncio():
        await asyncio.to_thread(do)
    else:
        do()


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _hint_of_loop() -> str:
    if not _in_asyncio():
        return ""
    return (", while the event loop it was called in stood still (write"
            " await asyncio.to_thread(broker.wait_for, ...))")


def _remove(scratch: str, process_id: int) -> None:
    # What was forked of this process must not, when it ends, take away what is not its own.
    if os.getpid() == process_id:
        shutil.rmtree(scratch, ignore_errors=True)


def _engine_class(in_process: bool) -> Callable[[Setup], Engine]:
    if not in_process:
        return Engine
    from wirekafka.testing.remote import RemoteEngine

    return RemoteEngine
