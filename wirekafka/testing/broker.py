"""`wirekafka.Broker`: a Kafka broker as a Python object, for tests."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from wirekafka.config.address import Address
from wirekafka.testing import admin
from wirekafka.testing.access import Security
from wirekafka.testing.acls import Allow
from wirekafka.testing.controlled_clock import Clock
from wirekafka.testing.disk import TestDisk
from wirekafka.testing.engine import Engine
from wirekafka.testing.hooks.traffic import Traffic
from wirekafka.testing.lifecycle import Lifecycle, scratch_directory
from wirekafka.testing.loop_thread import EngineGone
from wirekafka.testing.memory_tier import MEMORY, SETTINGS, MemoryTier
from wirekafka.testing.operations import Operations
from wirekafka.testing.registry.owner import RegistryOwner, companion_registry
from wirekafka.testing.settings import (
    arguments_of,
    broker_settings,
    checked,
    directory_name,
    wanted_topics,
)
from wirekafka.testing.setup import Setup

if TYPE_CHECKING:
    from wirekafka.testing.control_port import ControlPort


class Broker(Operations, RegistryOwner, Lifecycle):
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
        tier: str | None = None,
        schema_registry: bool = False,
        config: Mapping[str, object] | None = None,
        **options: object,
    ):
        """Check the arguments; the broker starts by `start` or by entering the `with`.

        directory: of the data; it is kept, and existing data is served. None is a temporary
        directory. topics: names, or names with partition counts, of topics created at each start.
        port: 0 takes a free one. process: run in a child process; `when=` must then be picklable,
        and a crash is a real `kill -9`. users: passwords by name; clients log in with
        SCRAM-SHA-512. acls: each an `Allow` or a `Deny`; everything else is denied. None allows
        everything. tls: encrypt connections, with a certificate made for this broker.
        tier: "memory:" keeps closed segments of topics with remote.storage.enable=true in a store
        in this process, `Broker.tier`, which can be slowed down and made to fail.
        schema_registry: serve a schema registry beside the broker, at `schema_registry_url`.
        config, options: Kafka's, as {"log.retention.ms": 1000} or log_retention_ms=1000.

        Raises ValueError for a name or value that Kafka rejects, TypeError for a wrong type.
        """
        self._settings = broker_settings(config, options, arguments_of(Broker))
        self.tier = _tier(tier, process)
        """The object store of tiered topics; None without the argument `tier`."""
        if self.tier is not None:
            self._settings = {**SETTINGS, **self._settings}
        security = Security.of(users, acls, tls)
        if schema_registry:
            security = security.with_service()
        self._security = security.certified(host, self._settings)
        self._registry = companion_registry(host) if schema_registry else None
        self._topics = wanted_topics(topics)
        self._kept = None if directory is None else directory_name(directory)
        self._origin: str | None = None
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
        self.clock = Clock(lambda: self._engine)
        """The broker's clock."""
        if self._registry is not None:
            self.requests.show_values(self._registry.schemas.shown)

    @classmethod
    def from_snapshot(cls, path: str | Path, **arguments: Any) -> Self:
        """A broker that begins with the data of a snapshot, or of a node that is stopped.

        The data is shared until it changes, so that a start takes milliseconds; `path` itself never
        changes. The broker has a cluster id of its own. Each `start` begins with that data again.
        Transactions that were open are aborted. arguments: as of the constructor, but `directory`.
        """
        if "directory" in arguments:
            raise TypeError("a broker from a snapshot is in a temporary directory")
        broker = cls(**arguments)
        broker._origin = directory_name(path)
        return broker

    # Starting and stopping.

    def start(self) -> Self:
        """Start, and return once clients are served.

        Raises OSError for a port in use, ValueError for an unusable directory.
        """
        if self._running is not None:
            raise RuntimeError("this broker is running already")
        self._scratch, self._remove_scratch = scratch_directory()
        self.directory = self._kept or f"{self._scratch}/data"
        """The log directory."""
        if self._origin is not None:
            self._branch(self._origin)
        engine = _engine_class(self._in_process)(
            Setup(
                settings=self._settings,
                directory=self.directory,
                host=self._host,
                port=self._wanted_port,
                protocol=self._security.protocol,
                syncs=self._kept is not None,
                store=self.tier,
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
            self._start_registry()
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
        self._stop_registry()
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
        # Before, so that its successor need not wait until the group expires it.
        self._stop_registry()
        self._engine.crash()

    def restart(self) -> None:
        """Stop cleanly, unless it crashed, and start on the same data at the same port."""
        self._stop_registry()
        self._engine.stop()
        self._engine.restart()
        self._start_registry()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, such as "127.0.0.1:32768"."""
        self._engine  # noqa: B018
        return str(Address(self.host, self.port))

    def serve_control(self, port: int = 0) -> str:
        """Serve the HTTP control port on loopback until the broker stops; returns its URL.

        docs/reference/testing.md describes its requests. Raises OSError for a port
        in use.
        """
        from wirekafka.testing.control import BrokerControl
        from wirekafka.testing.control_port import ControlPort

        self._engine  # noqa: B018
        if self._control is None:
            schemas = None if self._registry is None else self._registry.schemas
            self._control = ControlPort(BrokerControl(self, schemas), port=port)
        return self._control.url

    # State.

    def reset(self) -> None:
        """Return to the state after `start`, at the same port.

        Topics, groups, transactions, rules, recorded requests and changes of the clock are
        dropped, connections are closed, and the topics of the constructor are created again. A
        crashed broker is restarted.
        """
        self._stop_registry()
        self._engine.revive()
        self._engine.clear()
        admin.delete_topics(self._engine, list(self._engine.topics()))
        self._security.establish(self._engine)
        self._create_topics()
        self._start_registry(forget=True)

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
        self._stop_registry()
        self._engine.replace_by(snapshot.directory)
        self._start_registry(forget=True)

    def _require_running(self) -> None:
        self._engine  # noqa: B018

    def _branch(self, origin: str) -> None:
        """Begin with the data of another directory. Raises ValueError."""
        # Imported only now: most brokers begin empty.
        from wirekafka.server.snapshots.branch import branch
        from wirekafka.snapshot.manifest import UnusableSnapshot

        try:
            branch(TestDisk(syncs=False), [origin], self.directory)
        except UnusableSnapshot as error:
            self._remove_scratch()
            raise ValueError(str(error)) from None

    def _start_registry(self, *, forget: bool = False) -> None:
        if self._registry is not None:
            if forget:
                self._registry.reset()
            config = self._security.service_config()
            self._serve_registry(self.bootstrap_servers, config, [self._engine])

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
                layout = admin.TopicLayout(-1 if partitions is None else partitions)
                admin.create_topic(self._engine, name, layout, None)

    def __repr__(self) -> str:
        return f"<Broker {self.bootstrap_servers if self._running else 'not running'}>"


class Snapshot:
    """A copy of a broker's data, returned by `Broker.snapshot` for `Broker.restore`."""

    def __init__(self, directory: str):
        self.directory = directory


def _engine_class(in_process: bool) -> Callable[[Setup], Engine]:
    if not in_process:
        return Engine
    from wirekafka.testing.remote import RemoteEngine

    return RemoteEngine


def _tier(url: str | None, in_process: bool) -> MemoryTier | None:
    if url is None:
        return None
    if url != MEMORY:
        raise ValueError(f"tier={url!r}: it is {MEMORY!r}, or None for a tier set by config=")
    if in_process:
        raise ValueError("a tier in memory is in this process: leave out process=True")
    return MemoryTier()
