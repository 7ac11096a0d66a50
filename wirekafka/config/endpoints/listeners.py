"""Named listeners: the addresses a node binds and advertises, and their security protocols."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

from wirekafka.config.address import HOST, LARGEST_PORT, Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import controllers
from wirekafka.config.option import ConfigError
from wirekafka.config.security_protocol import PROTOCOLS

ENDPOINT = re.compile(rf"(?P<name>[^:/\s]+)://(?P<host>{HOST}|):(?P<port>[0-9]{{1,5}})")


class ListenerEndpoint(NamedTuple):
    """One endpoint; an empty host is every interface, port 0 any free port."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


class ListenerName(NamedTuple):
    """The name and security protocol of a listener, which are the same on every node."""

    name: str
    protocol: str


class Listeners(NamedTuple):
    """A node's endpoints by use."""

    bound: tuple[ListenerEndpoint, ...]
    """Where clients and brokers connect."""
    advertised: tuple[ListenerEndpoint, ...]
    """The endpoints in Metadata responses, in the order of `bound`."""
    controller: tuple[ListenerEndpoint, ...]
    """Where brokers and controllers reach the controller of this node."""
    advertised_controller: tuple[ListenerEndpoint, ...]
    """The controller's endpoints for other nodes, in the order of `controller`."""
    inter_broker: str
    """The name of the listener that brokers use among themselves; empty on a controller."""


def own_names(config: BrokerConfig) -> set[str]:
    """Return the names in `listeners`, in upper case; the endpoints are not checked."""
    return _names_of(config.listeners)


def controller_names(config: BrokerConfig) -> list[str]:
    """Return the names of the controllers' listeners, which Kafka takes as they are written."""
    return list(config.controller_listener_names)


def listeners(config: BrokerConfig) -> Listeners:
    """The endpoints of a configuration. Raises ConfigError if they contradict each other."""
    protocols = protocols_of(config)
    of_controllers = controller_names(config)
    every = _parsed("listeners", config.listeners, protocols)
    _require_distinct_names("listeners", every)
    _require_distinct_ports(every)
    bound = tuple(listener for listener in every if listener.name not in of_controllers)
    if not bound and "broker" in config.process_roles:
        raise ConfigError(
            "listeners",
            ",".join(config.listeners),
            "a broker needs a listener that controller.listener.names lacks",
        )
    own = tuple(listener for listener in every if listener.name in of_controllers)
    advertised = _advertised(config, (*bound, *own), protocols)
    return Listeners(
        bound=bound,
        advertised=advertised[: len(bound)],
        controller=own,
        advertised_controller=advertised[len(bound) :],
        inter_broker=_inter_broker(config, bound, protocols),
    )


def between_brokers(config: BrokerConfig) -> ListenerName:
    """Return the listener for connections between brokers. Raises ConfigError."""
    name = listeners(config).inter_broker
    return ListenerName(name, protocols_of(config)[name])


def to_controllers(config: BrokerConfig) -> ListenerName:
    """Return the listener for connections to controllers. Raises ConfigError."""
    if not config.controller_listener_names:
        raise ConfigError("controller.listener.names", "", "no listener of controllers is named")
    names = [name.upper() for name in controller_names(config)]
    protocols = protocols_of(config)
    for name in names:
        if name not in protocols:
            reason = (
                f"Controller listener with name {name} defined in "
                "controller.listener.names not found in listener.security.protocol.map (an "
                "explicit security mapping for each controller listener is required if "
                "listener.security.protocol.map is non-empty, or if there are security protocols "
                "other than PLAINTEXT in use)"
            )
            value = ",".join(config.controller_listener_names)
            raise ConfigError("controller.listener.names", value, reason)
    return ListenerName(names[0], protocols[names[0]])


def protocols_of(config: BrokerConfig) -> dict[str, str]:
    """Return the security protocol of each name in the map. Raises ConfigError."""
    text = config.listener_security_protocol_map
    found = {}
    for pair in filter(None, (word.strip() for word in text.split(","))):
        name, _, protocol = (part.strip() for part in pair.partition(":"))
        if protocol.upper() not in PROTOCOLS:
            reason = f"{pair} is not NAME:PROTOCOL, PROTOCOL one of {', '.join(PROTOCOLS)}"
            raise ConfigError("listener.security.protocol.map", text, reason)
        found[name.upper()] = protocol.upper()
    if config.sources.text("listener.security.protocol.map") is None and (
        config.has_own_controller or not _names_secured(config)
    ):
        # With the default map Kafka takes a controller listener of any name as plaintext.
        for name in controller_names(config):
            found.setdefault(name, "PLAINTEXT")
    return found


def _names_secured(config: BrokerConfig) -> bool:
    """Whether a listener is named after a security protocol other than PLAINTEXT."""
    secured = set(PROTOCOLS) - {"PLAINTEXT"}
    return not secured.isdisjoint({*own_names(config), *controller_names(config)})


def _parsed(
    option: str, texts: Iterable[str], protocols: dict[str, str]
) -> tuple[ListenerEndpoint, ...]:
    return tuple(_endpoint(option, text, protocols) for text in texts)


def _endpoint(option: str, text: str, protocols: dict[str, str]) -> ListenerEndpoint:
    match = ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > LARGEST_PORT:
        raise ConfigError(
            option, text, "Unable to parse to a broker endpoint: expected NAME://HOST:PORT"
        )
    name = match["name"].upper()
    if name not in protocols:
        raise ConfigError(
            option,
            text,
            f"No security protocol defined for listener {name}: "
            "add it to listener.security.protocol.map",
        )
    return ListenerEndpoint(name, match["host"].strip("[]"), int(match["port"]), protocols[name])


def _require_distinct_names(option: str, every: tuple[ListenerEndpoint, ...]) -> None:
    names = [listener.name for listener in every]
    if len(set(names)) < len(names):
        shown = ",".join(map(str, every))
        raise ConfigError(option, shown, "Each listener must have a different name")


def _require_distinct_ports(every: tuple[ListenerEndpoint, ...]) -> None:
    """Only an IPv4 and an IPv6 address can have the same port."""
    by_port: dict[int, list[str]] = {}
    for listener in every:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener.host)
    for hosts in by_port.values():
        if len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
            shown = ",".join(map(str, every))
            reason = (
                "Each listener must have a different port unless exactly one listener has an IPv4 "
                "address and the other IPv6 address"
            )
            raise ConfigError("listeners", shown, reason)


def _ip_version(host: str) -> int:
    """4 or 6; 0 for a name."""
    try:
        return ip_address(host).version
    except ValueError:
        return 0


def _advertised(
    config: BrokerConfig, bound: tuple[ListenerEndpoint, ...], protocols: dict[str, str]
) -> tuple[ListenerEndpoint, ...]:
    """The advertised endpoints: as configured, else the bound endpoints."""
    if not config.advertised_listeners:
        return bound
    of_controllers = controller_names(config)
    given = _parsed("advertised.listeners", config.advertised_listeners, protocols)
    _require_distinct_names("advertised.listeners", given)
    names = {listener.name for listener in bound}
    by_name = {
        listener.name: listener
        for listener in given
        if listener.name in names or listener.name not in of_controllers
    }
    shown = ",".join(config.advertised_listeners)
    is_broker = "broker" in config.process_roles
    for name in by_name.keys() - names if is_broker else ():
        raise ConfigError(
            "advertised.listeners",
            shown,
            f"listener {name} is not one of listeners {','.join(map(str, bound))}",
        )
    if is_broker and by_name.keys() <= set(of_controllers):
        reason = "There must be at least one broker advertised listener."
        raise ConfigError("advertised.listeners", shown, reason)
    for listener in by_name.values():
        if listener.host in ("0.0.0.0", "::"):  # noqa: S104 (refused here, not bound)
            raise ConfigError(
                "advertised.listeners",
                shown,
                f"{listener.host} is no address that clients can connect to",
            )
    # Listeners without an advertised address can be connected to as well: they advertise their own.
    return tuple(by_name.get(listener.name, listener) for listener in bound)


def _inter_broker(
    config: BrokerConfig, bound: tuple[ListenerEndpoint, ...], protocols: dict[str, str]
) -> str:
    option, protocol = "inter.broker.listener.name", config.security_inter_broker_protocol
    name = config.inter_broker_listener_name
    given = config.sources.text("security.inter.broker.protocol")
    if name is not None:
        if given is not None:
            reason = f"Only one of {option} and security.inter.broker.protocol should be set."
            raise ConfigError(option, name, reason)
        if name.upper() not in protocols:
            reason = (
                f"Listener with name {name.upper()} defined in {option} not found in "
                "listener.security.protocol.map."
            )
            raise ConfigError(option, name, reason)
    names = [listener.name for listener in bound]
    if "broker" not in config.process_roles:
        return ""
    if name is None and given is None and protocol not in names and controllers.is_alone(config):
        # A single broker connects only to itself, so any listener will do.
        fitting = [listener.name for listener in bound if listener.protocol == protocol]
        return (fitting or names or [""])[0]
    chosen = (name or protocol).upper()
    advertised = _names_of(config.advertised_listeners) or set(names)
    if chosen not in names or chosen not in advertised:
        valid = ",".join(each for each in names if each in advertised)
        raise ConfigError(
            option,
            chosen,
            f"{option} must be a listener name defined in advertised.listeners. The valid "
            f"options based on currently configured listeners are {valid}",
        )
    return chosen


def _names_of(texts: Iterable[str]) -> set[str]:
    return {text.partition("://")[0].strip().upper() for text in texts}
