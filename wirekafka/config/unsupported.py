"""Refuses configurations that are not supported and would be harmful to ignore."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.config.authorization import Policy
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.host_limits import connections_of_hosts
from wirekafka.config.option import ConfigError
from wirekafka.config.options.replication import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from wirekafka.config.prefixed import split
from wirekafka.config.reference import value_of
from wirekafka.config.roles import check_broker, check_combined, check_controller

_SHARE_ASSIGNORS = ("simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")
"""Names of the only assignor of share groups."""
_SECURITY = "org.apache.kafka.common.security"
DECIDING_CLASSES = {
    "alter.config.policy.class.name": None,
    "client.quota.callback.class": None,
    "create.topic.policy.class.name": None,
    "principal.builder.class": f"{_SECURITY}.authenticator.DefaultKafkaPrincipalBuilder",
    "ssl.engine.factory.class": f"{_SECURITY}.ssl.DefaultSslEngineFactory",
}
"""Options whose Java class decides who somebody is or what is allowed, with Kafka's own class."""


def refuse_unsupported(config: BrokerConfig) -> None:
    """Raise ConfigError for security or cluster settings that are not supported, or wrong."""
    Policy.of(config)
    if "classic" not in config.group_coordinator_rebalance_protocols:
        raise ConfigError(
            "group.coordinator.rebalance.protocols",
            ",".join(config.group_coordinator_rebalance_protocols),
            "Disabling the 'classic' protocol is not supported.",
        )
    _check_share_assignor(config.group_share_assignors)
    _check_classes(config)
    connections_of_hosts(config.max_connections_per_ip_overrides)
    selector = config.replica_selector_class
    if selector not in (None, RACK_AWARE_SELECTOR, LEADER_SELECTOR):
        raise ConfigError(
            "replica.selector.class", selector, "the only selectors here are Kafka's own"
        )
    roles = set(config.process_roles)
    if roles == {"broker"}:
        check_broker(config)
    else:
        (check_controller if roles == {"controller"} else check_combined)(config)


def _check_classes(config: BrokerConfig) -> None:
    for name, setting in config.sources.static.items():
        parts = split(name)
        option, given = parts.rest if parts else name, value_of(setting.text).strip()
        if option in DECIDING_CLASSES and given not in ("", DECIDING_CLASSES[option]):
            raise ConfigError(name, setting.text, "Java classes cannot be loaded")


def _check_share_assignor(names: Sequence[str]) -> None:
    name, given = "group.share.assignors", ",".join(names)
    if len(names) != 1:
        raise ConfigError(
            name, given, f"{name} must contain exactly one assignor, but found {len(names)}"
        )
    if names[0] not in _SHARE_ASSIGNORS:
        raise ConfigError(name, given, f"Class {names[0]} could not be found.")
