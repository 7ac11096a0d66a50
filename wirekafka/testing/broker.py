"""`wirekafka.Broker`: a Kafka broker as a Python object, for tests."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from wirekafka.config.address import Address
from wirekafka.testing import admin, groups, records, share_locks
from wirekafka.testing.access import Security
from wirekafka.testing.acls import Allow
from wirekafka.testing.engine import Engine, EngineGone, Setup
from wirekafka.testing.faults import Faults
from wirekafka.testing.groups import Group
from wirekafka.testing.records import Recordlike, StoredRecord
from wirekafka.testing.settings import broker_settings, checked, directory_name, wanted_topics
from wirekafka.testing.share_locks import InFlightRecord
from wirekafka.testing.traffic import Traffic

if TYPE_CHECKING:
    from wirekafka.testing.control_port import ControlPort

T = TypeVar("T")

_POLL_S = 0.003
_MS = 1000.0


class Broker(Faults):
    """A Kafka broker that runs in a thread of this process, or in a child process.

        with Broker(topics=["orders"]) as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    `async with` works too. Nothing is logged, no signal is handled, and no environment variable
    is read. Methods may be called from any thread.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        topics: Iterable[str] | Mapping[str, int] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        process: bool = False,
        users: Mapping[str, str] | None = None,
        acls: Iterable[Allow] | None = None,
        tls: bool = False,
        config: Mapping[str, object] | None = None,
        **options: object,
    ):
        """Check the arguments; the broker starts by `start` or by entering the `with`.

        directory: of the data; it is kept, and existing data is served. None is a temporary one.
        topics: names, or names with partition counts, of topics created at each start.
        port: 0 takes a free one.
        process: run in a child process; `when=` must then be picklable, and a crash is a real
        `kill -9`.
        users: passwords by name; clients log in with SCRAM-SHA-512.
        acls: each an `Allow` or a `Deny`; everything else is denied. None allows everything.
        tls: encrypt connections, with a certificate made for this broker.
        config, options: Kafka's, as {"log.retention.ms": 1000} or log_retention_ms=1000.

        Raises ValueError for a name or value that Kafka rejects, TypeError for a wrong type.
        """
        self._settings = broker_settings(config, options)
        self._security = Security.of(users, acls, tls).certified(host, self._settings)
        self._topics = wanted_topics(topics)
        self._kept = None if directory is None else directory_name(directory)
        self._host, self._wanted_port, self._in_process = host, port, process
        checked(self._settings)
        self._running: Engine | None = None
        self._was_stopped = False
        self._snapshots = 0
        self._rules = WeakSet()
        self._control: ControlPort | None = None
        self.requests = Traffic(
            lambda: self._engine.exchanges(), lambda: self._engine.forget_exchanges()
        )
        """The recorded requests of clients and their responses."""
        self.clock = Clock(self)
        """The broker's clock."""

    # Starting and stopping.

    def start(self) -> Self:
        """Start, and return once clients are served.

        Raises OSError for a port in use, ValueError for an unusable directory.
        """
        if self._running is not None:
            raise RuntimeError("this broker is running already")
        self._scratch = tempfile.mkdtemp(prefix="wirekafka-")
        self._remove_scratch = partial(_remove, self._scratch, os.getpid())
        self.directory = self._kept or f"{self._scratch}/data"
        """The log directory."""
        engine = _engine_class(self._in_process)(
            Setup(
                settings=self._settings,
                directory=self.directory,
                host=self._host,
                port=self._wanted_port,
                protocol=self._security.protocol,
                syncs=self._kept is not None,
            )
        )
        try:
            self.host, self.port = engine.start()
        except BaseException:
            self._remove_scratch()
            raise
        self._running = engine
        self._abandon = weakref.finalize(self, engine.abandon, self._remove_scratch)
        self._was_stopped = False
        try:
            self._security.establish(engine)
            self._create_topics()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly, as SIGTERM does, after current requests. A second call does nothing."""
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
        """Stop as by `kill -9`: connections break, and no log is closed cleanly.

        Acknowledged records are there after `restart`.
        """
        self._engine.crash()

    def restart(self) -> None:
        """Stop cleanly, unless it crashed, and start on the same data at the same port."""
        self._engine.stop()
        self._engine.restart()

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
        starting = asyncio.create_task(_in_thread(self.start)) if _in_asyncio() else None
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

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, such as "127.0.0.1:32768"."""
        self._engine  # noqa: B018
        return str(Address(self.host, self.port))

    def client_config(self, client: str = "confluent", user: str | None = None) -> dict[str, Any]:
        """The settings by which a client connects as one of the `users`.

        client: "confluent", "kafka-python", "aiokafka" or "java". Raises ValueError for an
        unknown client or user.
        """
        return self._security.client_config(client, user, self.bootstrap_servers)

    def serve_control(self, port: int = 0) -> str:
        """Serve the HTTP control port on loopback until the broker stops; returns its URL.

        docs/testing.md describes its requests. Raises OSError for a port in use.
        """
        from wirekafka.testing.control_port import ControlPort

        self._engine  # noqa: B018
        if self._control is None:
            self._control = ControlPort(self, port=port)
        return self._control.url

    @property
    def cluster_id(self) -> str:
        """The cluster id that clients see."""
        return str(self._engine.on_broker(attrgetter("cluster_id")))

    # Topics, records and groups.

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        """Create a topic with Kafka's topic configs.

        Raises KafkaError, such as TOPIC_ALREADY_EXISTS.
        """
        admin.create_topic(self._engine, name, partitions, {**(config or {}), **options})

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        admin.delete_topics(self._engine, [name])

    def topics(self) -> dict[str, int]:
        """All topics with their partition counts, without internal topics."""
        return {
            name: count
            for name, count in self._engine.topics().items()
            if not name.startswith("__")
        }

    def produce(self, topic: str, given: Iterable[Recordlike]) -> list[int]:
        """Append records, each a `Record`, a value or a (key, value) pair; returns their offsets.

        A missing topic is created with one partition. Fault rules do not apply. Raises the
        KafkaError that a producer would get.
        """
        if isinstance(given, bytes | str | Mapping | records.Record):
            raise TypeError(
                f"give a list of records, such as [{given!r}]"
                if not isinstance(given, Mapping)
                else "give a list of records, such as [(key, value)]"
            )
        if topic not in self._engine.topics():
            self.create_topic(topic)
        return records.produce(self._engine, topic, given)

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """All records of a topic or one partition, by partition and offset.

        Includes those of aborted and open transactions (see `StoredRecord.transaction`). Raises
        LookupError for an unknown topic or partition.
        """
        count = self._engine.topics().get(topic)
        if count is None:
            raise LookupError(
                f"there is no topic {topic!r}; there are: "
                f"{', '.join(sorted(self.topics())) or 'none'}"
            )
        if partition is not None and not 0 <= partition < count:
            raise LookupError(f"{topic!r} has partitions 0 to {count - 1}, not {partition}")
        wanted = range(count) if partition is None else (partition,)
        return [record for index in wanted for record in records.stored(self._engine, topic, index)]

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group, by (topic, partition)."""
        return admin.committed(self._engine, group)

    def groups(self) -> list[Group]:
        """All groups with their members, sorted by id."""
        return list(groups.groups(self._engine))

    def group(self, group: str) -> Group:
        """One group with its members, their epochs and assignments.

        Raises LookupError for an unknown group.
        """
        found = groups.groups(self._engine)
        for each in found:
            if each.id == group:
                return each
        raise LookupError(
            f"there is no group {group!r}; there are: "
            f"{', '.join(each.id for each in found) or 'none'}"
        )

    def in_flight(self, group: str) -> list[InFlightRecord]:
        """The records that a share group has acquired and not completed, by partition and offset.

        It is empty for an unknown group, and without members that have fetched.
        """
        return self._engine.on_broker(share_locks.in_flight, group)

    def wait_for(self, condition: Callable[[], T], timeout_s: float = 10.0) -> T:
        """Call `condition` until it returns a true value, and return that.

        Raises TimeoutError, whose message lists the last requests of clients. It blocks; with
        clients on an event loop, use `await asyncio.to_thread(broker.wait_for, ...)`.
        """
        if not callable(condition):
            raise TypeError(f"give a function, such as lambda: {condition!r}")
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if isinstance(value, Coroutine):
                value.close()
                raise TypeError("the condition is to be a plain function, not an `async def`")
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"not so within {timeout_s} s{_hint_of_loop()}; the broker"
                    f" saw:\n{self._traffic_text()}"
                )
            time.sleep(_POLL_S)

    # State.

    def reset(self) -> None:
        """Return to the state after `start`, at the same port.

        Topics, groups, transactions, rules, recorded requests and changes of the clock are
        dropped, connections are closed, and the topics of the constructor are created again. A
        crashed broker is restarted.
        """
        self._engine.revive()
        self._engine.clear()
        admin.delete_topics(self._engine, list(self._engine.topics()))
        self._security.establish(self._engine)
        self._create_topics()

    def snapshot(self) -> Snapshot:
        """A copy of all data, for `restore`; kept until the broker stops."""
        self._snapshots += 1
        snapshot = Snapshot(f"{self._scratch}/snapshot-{self._snapshots}")
        self._engine.copy_to(snapshot.directory)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Replace all data by a snapshot of this broker. Closes connections; the port stays."""
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"{snapshot!r} is no snapshot: give what broker.snapshot() returned")
        self._engine.replace_by(snapshot.directory)

    @property
    def _engine(self) -> Engine:  # type: ignore[override]
        if self._running is None:
            if self._was_stopped:
                raise EngineGone(
                    "this broker was stopped: use it inside its `with`, or start() it again"
                )
            raise EngineGone(
                "this broker was not started: write `with Broker() as broker:` or call start()"
            )
        return self._running

    def _create_topics(self) -> None:
        present = self._engine.topics()
        for name, partitions in self._topics.items():
            if name not in present:
                admin.create_topic(
                    self._engine, name, -1 if partitions is None else partitions, None
                )

    def _traffic_text(self) -> str:
        return str(self.requests)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a broker cannot be given to another process: give its bootstrap_servers")

    def __repr__(self) -> str:
        return f"<Broker {self.bootstrap_servers if self._running else 'not running'}>"


class Snapshot:
    """A copy of a broker's data, returned by `Broker.snapshot` for `Broker.restore`."""

    def __init__(self, directory: str):
        self.directory = directory


class Clock:
    """The clock of a broker, by which sessions, retention, transactions and rebalances run.

    Clients use the machine's clock.
    """

    def __init__(self, broker: Broker):
        self._broker = broker

    @property
    def now_ms(self) -> int:
        """The broker's time, in ms since the epoch."""
        return self._broker._engine.now_ms()

    def advance(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Move the clock forward and run every timer that falls due before returning.

        Raises ValueError for a negative time.
        """
        delta_s = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        if delta_s < 0:
            raise ValueError(f"time goes forward only, not by {delta_s} s")
        self._broker._engine.advance(delta_s * _MS)

    def freeze(self, at_ms: float | None = None) -> Frozen:
        """Stop the clock, until `thaw` or the end of a `with`; `advance` still moves it.

        `at_ms` is the time to stop at, in ms since the epoch; None is now.
        """
        self._broker._engine.freeze(at_ms)
        return Frozen(self)

    def thaw(self) -> None:
        """Let a frozen clock continue from its present time."""
        self._broker._engine.thaw()


class Frozen:
    """A context manager that thaws a frozen clock at its end."""

    def __init__(self, clock: Clock):
        self._clock = clock

    def __enter__(self) -> Clock:
        return self._clock

    def __exit__(self, *_: Any) -> None:
        self._clock.thaw()


async def _in_thread(do: Callable[[], object]) -> None:
    """Call a function in a thread under asyncio, and directly under other event loops."""
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
    return (
        ", while the event loop it was called in stood still (write"
        " await asyncio.to_thread(broker.wait_for, ...))"
    )


def _remove(scratch: str, process_id: int) -> None:
    # A forked child that exits must not remove the directory of its parent.
    if os.getpid() == process_id:
        shutil.rmtree(scratch, ignore_errors=True)


def _engine_class(in_process: bool) -> Callable[[Setup], Engine]:
    if not in_process:
        return Engine
    from wirekafka.testing.remote import RemoteEngine

    return RemoteEngine
