"""The setup of a node under test: its settings, thread and network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wirekafka.config.address import Address
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.recovery import CorruptLog
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.net import Net, SocketNet
from wirekafka.server.node import Node
from wirekafka.testing.hooks.traffic import Recorder
from wirekafka.testing.loop_thread import LoopThread
from wirekafka.tiered.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The arguments of an engine; `syncs` enables fsync, for directories that are kept."""

    settings: Mapping[str, str]
    directory: str
    host: str = "127.0.0.1"
    port: int = 0
    protocol: str = "PLAINTEXT"
    syncs: bool = False
    store: Store | None = None
    """The object store of tiered topics in place of a configured one."""
    other_listeners: tuple[str, ...] = ()
    """Listeners beside the listener for clients, as in `listeners`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an engine runs its node: the thread, and the network to other nodes of its cluster."""

    thread: LoopThread = field(default_factory=LoopThread)
    net: Net = field(default_factory=SocketNet)
    is_in_cluster: bool = False
    """Whether other nodes watch this node, by a clock that tests do not change."""
    recorder: Callable[[], Recorder] = Recorder


async def started(node: Node | ControllerNode) -> None:
    """Start a node. Raises ValueError for an unusable directory, OSError with a hint."""
    try:
        await node.start()
    except (UnusableDirectory, CorruptLog) as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        if "cannot listen" in str(error):
            hint = "; port=0 takes a free port" if "in use" in str(error) else ""
            raise OSError(f"{error}{hint}") from None
        raise


def with_address(setup: Setup, port: int) -> dict[str, str]:
    """The settings, with the directory and the listeners; the clients' listener at `port`."""
    settings = dict(setup.settings)
    listeners = (f"{setup.protocol}://{Address(setup.host, port)}", *setup.other_listeners)
    settings.setdefault("listeners", ",".join(listeners))
    settings.setdefault("log.dirs", setup.directory)
    return settings
