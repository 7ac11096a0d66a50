"""Refuses configurations that are not supported and would be harmful to ignore."""

from __future__ import annotations

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.authorization import Policy
from wirekafka.config.checks.constraints import check_start
from wirekafka.config.checks.java_classes import BUILT_IN
from wirekafka.config.endpoints.roles import check_broker, check_combined, check_controller
from wirekafka.config.option import ConfigError
from wirekafka.config.options.replication import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from wirekafka.config.prefixed_names import split
from wirekafka.config.reference import value_of

DECIDING_CLASSES = frozenset(
    (
        "alter.config.policy.class.name",
        "client.quota.callback.class",
        "create.topic.policy.class.name",
        "principal.builder.class",
        "ssl.engine.factory.class",
    )
)
"""Options whose Java class decides on identities or rights."""
JAVA_SECURITY = {
    "security.providers": (),
    "ssl.endpoint.identification.algorithm": ("https", "HTTPS", ""),
    "ssl.keymanager.algorithm": ("SunX509", "NewSunX509", "PKIX"),
    "ssl.provider": ("SunJSSE",),
    "ssl.trustmanager.algorithm": ("PKIX", "SunX509"),
}
"""Options of Java's security, with the values that describe the behaviour here."""


def refuse_unsupported(config: BrokerConfig) -> None:
    """Raise ConfigError for security or cluster settings that are not supported, or wrong."""
    Policy.of(config)
    if "classic" not in config.group_coordinator_rebalance_protocols:
        raise ConfigError(
            "group.coordinator.rebalance.protocols",
            ",".join(config.group_coordinator_rebalance_protocols),
            "Disabling the 'classic' protocol is not supported.",
        )
    _check_classes(config)
    check_start(config)
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
        option = parts.rest if parts else name
        given = value_of(setting.text).strip()
        if option in JAVA_SECURITY and given not in JAVA_SECURITY[option]:
            allowed = ", ".join(filter(None, JAVA_SECURITY[option])) or "nothing"
            reason = f"Java's security is not used; allowed is {allowed}"
            raise ConfigError(name, setting.text, reason)
        # Classes of the SASL mechanisms of a listener are checked where they are used.
        if option not in (DECIDING_CLASSES if parts else BUILT_IN):
            continue
        if given not in BUILT_IN[option]:
            raise ConfigError(name, setting.text, "Java classes cannot be loaded")
