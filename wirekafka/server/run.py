"""Runs a node as a process: signals, the event loop, and the limits of the system."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from wirekafka.config import loggers
from wirekafka.config.address import ANYWHERE, Address
from wirekafka.config.broker_config import OF_THE_AUTHORIZER, BrokerConfig
from wirekafka.config.checks.ignored_options import ignored
from wirekafka.config.checks.similar import did_you_mean
from wirekafka.config.endpoints.listeners import listeners
from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER
from wirekafka.config.own import OWN, metrics_hosts, metrics_listener
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.recovery import CorruptLog
from wirekafka.metadata.bootstrap import FirstUsers
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.local_socket import LocalSocket
from wirekafka.server.node import Node, Platform
from wirekafka.server.service_manager import ServiceManager
from wirekafka.server.stop_signals import stop_signals

if TYPE_CHECKING:
    from wirekafka.server.monitoring.service import Monitoring

logger = logging.getLogger(__name__)

_MOST_FILES = 1 << 20
_SWITCH_S = 0.0002
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DirectoryFormat:
    """The content of new log directories."""

    cluster_id: str | None = None
    """Directories of another cluster are refused."""
    default_cluster_id: str | None = None
    """For new directories if no id is given; others may have another one."""
    first_users: FirstUsers = ()
    """Ignored for directories that exist."""


class Companion(Protocol):
    """A service in the process of a broker, beside it: the console, or the schema registry."""

    counts_requests: bool
    """Whether it reads the broker's counters."""

    def serving(self, node: Node, monitoring: Monitoring | None) -> None:
        """Begin; clients are served. Raises ConfigError, OSError."""

    async def stopping(self) -> None:
        """End; the node is about to stop, and still serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """The surroundings of a node's run: the receiver of its reports, and further reasons to end."""

    ready: Callable[[str], None] | None = None
    """Called with the first listener's address once clients are served."""
    companions: Sequence[Companion] = ()
    stops_at_eof: bool = False
    """Whether the end of standard input, which has to be a pipe, stops the node too."""


def run(
    config: BrokerConfig,
    loop: str = "auto",
    new: DirectoryFormat | None = None,
    attended: Attended | None = None,
) -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C; returns the exit status.

    `loop` is `auto`, `asyncio` or `uvloop`; `new` is for new log directories. The caller may have
    disabled the garbage collector for the start; it is enabled once clients are served.
    """
    _allow_many_files()
    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        return runner.run(_serve(config, new or DirectoryFormat(), attended or Attended()))


async def _serve(config: BrokerConfig, new: DirectoryFormat, attended: Attended) -> int:
    companions = attended.companions
    should_stop = _stop_requests(attended.stops_at_eof)
    for name, source in config.unknown:
        proposal = did_you_mean(name, (*BROKER, *OWN, *OF_THE_AUTHORIZER), closeness=0.8)
        reason = "is not a Kafka option and is ignored"
        logger.warning("%s (from %s) %s%s", name, source, reason, proposal and f"; {proposal}")
    for setting in ignored(config):
        logger.warning(
            "%s (from %s) has no effect: %s", setting.name, setting.source, setting.reason
        )
    monitoring = _monitoring(config, any(each.counts_requests for each in companions))
    platform = _platform(new, monitoring)
    has_broker = "broker" in config.process_roles
    node = Node(config, platform) if has_broker else ControllerNode(config, platform)
    node.on_failure = should_stop.set
    try:
        if not await _started(node, should_stop):
            return 0
    except (UnusableDirectory, CorruptLog, KafkaError) as error:
        print(f"wirekafka: {error}", file=sys.stderr)
        return 1
    if monitoring is not None:
        monitoring.serving(node)
    control = None
    if isinstance(node, Node):
        try:
            for companion in companions:
                companion.serving(node, monitoring)
        except (ConfigError, OSError):
            await _end(companions)
            await _stop(node)
            raise
        _follow_request_logger(node.pipeline)
        lag = None if monitoring is None else monitoring.lag
        control = LocalSocket(node.broker, lag, _mirror_report(node))
        await control.start()
    tune_interpreter()
    logger.info("%s", node.start_line)
    host, port = node.address
    address = Address(_LOOPBACK if host in ANYWHERE else host, port)
    print(f"wirekafka ready: {address}", flush=True)
    if attended.ready is not None:
        attended.ready(str(address))
    manager = ServiceManager()
    manager.ready()
    await should_stop.wait()
    logger.info("Stopping")
    manager.stopping()
    await _end(companions)
    if monitoring is not None:
        monitoring.stopping()
    if control is not None:
        control.stop()
    return await _stop(node)


def _mirror_report(node: Node) -> Callable[[], dict[str, Any]] | None:
    """What the node reports about its copies of another cluster's topics, if it has any."""
    mirroring = node.mirroring
    if mirroring is None:
        return None
    from wirekafka.server.mirroring.report import rows, summary

    return lambda: {"mirror": [summary(mirroring)], "mirrored": rows(mirroring)}


def _follow_request_logger(pipeline: Pipeline) -> None:
    """Log requests while the level of their logger says so, which may change at run time."""

    def follow() -> None:
        if not loggers.logs_requests():
            pipeline.wrap(None)
            return
        # Imported only now: it costs memory and time.
        from wirekafka.server.connections.request_log import RequestLog

        pipeline.wrap(RequestLog)

    loggers.observers.append(follow)
    follow()


def _stop_requests(at_eof: bool) -> asyncio.Event:
    """An event that is set by `stop_signals`, and perhaps by the end of standard input."""
    loop = asyncio.get_running_loop()
    requested = asyncio.Event()
    for number in stop_signals():
        loop.add_signal_handler(number, requested.set)
    if at_eof:
        standard_input = sys.stdin.fileno()

        def read() -> None:
            if not os.read(standard_input, 1 << 12):
                loop.remove_reader(standard_input)
                requested.set()

        loop.add_reader(standard_input, read)
    return requested


async def _end(companions: Sequence[Companion]) -> None:
    for each in companions:
        await each.stopping()


async def _stop(node: Node | ControllerNode) -> int:
    """Stop a node cleanly; returns the exit status."""
    try:
        await node.stop()
    except (OSError, KafkaError) as error:
        logger.error("Not stopped cleanly, the next start will recover the logs: %s", error)
        return 1
    logger.info("Stopped")
    return 1 if node.failure is not None else 0


def _platform(new: DirectoryFormat, monitoring: Monitoring | None) -> Platform:
    platform = Platform(
        cluster_id=new.cluster_id or new.default_cluster_id,
        required_cluster_id=new.cluster_id,
        first_users=new.first_users,
    )
    if monitoring is None:
        return platform
    return replace(platform, measures=monitoring.measures, sync=monitoring.timed(platform.sync))


def _monitoring(config: BrokerConfig, counts: bool) -> Monitoring | None:
    """Serve metrics and health from now on, if they are wanted, or only count.

    Raises ConfigError, OSError.
    """
    address = metrics_listener(config.sources)
    if address is None and not counts:
        return None
    # Imported only now: it costs memory and time.
    from wirekafka.server.monitoring.service import Monitoring

    monitoring = Monitoring(address, () if address is None else _names(config, address))
    monitoring.start()
    if monitoring.address is not None:
        logger.info("Metrics and health are served at http://%s", monitoring.address)
    return monitoring


def _names(config: BrokerConfig, address: Address) -> frozenset[str]:
    """The names that metrics are asked for by: this machine's, as far as the node knows."""
    known = listeners(config)
    named = [*known.bound, *known.advertised, *known.controller, *known.advertised_controller]
    own = {socket.gethostname(), address.host, *(each.host for each in named)}
    return metrics_hosts(config.sources) | {name.lower() for name in own}


async def _started(node: Node | ControllerNode, should_stop: asyncio.Event) -> bool:
    """Start a node; False if a stop was requested before it was started. Raises as `Node.start`.

    A broker waits for its controllers without a time limit.
    """
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(should_stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    logger.info("Stopped before the start was complete")
    return False


def _allow_many_files() -> None:
    """Raise the limit of open files: each connection and each segment in use needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses more than its kernel limit.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def tune_interpreter() -> None:
    """Exempt all present objects from garbage collection, and run it less often.

    Requests create no reference cycles, so that the collector finds little. What the start leaves
    behind, some hundred objects of imports, is not worth the time to look for it: a tenth of a
    start with many partitions. Threads, such as the checker of large batches, return the
    interpreter to the event loop sooner than usual: the loop may have to wait for the interpreter
    several times within one request.
    """
    sys.setswitchinterval(_SWITCH_S)
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    gc.enable()


def loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the event loop that `run` describes; None for asyncio's own loop."""
    if loop == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if loop == "uvloop":
            raise
        return None
    return uvloop.new_event_loop
