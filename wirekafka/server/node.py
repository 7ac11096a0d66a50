"""A node's start and stop, in order, around its broker and its sockets."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from wirekafka.apis import registry
from wirekafka.broker import Broker, Foundation
from wirekafka.clock import Clock
from wirekafka.config import listeners as addresses
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.files import Disk, RealDisk
from wirekafka.log.log_directory import UnusableDirectory
from wirekafka.log.recovery import CorruptLog
from wirekafka.metadata.registration import SECURITY_PROTOCOLS, Endpoint
from wirekafka.server import dispatch, recovery_pool
from wirekafka.server.clock import LoopClock
from wirekafka.server.control import Control
from wirekafka.server.housekeeping import Housekeeping
from wirekafka.server.listener import Listener, Roll, Serve, bind

logger = logging.getLogger(__name__)

_DRAIN_S = 3.0
_MOST_FILES = 1 << 20
_ANYWHERE = ("", "0.0.0.0", "::")
_HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a node stands in; tests put their own in its place."""

    clock: Callable[[asyncio.AbstractEventLoop], Clock] = LoopClock
    disk: Callable[[], Disk] = RealDisk
    serve: Serve = dispatch.serve
    recover: Callable[..., set[str]] | None = recovery_pool.recover
    """In processes of their own, which know the real disk only: None with any other."""
    cluster_id: str | None = None
    """Of directories that are new; None is a random one."""


class Node:
    """A broker and its listeners."""

    def __init__(self, config: BrokerConfig, surroundings: Surroundings | None = None):
        self._config = config
        self._surroundings = surroundings or Surroundings()
        self._listeners: list[Listener] = []
        self._housekeeping: Housekeeping | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener."""
        return self._listeners[0].address

    @property
    def listeners(self) -> Sequence[Listener]:
        """In the order they are configured."""
        return self._listeners

    async def start(self) -> None:
        """Come up to where clients are served. Raises UnusableDirectory, CorruptLog, OSError."""
        wanted = _servable(self._config)
        registry.load()
        clock = self._surroundings.clock(asyncio.get_running_loop())
        disk = self._surroundings.disk()
        self.broker = Broker(Foundation(
            config=self._config, clock=clock, disk=disk, new_id=_new_id,
            recover=self._surroundings.recover,
            cluster_id=self._surroundings.cluster_id))
        try:
            self._bind(wanted)
            await self.broker.join([], _endpoints(wanted, self._listeners))
            for listener in self._listeners:
                await listener.start(self.broker)
        except BaseException:
            self.abort()
            raise
        self._housekeeping = Housekeeping(self.broker, self._listeners)
        self._housekeeping.start()

    async def stop(self) -> None:
        """Answer what is under way, and leave everything in good order."""
        if self._housekeeping is not None:
            self._housekeeping.stop()
        for listener in self._listeners:
            listener.stop_accepting()
        self.broker.release_waiting()
        for listener in self._listeners:
            listener.drain()
        deadline = asyncio.get_running_loop().time() + _DRAIN_S
        while any(listener.connections for listener in self._listeners):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.01)
        for listener in self._listeners:
            listener.abort()
        await self.broker.stop()

    def abort(self) -> None:
        """Stop at once and leave the directories as a killed process does."""
        if self._housekeeping is not None:
            self._housekeeping.stop()
        for listener in self._listeners:
            listener.stop_accepting()
            listener.abort()
        for directory in self.broker.directories:
            directory.release()

    def _bind(self, wanted: addresses.Listeners) -> None:
        roll = Roll(self._surroundings.serve)
        for each in wanted.bound:
            bound = bind(each.host, each.port)
            if self._config.socket_send_buffer_bytes >= 0:
                # What is accepted has it from here. Little in flight stays in the processor's
                # cache: 0.08 ms/MB from file to socket, 0.25 with the megabyte of the system's.
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF,
                                 self._config.socket_send_buffer_bytes)
            self._listeners.append(Listener(each.name, bound, roll))


def run(config: BrokerConfig, loop: str = "auto", cluster_id: str | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit status. `cluster_id` is for directories
    that are new."""
    _allow_many_files()
    gc.disable()  # Until all is loaded: nearly all of it stays, and it would be gone over again.
    with asyncio.Runner(loop_factory=_loop_factory(loop)) as runner:
        return runner.run(_serve(config, cluster_id))


async def _serve(config: BrokerConfig, cluster_id: str | None) -> int:
    loop = asyncio.get_running_loop()
    told_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    for name, source in config.unknown:
        logger.warning("%s (from %s) is no option of Kafka's: it is not used", name, source)
    node = Node(config, Surroundings(cluster_id=cluster_id))
    try:
        await node.start()
    except (UnusableDirectory, CorruptLog) as error:
        print(f"wirekafka: {error}", file=sys.stderr)
        return 1
    control = Control(node.broker)
    await control.start()
    _settle_memory()
    host, port = node.address
    host = _HERE if host in _ANYWHERE else f"[{host}]" if ":" in host else host
    print(f"wirekafka ready: {host}:{port}", flush=True)
    await told_to_stop.wait()
    logger.info("Stopping")
    control.stop()
    try:
        await node.stop()
    except (OSError, KafkaError) as error:
        logger.error("Not stopped cleanly, the next start will recover: %s", error)
        return 1
    logger.info("Stopped")
    return 0


def _allow_many_files() -> None:
    """Take as many descriptors as the system gives: sockets and segments need one each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses more than it has.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _servable(config: BrokerConfig) -> addresses.Listeners:
    """The listeners; raises ConfigError for what cannot be served."""
    roles = set(config.process_roles)
    if roles != {"broker", "controller"}:
        raise ConfigError("process.roles", ",".join(config.process_roles),
                          "a node is broker and controller in one: broker,controller")
    wanted = addresses.listeners(config)
    for each in wanted.bound:
        if each.protocol != "PLAINTEXT":
            raise ConfigError("listeners", str(each),
                              f"{each.protocol} is not served yet, only PLAINTEXT")
    return wanted


def _settle_memory() -> None:
    """Keep the collector off what lives as long as the process, and have it run less often.

    Requests leave no cycles behind, so there is little for it to find.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    gc.enable()


def _loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if loop == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if loop == "uvloop":
            raise
        return None
    return uvloop.new_event_loop


def _new_id() -> bytes:
    """A random id whose text no command line takes for an option."""
    while True:
        new = uuid4().bytes
        if not uuid_text(new).startswith("-"):
            return new


def _endpoints(wanted: addresses.Listeners, bound: list[Listener]) -> list[Endpoint]:
    """What clients are told: as configured, with the ports and hosts that came of it."""
    endpoints = []
    for advertised, listener in zip(wanted.advertised, bound, strict=True):
        port = advertised.port or listener.address[1]
        host = _own_name() if advertised.host in _ANYWHERE else advertised.host
        endpoints.append(Endpoint(
            advertised.name, host, port, SECURITY_PROTOCOLS[advertised.protocol]))
    return endpoints


def _own_name() -> str:
    """A name by which this machine reaches itself, and others it, if they know that name too."""
    name = socket.gethostname()
    try:
        for family, kind, _, _, address in socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as probe:
                probe.bind(address)  # Only addresses of this machine can be bound.
                return name
    except OSError:
        pass
    return "localhost"
