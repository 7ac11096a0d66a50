"""Refuses configurations that are not supported and would be harmful to ignore."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from wirekafka.config import controllers, listeners
from wirekafka.config.authorization import Policy
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.security_protocol import logs_in

logger = logging.getLogger(__name__)

_ROLES, _VOTERS = "process.roles", "controller.quorum.voters"
_NAMES = "controller.listener.names"
_SHARE_ASSIGNORS = ("simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")
"""Names of the only assignor of share groups."""
_SELECTORS = "org.apache.kafka.common.replica."
RACK_AWARE_SELECTOR = f"{_SELECTORS}RackAwareReplicaSelector"
"""The `replica.selector.class` by which consumers read replicas in their own rack (KIP-392)."""
LEADER_SELECTOR = f"{_SELECTORS}LeaderSelector"
"""The `replica.selector.class` by which consumers read the leader, as without one."""


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
    selector = config.replica_selector_class
    if selector not in (None, RACK_AWARE_SELECTOR, LEADER_SELECTOR):
        raise ConfigError(
            "replica.selector.class", selector, "the only selectors here are Kafka's own"
        )
    roles = set(config.process_roles)
    if roles == {"broker"}:
        _check_broker(config)
    elif roles == {"broker", "controller"}:
        _check_lone_node(config)
    else:
        raise ConfigError(
            _ROLES,
            ",".join(config.process_roles),
            "only broker and broker,controller are supported yet",
        )


def _check_broker(config: BrokerConfig) -> None:
    """Check the settings of a broker whose controllers are other nodes, as Kafka does."""
    voters = controllers.voters(config)
    if not voters and not controllers.bootstrap_servers(config):
        raise ConfigError(
            _ROLES,
            "broker",
            "either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            f"controllers or {_VOTERS} must contain a parseable set of controllers",
        )
    if config.node_id in voters:
        raise ConfigError(
            _VOTERS,
            ",".join(config.controller_quorum_voters),
            f"{_ROLES} contains just the 'broker' role, the node id {config.node_id} must not be "
            "included in the set of voters",
        )
    if not config.controller_listener_names:
        raise ConfigError(
            _NAMES,
            "",
            "must contain at least one value when running KRaft with just the broker role",
        )
    if not listeners.own_names(config).isdisjoint(listeners.controller_names(config)):
        raise ConfigError(
            _NAMES,
            ",".join(config.controller_listener_names),
            "must not contain a value appearing in the 'listeners' configuration when running "
            "KRaft with just the broker role",
        )
    _check_connections(config)


def _check_connections(config: BrokerConfig) -> None:
    """Check the options of connections to other nodes: their listeners and SASL mechanisms."""
    listeners.to_controllers(config)
    if len(config.controller_listener_names) > 1:
        logger.warning(
            "%s has multiple entries; only the first will be used since %s=broker: %s",
            _NAMES,
            _ROLES,
            ",".join(config.controller_listener_names),
        )
    brokers = listeners.between_brokers(config)
    mechanism = config.sasl_mechanism_inter_broker_protocol
    own = config.for_listener(brokers.name)
    if logs_in(brokers.protocol) and mechanism not in own.sasl_enabled_mechanisms:
        raise ConfigError(
            "sasl.mechanism.inter.broker.protocol",
            mechanism,
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms "
            "when SASL is used for inter-broker communication",
        )


def _check_lone_node(config: BrokerConfig) -> None:
    others = [
        voter
        for voter in config.controller_quorum_voters
        if voter.partition("@")[0].strip() != str(config.node_id)
    ]
    if others:
        raise ConfigError(
            _VOTERS,
            ",".join(config.controller_quorum_voters),
            f"a quorum of several nodes is not supported yet; this one is {config.node_id}",
        )


def _check_share_assignor(names: Sequence[str]) -> None:
    name, given = "group.share.assignors", ",".join(names)
    if len(names) != 1:
        raise ConfigError(
            name, given, f"{name} must contain exactly one assignor, but found {len(names)}"
        )
    if names[0] not in _SHARE_ASSIGNORS:
        raise ConfigError(name, given, f"Class {names[0]} could not be found.")
