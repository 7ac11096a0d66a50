"""What this broker must refuse to start with, because serving on without it would do harm."""

from __future__ import annotations

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.listeners import listeners
from wirekafka.config.option import ConfigError


def require_servable(config: BrokerConfig) -> None:
    """Raise ConfigError for security or a cluster that is asked for and not there yet."""
    for listener in listeners(config).bound:
        if listener.protocol != "PLAINTEXT":
            raise _refused("listeners", str(listener), f"{listener.protocol} is not there yet: "
                           "clients would be served in the clear")
    if config.authorizer_class_name:
        raise _refused("authorizer.class.name", config.authorizer_class_name,
                       "permissions are not there yet: everybody could do everything")
    if set(config.process_roles) != {"broker", "controller"}:
        raise _refused("process.roles", ",".join(config.process_roles),
                       "only broker,controller is there yet: a node on its own is both")
    others = [voter for voter in config.controller_quorum_voters
              if voter.partition("@")[0].strip() != str(config.node_id)]
    if others:
        raise _refused("controller.quorum.voters", ",".join(config.controller_quorum_voters),
                       f"a quorum of several nodes is not there yet; this one is {config.node_id}")


def _refused(name: str, value: object, reason: str) -> ConfigError:
    return ConfigError(name, value, reason)
