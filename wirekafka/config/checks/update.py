"""Checks the values of AlterConfigs for each type of resource, with Kafka's error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.client_match import ClientMatch
from wirekafka.config.checks.group_bounds import violations
from wirekafka.config.checks.java_classes import STREAMS_ASSIGNORS, check_class, short_names
from wirekafka.config.option import ConfigError, Type, Update
from wirekafka.config.options import BROKER, CLIENT_METRICS, GROUP, THROTTLES, TOPIC
from wirekafka.config.prefixed_names import STORES, is_per_broker, split
from wirekafka.config.topic_config import validate_topic_config
from wirekafka.errors import Error, KafkaError

_RACK_TAGS = "streams.rack.aware.assignment.tags"
_STREAMS_ASSIGNOR = "streams.assignor.name"
_DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_TIERED = "remote.storage.enable"
_UNCHECKED = "config.providers"
"""Kafka checks the value of this option at a start only."""


def is_list(resource_type: int, name: str) -> bool:
    """Whether APPEND and SUBTRACT apply to an option of a resource (KIP-339)."""
    # Not to the lists of client metrics (16), whose types Kafka's controller does not know.
    table = {2: TOPIC, 4: BROKER, 32: GROUP}.get(resource_type, {})
    option = table.get(name)
    return option is not None and option.type is Type.LIST


def validate_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], before: Mapping[str, str] | None = None
) -> None:
    """Check all overrides a topic is to have, new and kept. Raises KafkaError(INVALID_CONFIG).

    `before` are its present options; None if it is created.
    """
    unknown = next((name for name in overrides if name not in TOPIC), None)
    if unknown is not None:
        validate_topic_config(unknown, "")
    for name, value in overrides.items():
        validate_topic_config(name, value)
    config = broker.topic_config(overrides)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            Error.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms "
            f"({config.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({config.max_compaction_lag_ms})",
        )
    is_tiered = before is not None and before.get(_TIERED) == "true"
    if config.remote_storage_enable or is_tiered:
        # Imported late: few clusters have tiered topics.
        from wirekafka.config.checks.tiered_topic import check_tiered

        check_tiered(broker, config, broker.topic_config(before) if before is not None else None)


def validate_broker(values: Mapping[str, str], *, per_broker: bool) -> None:
    """Check the dynamic values of one broker, or of all. Raises KafkaError(INVALID_REQUEST).

    Unknown names are accepted: a plugin may read them (KIP-226).
    """
    fixed = [n for n in values if n in BROKER and BROKER[n].update is Update.READ_ONLY]
    if fixed:
        raise _refused(f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]")
    secured = [n for n in values if n in STORES]
    if secured:
        raise _refused(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{', '.join(sorted(secured))}]"
        )
    for name, value in values.items():
        _check_broker_value(name, value)
    lone = [n for n in values if is_per_broker(n)]
    if lone and not per_broker:
        raise _refused(
            "Cannot update these configs at default cluster level, broker id must be "
            f"specified: [{', '.join(sorted(lone))}]"
        )


def validate_group(broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Check all options a group is to have. Raises KafkaError(INVALID_CONFIG)."""
    for name in overrides:
        if name not in GROUP:
            raise _invalid(f"Unknown group config name: {name}")
    if _RACK_TAGS in overrides:
        _check_rack_tags(overrides[_RACK_TAGS])
    parsed: dict[str, Any] = {}
    for name, text in overrides.items():
        try:
            parsed[name] = GROUP[name].parse(text)
        except ConfigError as error:
            raise _invalid(str(error)) from None
    for violation in violations(broker, parsed):
        raise _invalid(violation)
    if _STREAMS_ASSIGNOR in parsed:
        _check_streams_assignor(broker, parsed[_STREAMS_ASSIGNOR])
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if parsed.keys() & {session, heartbeat}:
            _check_heartbeat(broker, parsed, session, heartbeat)
    if parsed.get(_DEAD_LETTER_TOPIC, "").startswith("__"):
        raise _invalid(f"{_DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")


def validate_client_metrics(values: Mapping[str, str]) -> None:
    """Check all options of a client metrics subscription (KIP-714).

    Raises KafkaError: INVALID_REQUEST or INVALID_CONFIG.
    """
    for name, text in values.items():
        if name not in CLIENT_METRICS:
            raise _refused(f"Unknown client metrics configuration: {name}")
        try:
            value = CLIENT_METRICS[name].parse(text)
        except ConfigError as error:
            raise _invalid(str(error)) from None
        if name == "interval.ms" and not 100 <= value <= 3_600_000:
            raise _refused(
                f"Invalid value {value} for interval.ms, interval must be between 100 "
                "and 3600000 (1 hour)"
            )
        if name == "match":
            ClientMatch(value)


def _check_broker_value(name: str, value: str) -> None:
    parts = split(name)
    # Like Kafka, without the options of a SASL mechanism.
    option = BROKER.get(parts.rest if parts is not None else name) or THROTTLES.get(name)
    if option is None or option.name == _UNCHECKED:
        return
    name = option.name
    if option.type is Type.LIST:
        _check_distinct(name, value)
    try:
        parsed = option.parse(value, name)
        if option.type is Type.CLASS:
            check_class(name, parsed)
    except ConfigError as error:
        raise _refused(str(error)) from None


def _check_distinct(name: str, value: str) -> None:
    """Refuse repeated words, which a start drops with no more than a warning."""
    words = re.split(r"\s*,\s*", value.strip())
    if len(set(words)) < len(words):
        raise _refused(f"Configuration '{name}' values must not be duplicated.")


def _check_rack_tags(text: str) -> None:
    tags = [tag.strip() for tag in text.split(",")]
    if len(set(tags)) < len(tags):
        raise _invalid(f"{_RACK_TAGS} must not contain duplicate tag keys.")


def _check_streams_assignor(broker: BrokerConfig, name: str) -> None:
    registered = short_names(
        "group.streams.assignors", broker.group_streams_assignors, STREAMS_ASSIGNORS
    )
    if name not in registered:
        raise _invalid(
            f"{_STREAMS_ASSIGNOR} '{name}' is not a registered task assignor. Registered "
            f"assignors are: [{', '.join(registered)}]."
        )


def _check_heartbeat(
    broker: BrokerConfig, parsed: Mapping[str, Any], session: str, heartbeat: str
) -> None:
    values = [
        parsed[name] if name in parsed else broker.value(BROKER[f"group.{name}"])
        for name in (session, heartbeat)
    ]
    if values[0] <= values[1]:
        raise _invalid(f"{session} must be greater than {heartbeat}")


def _refused(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_CONFIG, message)
