"""What AlterConfigs may set: the checks a whole set of new values must pass, in Kafka's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.describe import broker_option
from wirekafka.config.option import ConfigError, Type, Update
from wirekafka.config.options import BROKER, CLIENT_METRICS, GROUP, TOPIC
from wirekafka.config.topic_config import TopicConfig, validate_topic_config
from wirekafka.errors import Error, KafkaError

_MATCH_KEYS = frozenset((
    "client_instance_id", "client_id", "client_software_name", "client_software_version",
    "client_source_address", "client_source_port",
))
_RELOADED_BY_LISTENER = ("ssl.keystore.", "ssl.key.", "ssl.truststore.")
"""Keys and certificates: a listener reads them anew, each its own."""


def is_list(resource_type: int, name: str) -> bool:
    """Whether APPEND and SUBTRACT apply to an option of a resource (KIP-339)."""
    table = {2: TOPIC, 4: BROKER, 16: CLIENT_METRICS, 32: GROUP}.get(resource_type, {})
    option = table.get(name)
    return option is not None and option.type is Type.LIST


def validate_topic(broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """All overrides a topic is to have, new and kept; raises KafkaError(INVALID_CONFIG)."""
    for name, value in overrides.items():
        validate_topic_config(name, value)
    config = TopicConfig.resolve(broker, overrides)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            Error.INVALID_CONFIG, "conflict topic config setting min.compaction.lag.ms "
            f"({config.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({config.max_compaction_lag_ms})")
    if config.remote_storage_enable and not broker.remote_log_storage_system_enable:
        raise KafkaError(
            Error.INVALID_CONFIG, "Tiered Storage functionality is disabled in the broker. Topic "
            "cannot be configured with remote log storage.")


def validate_broker(values: Mapping[str, str], *, per_broker: bool) -> None:
    """The dynamic values one broker, or all brokers, are to have: KafkaError(INVALID_REQUEST).

    Names that are no option pass: a plugin may read them, says KIP-226.
    """
    fixed = [n for n in values if n in BROKER and BROKER[n].update is Update.READ_ONLY]
    if fixed:
        raise _refused(f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]")
    secured = [n for n in values if n in BROKER and n.startswith(_RELOADED_BY_LISTENER)]
    if secured:
        raise _refused(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{', '.join(sorted(secured))}]")
    lone = [n for n in values if _option_update(n) is Update.PER_BROKER]
    if lone and not per_broker:
        raise _refused("Cannot update these configs at default cluster level, broker id must be "
                       f"specified: [{', '.join(sorted(lone))}]")
    for name, value in values.items():
        _check_broker_value(name, value)


def validate_group(broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """All options a group is to have: KafkaError(INVALID_CONFIG)."""
    parsed: dict[str, Any] = {}
    for name, text in overrides.items():
        if name not in GROUP:
            raise _invalid(f"Unknown group config name: {name}")
        try:
            parsed[name] = GROUP[name].parse(text)
        except ConfigError as error:
            raise _invalid(str(error)) from None
    for name, value in parsed.items():
        _check_group_bounds(broker, name, value)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if parsed.keys() & {session, heartbeat}:
            _check_heartbeat(broker, parsed, session, heartbeat)


def validate_client_metrics(values: Mapping[str, str]) -> None:
    """All options a subscription is to have (KIP-714): INVALID_REQUEST or INVALID_CONFIG."""
    for name, text in values.items():
        if name not in CLIENT_METRICS:
            raise _refused(f"Unknown client metrics configuration: {name}")
        try:
            value = CLIENT_METRICS[name].parse(text)
        except ConfigError as error:
            raise _invalid(str(error)) from None
        if name == "interval.ms" and not 100 <= value <= 3_600_000:
            raise _refused(f"Invalid value {value} for interval.ms, interval must be between 100 "
                           "and 3600000 (1 hour)")
        if name == "match":
            for pattern in value:
                _check_match(pattern)


def _option_update(name: str) -> Update | None:
    option = broker_option(name)
    return option.update if option else None


def _check_broker_value(name: str, value: str) -> None:
    option = broker_option(name)
    if option is None:
        return
    try:
        parsed = option.parse(value, name)
    except ConfigError as error:
        raise _refused(str(error)) from None
    if option.type is Type.CLASS and not value.startswith("org.apache.kafka."):
        # Classes are not loaded here: what Kafka's own do is built in, any other is missing.
        raise _refused(
            f"Invalid value {value} for configuration {name}: Class {value} could not be found.")
    if name in ("log.retention.ms",) and parsed == 0:
        raise _refused(f"requirement failed: {name} must be unlimited (-1) or, greater than or "
                       "equal to 1")


def _check_group_bounds(broker: BrokerConfig, name: str, value: Any) -> None:
    """A group's value must lie between the broker's group.<kind>.min.<x> and .max.<x>."""
    kind, _, rest = name.partition(".")
    rest = "standby.replicas" if rest == "num.standby.replicas" else rest
    low, high = (f"group.{kind}.{bound}.{rest}" for bound in ("min", "max"))
    if low in BROKER and value < broker.value(BROKER[low]):
        raise _invalid(f"{name} must be greater than or equal to {low}")
    if high in BROKER and value > broker.value(BROKER[high]):
        raise _invalid(f"{name} must be less than or equal to {high}")


def _check_heartbeat(
    broker: BrokerConfig, parsed: Mapping[str, Any], session: str, heartbeat: str
) -> None:
    values = [
        parsed[name] if name in parsed else broker.value(BROKER[f"group.{name}"])
        for name in (session, heartbeat)
    ]
    if values[0] <= values[1]:
        raise _invalid(f"{session} must be greater than {heartbeat}")


def _check_match(pattern: str) -> None:
    key, equals, expression = pattern.partition("=")
    try:
        re.compile(expression)
        legal = bool(equals) and key.strip() in _MATCH_KEYS
    except re.error:
        legal = False
    if not legal:
        raise _invalid(f"Illegal client matching pattern: {pattern}")


def _refused(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_CONFIG, message)
