"""Checks, as Kafka does, that the settings of a broker agree with its role in the cluster."""

from __future__ import annotations

import logging

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import controllers, listeners
from wirekafka.config.option import ConfigError
from wirekafka.config.security_protocol import logs_in

logger = logging.getLogger(__name__)

_ROLES, _VOTERS = "process.roles", "controller.quorum.voters"
_NAMES = "controller.listener.names"


def check_broker(config: BrokerConfig) -> None:
    """Check the settings of a broker whose controllers are other nodes. Raises ConfigError."""
    _check_quorum_is_named(config)
    if config.controller_quorum_auto_join_enable:
        raise ConfigError(
            "controller.quorum.auto.join.enable",
            "true",
            f"is only supported when {_ROLES} contains the 'controller' role",
        )
    voters = controllers.voters(config)
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


def check_controller(config: BrokerConfig) -> None:
    """Check the settings of a node that is a controller and no broker. Raises ConfigError."""
    _check_quorum_is_named(config)
    if len(listeners.listeners(config).controller) != len(config.listeners):
        raise ConfigError(
            "listeners",
            ",".join(config.listeners),
            f"The listeners config must only contain KRaft controller listeners from {_NAMES} when "
            f"{_ROLES}=controller",
        )
    _check_own_listeners(config)


def check_combined(config: BrokerConfig) -> None:
    """Check the settings of a node that is broker and controller. Raises ConfigError.

    Unlike in Kafka, the only controller of a cluster needs neither a listener nor voters: it is a
    single node, unless other nodes are configured.
    """
    if controllers.is_alone(config):
        _check_is_voter(config)
    else:
        _check_own_listeners(config)
    if listeners.listeners(config).controller:
        _check_connections(config)


def _check_quorum_is_named(config: BrokerConfig) -> None:
    voters = controllers.voters(config)
    servers = controllers.bootstrap_servers(config)
    if not voters and not servers:
        raise ConfigError(
            _ROLES,
            ",".join(config.process_roles),
            "either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            f"controllers or {_VOTERS} must contain a parseable set of controllers",
        )


def _check_is_voter(config: BrokerConfig) -> None:
    voters = controllers.voters(config)
    if voters and config.node_id not in voters:
        raise ConfigError(
            _VOTERS,
            ",".join(config.controller_quorum_voters),
            f"If {_ROLES} contains the 'controller' role, the node id {config.node_id} must be "
            "included in the set of voters "
            f"{_VOTERS}=Set({', '.join(map(str, sorted(voters)))})",
        )


def _check_own_listeners(config: BrokerConfig) -> None:
    _check_is_voter(config)
    names = ",".join(config.controller_listener_names)
    if not listeners.listeners(config).controller:
        raise ConfigError(
            _NAMES,
            names,
            "must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
        )
    if not listeners.own_names(config).issuperset(listeners.controller_names(config)):
        raise ConfigError(
            _NAMES,
            names,
            "must only contain values appearing in the 'listeners' configuration when running the "
            "KRaft controller role",
        )


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
