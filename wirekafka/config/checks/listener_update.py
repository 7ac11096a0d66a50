"""Checks a change of a running broker's listeners, with Kafka's messages (KIP-226).

Listeners are added and removed while a broker runs. Of a listener that stays, only key store, trust
store and limits change.
"""

from __future__ import annotations

import logging
from typing import NoReturn

from wirekafka.config.address import LARGEST_PORT
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import listeners
from wirekafka.config.endpoints.listeners import ListenerEndpoint
from wirekafka.config.option import ConfigError
from wirekafka.config.prefixed_names import CLUSTER_LEVEL, STORES, prefixes
from wirekafka.config.security_protocol import PROTOCOLS
from wirekafka.errors import Error, KafkaError

logger = logging.getLogger(__name__)

_MAP = "listener.security.protocol.map"
_DYNAMIC = ("listeners", _MAP)
_OF_LISTENERS = frozenset(
    (
        *_DYNAMIC,
        *CLUSTER_LEVEL,
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
"""The options whose change makes Kafka compare the listeners before and after it."""


def check_listeners(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raise KafkaError(INVALID_REQUEST) if a running broker cannot take over a configuration."""
    names = before.sources.names() | after.sources.names()
    changed = {name for name in names if before.sources.text(name) != after.sources.text(name)}
    if changed.isdisjoint(_OF_LISTENERS):
        return
    found = {each.name: each for each in _endpoints(after)}
    present = listeners.listeners(before)
    if present.controller and not any(each.name in found for each in present.controller):
        _refuse(
            "requirement failed: controller.listener.names must contain at least one value "
            "appearing in the 'listeners' configuration when running the KRaft controller role"
        )
    _check_names(after, list(found))
    for each in present.bound:
        if each.name in found:
            _check_same(each, found[each.name], before, after)


def usable(config: BrokerConfig) -> BrokerConfig:
    """The configuration, without dynamic listeners that contradict its static settings.

    Static settings may have changed since the dynamic listeners were set: the broker then starts
    without these listeners.
    """
    sources = config.sources
    if not any(sources.is_dynamic(name) for name in _DYNAMIC):
        return config
    try:
        listeners.listeners(config)
    except ConfigError as error:
        logger.error("Dynamic settings of listeners are ignored: %s", error)
        broker = {name: text for name, text in sources.broker.items() if name not in _DYNAMIC}
        return config.with_dynamic(sources.cluster, broker)
    return config


def _endpoints(config: BrokerConfig) -> list[ListenerEndpoint]:
    texts = config.listeners
    protocols = _protocols(config)
    created = f"Error creating broker listeners from '[{', '.join(texts)}]': "
    found = []
    for text in texts:
        match = listeners.ENDPOINT.fullmatch(text)
        if match is None or int(match["port"]) > LARGEST_PORT:
            _refuse(f"{created}Unable to parse {text} to a broker endpoint")
        name = match["name"].upper()
        if name not in protocols:
            _refuse(f"{created}No security protocol defined for listener {name}")
        host = match["host"].strip("[]")
        found.append(ListenerEndpoint(name, host, int(match["port"]), protocols[name]))
    shown = ", ".join(texts)
    if len({each.name for each in found}) < len(found):
        _refuse(f"{created}Each listener must have a different name, listeners: [{shown}]")
    ports = [each.port for each in found if each.port]
    for port in ports:
        if len({each.host for each in found if each.port == port}) < ports.count(port):
            _refuse(
                f"{created}If you have two listeners on the same port then one needs to be IPv4 "
                f"and the other IPv6, listeners: [{shown}], port: {port}"
            )
    return found


def _protocols(config: BrokerConfig) -> dict[str, str]:
    for item in config.listener_security_protocol_map.split(","):
        _, colon, protocol = item.strip().rpartition(":")
        if not colon:
            # As Java words it that the text has no colon.
            reason = f"begin 0, end -1, length {len(protocol)}"
            _refuse(f"Error parsing configuration property '{_MAP}': {reason}")
        if protocol.strip().upper() not in PROTOCOLS:
            _refuse(f"Invalid security protocol `{protocol.strip()}` defined in {_MAP}")
    return listeners.protocols_of(config)


def _check_names(config: BrokerConfig, names: list[str]) -> None:
    given = [each.partition("://")[0].upper() for each in config.advertised_listeners]
    if not set(given) <= set(names):
        _refuse(
            "requirement failed: advertised.listeners listener names must be equal to or a subset "
            f"of the ones defined in listeners. Found {','.join(given)}. The valid options based "
            f"on the current configuration are {','.join(names)}"
        )
    try:
        listeners.listeners(config)
    except ConfigError as error:
        _refuse(f"requirement failed: {error.reason}")


def _check_same(
    old: ListenerEndpoint, new: ListenerEndpoint, before: BrokerConfig, after: BrokerConfig
) -> None:
    if old.protocol != new.protocol:
        _invalid(
            f"Security protocol cannot be updated for existing listener ListenerName({old.name})"
        )
    [prefix] = prefixes(old.name)
    if _fixed(before, prefix) != _fixed(after, prefix):
        _invalid(
            f"Configs cannot be updated dynamically for existing listener ListenerName({old.name})"
            ", restart broker or create a new listener for update"
        )


def _fixed(config: BrokerConfig, prefix: str) -> dict[str, str | None]:
    """The settings with a listener's prefix that it reads at its start only."""
    return {
        name: config.sources.text(name)
        for name in config.sources.names()
        if name.startswith(prefix) and name.removeprefix(prefix) not in STORES | CLUSTER_LEVEL
    }


def _invalid(reason: str) -> NoReturn:
    _refuse(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} for "
        "configuration Invalid dynamic configuration"
    )


def _refuse(message: str) -> NoReturn:
    raise KafkaError(Error.INVALID_REQUEST, message)
