"""The nodes of `wirekafka serve --brokers N`: a directory, addresses and settings for each."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from wirekafka.cli import cluster_directory as layout
from wirekafka.config.address import ANYWHERE, LARGEST_PORT, Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints.listeners import ListenerEndpoint, controller_names, listeners
from wirekafka.config.option import ConfigError
from wirekafka.config.own import (
    CONSOLE_LISTENER,
    METRICS_LISTENER,
    SCHEMA_REGISTRY_LISTENER,
    console_listener,
    metrics_listener,
    new_directories,
    schema_registry_listener,
    tables_url,
)
from wirekafka.config.sources import BUILT_IN, SINGLE_NODE, Setting
from wirekafka.server.supervisor import Program

CONTROLLER_ID = 3000
"""The node id of the controller; the brokers have 1, 2, ..."""
_LOOPBACK = "127.0.0.1"
_MOST_REPLICAS, _MOST_MIN_ISR = 3, 2
_OWN = (
    "process.roles",
    "node.id",
    "broker.id",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "metadata.log.dir",
)
"""Options that differ from node to node, and that nobody else may set."""

_FOR_ALL = frozenset(
    {"--tier", "--tables", "--allow-changes", "--console-config", "--schema-registry-config"}
)
"""Arguments whose options every node has."""

_FAILURE_DETECTION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""A killed broker is admitted again once its session has expired. Kafka's 9 s allow for networks
and pauses of a JVM, which there are none of between processes of one machine."""


def nodes(
    arguments: argparse.Namespace, config: BrokerConfig, security: Mapping[str, str] | None = None
) -> list[list[Program]]:
    """Return the controller and the brokers to run, in stages, in reverse order of their stop.

    `config` is the configuration of the command, `security` are the options that `--secure` gives
    to every node. Raises ConfigError.
    """
    count: int = arguments.brokers
    _refuse_own_options(config)
    data = _data_directory(config, count)
    addresses = _Addresses.of(config, count)
    given = _common_words(arguments)
    shared = {
        "controller.quorum.voters": f"{CONTROLLER_ID}@{addresses.voter}",
        **_defaults(config, count),
        **(security or {}),
        **_catalog_of_tables(config, data),
        **{
            name: each.text
            for name, each in config.sources.static.items()
            if each.source in _FOR_ALL
        },
    }
    controller = {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "log.dirs": str(layout.controller_at(data)),
        **addresses.of_controller(),
    }
    new = [word for text in arguments.add_scram for word in ("--add-scram", text)]
    programs = [Program("controller", [*given, *new, *_settings(shared | controller)])]
    for number in range(1, count + 1):
        broker = {
            "process.roles": "broker",
            "node.id": str(number),
            "log.dirs": str(layout.broker_at(data, number)),
            **addresses.of_broker(number),
        }
        programs.append(Program(f"broker {number}", [*given, *_settings(shared | broker)]))
    return [programs[:1], programs[1:]]


def _refuse_own_options(config: BrokerConfig) -> None:
    for name in _OWN:
        setting = config.sources.static.get(name)
        if setting is not None and setting.source != BUILT_IN:
            reason = f"{name}: --brokers sets this option itself, and {setting.source} sets it too"
            raise _refused(setting.text, reason)


def _data_directory(config: BrokerConfig, count: int) -> Path:
    """The parent of the nodes' directories. Raises ConfigError if it cannot be used."""
    if len(config.data_directories) > 1:
        reason = "--brokers needs one data directory, below which each node has its own"
        raise _refused(",".join(config.data_directories), reason)
    if new_directories(config.sources):
        reason = "--brokers makes the directories of its nodes itself: leave out --new-directory"
        raise _refused(",".join(new_directories(config.sources)), reason)
    data = Path(config.data_directories[0]).absolute()
    if layout.has_broker(data):
        raise _refused(
            str(data),
            f"{data} is the log directory of a single broker: --brokers needs another one",
        )
    for number in reversed(layout.brokers_at(data)):
        replicas = layout.replicas_at(data, number) if number > count else 0
        if replicas:
            reason = (
                f"{data} has a broker {number} with {replicas} replicas, which would be offline:"
                f" use --brokers {number}, or reassign them to other brokers first"
            )
            raise _refused(str(count), reason)
    return data


def _defaults(config: BrokerConfig, count: int) -> dict[str, str]:
    """The options whose defaults depend on the number of brokers, unless they are configured."""
    replicas, min_isr = str(min(count, _MOST_REPLICAS)), str(min(max(count - 1, 1), _MOST_MIN_ISR))
    wanted = {
        "num.partitions": str(count),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min_isr,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": min_isr,
        **_FAILURE_DETECTION,
    }
    static = config.sources.static
    if not {"inter.broker.listener.name", "security.inter.broker.protocol"} & static.keys():
        wanted["inter.broker.listener.name"] = listeners(config).inter_broker
    built_in = Setting("", BUILT_IN)
    return {
        # Brokers that are no controllers do not have the defaults of a single node.
        **{name: text for name, text in SINGLE_NODE.items() if _is_built_in(static.get(name))},
        **{name: text for name, text in wanted.items() if _is_built_in(static.get(name, built_in))},
    }


def _is_built_in(setting: Setting | None) -> bool:
    return setting is not None and setting.source == BUILT_IN


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Where the nodes listen: each broker at its own ports, the controller behind them."""

    brokers: Sequence[Mapping[str, str]]
    """The options of each broker, in the order of their ids."""
    controller: ListenerEndpoint
    advertised_controller: ListenerEndpoint | None
    """The advertised endpoint of the controller; None if it is `controller`."""
    metrics: Address | None
    """The first broker's metrics listener; None without metrics."""
    schema_registry: Address | None
    """The listener of the first broker's schema registry; None without."""
    console: Address | None
    """The listener of the console, which the first broker serves; None without."""

    @classmethod
    def of(cls, config: BrokerConfig, count: int) -> _Addresses:
        """Add the broker's number to the configured ports, and replace 0 by free ports.

        Raises ConfigError if two nodes would have the same port.
        """
        configured = listeners(config)
        with ExitStack() as held:
            brokers = []
            taken: dict[int, str] = {}
            for number in range(1, count + 1):
                bound = [_moved(each, number - 1, held) for each in configured.bound]
                options = {"listeners": bound}
                if config.advertised_listeners:
                    options["advertised.listeners"] = [
                        each._replace(port=each.port and each.port + number - 1)
                        for each in configured.advertised
                    ]
                for each in bound:
                    _take(taken, each, f"broker {number}")
                brokers.append({name: _joined(each) for name, each in options.items()})
            controller = _controller(config, count, held)
        _take(taken, controller, "the controller")
        # Without an address of its own to advertise, a listener advertises the bound one.
        own = set(configured.controller)
        advertised = [each for each in configured.advertised_controller if each not in own]
        return cls(
            brokers,
            controller,
            advertised[0] if advertised else None,
            metrics_listener(config.sources),
            schema_registry_listener(config.sources),
            console_listener(config.sources),
        )

    @property
    def voter(self) -> Address:
        """Where the brokers reach the controller."""
        at = self.advertised_controller or self.controller
        return Address(_LOOPBACK if at.host in ANYWHERE else at.host, at.port)

    def of_controller(self) -> dict[str, str]:
        """The controller's options."""
        options = {"listeners": _joined([self.controller]), **self._metrics(len(self.brokers))}
        if self.advertised_controller:
            options["advertised.listeners"] = str(self.advertised_controller)
        return options

    def of_broker(self, number: int) -> dict[str, str]:
        """The options of a broker, by its id."""
        options = {**self.brokers[number - 1], **self._metrics(number - 1)}
        if self.schema_registry is not None:
            options[SCHEMA_REGISTRY_LISTENER] = _stepped(self.schema_registry, number - 1)
        if self.console is not None and number == 1:
            options[CONSOLE_LISTENER] = str(self.console)
        return options

    def _metrics(self, steps: int) -> dict[str, str]:
        if self.metrics is None:
            return {}
        return {METRICS_LISTENER: _stepped(self.metrics, steps)}


def _stepped(first: Address, steps: int) -> str:
    """The address of a further node; port 0 stays."""
    return str(first._replace(port=first.port and first.port + steps))


def _controller(config: BrokerConfig, count: int, held: ExitStack) -> ListenerEndpoint:
    """The controller's listener: as configured, else on the loopback after the brokers' ports."""
    configured = listeners(config)
    if configured.controller:
        return _moved(configured.controller[0], 0, held)
    name = (controller_names(config) or ["CONTROLLER"])[0]
    return _moved(ListenerEndpoint(name, _LOOPBACK, configured.bound[0].port, ""), count, held)


def _moved(listener: ListenerEndpoint, steps: int, held: ExitStack) -> ListenerEndpoint:
    if listener.port:
        return listener._replace(port=listener.port + steps)
    free = held.enter_context(socket.socket())  # Held, so that each call finds another port.
    free.bind(("", 0))
    return listener._replace(port=free.getsockname()[1])


def _take(taken: dict[int, str], listener: ListenerEndpoint, node: str) -> None:
    if listener.port > LARGEST_PORT:
        reason = f"{node} would have port {listener.port}; the last one is {LARGEST_PORT}"
        raise _refused(str(listener), reason)
    other = taken.setdefault(listener.port, node)
    if other != node:
        reason = f"port {listener.port} would be that of both {other} and {node}"
        raise _refused(str(listener), reason)


def _joined(each: Sequence[ListenerEndpoint]) -> str:
    return ",".join(map(str, each))


def _common_words(arguments: argparse.Namespace) -> list[str]:
    """The arguments that every node gets as they were given."""
    words = ["--config", str(arguments.config)] if arguments.config else []
    words += [word for text in arguments.set for word in ("--set", text)]
    words += ["--cluster-id", arguments.cluster_id] if arguments.cluster_id else []
    words += ["--loop", arguments.loop, "--log-level", arguments.log_level]
    words += ["--log-format", arguments.log_format]
    return [*words, *(["--request-log"] if arguments.request_log else [])]


def _catalog_of_tables(config: BrokerConfig, data: Path) -> dict[str, str]:
    """The setting by which the brokers' tables have one catalog, if that is needed."""
    if tables_url(config.sources) is None:
        return {}
    from wirekafka.server.tabling.settings import catalog_beside

    return catalog_beside(data, config)


def _settings(options: Mapping[str, str]) -> list[str]:
    return [word for name, text in options.items() for word in ("--node-set", f"{name}={text}")]


def _refused(value: str, reason: str) -> ConfigError:
    return ConfigError("--brokers", value, reason, reason)
