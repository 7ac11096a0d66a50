"""Whether configs of groups and of client-metrics subscriptions may be."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.options import CLIENT_METRICS, GROUP
from wirekafka.errors import Error, KafkaError

_METRICS_INTERVALS_MS = range(100, 3_600_001)
_MATCHABLE = frozenset({
    "client_instance_id", "client_id", "client_software_name", "client_software_version",
    "client_source_address", "client_source_port",
})


def check_group_configs(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises INVALID_CONFIG unless the broker's bounds for groups let these be (KIP-848)."""
    for name, value in configs.items():
        option = GROUP.get(name)
        if option is None:
            raise KafkaError(Error.INVALID_CONFIG, f"Unknown group config name: {name}")
        try:
            parsed = option.parse(value)
        except ConfigError as error:
            raise KafkaError(Error.INVALID_CONFIG, str(error)) from None
        kind, _, rest = name.partition(".")
        least = f"group.{kind}.min.{rest}"
        most = f"group.{kind}.max.{rest}"
        if parsed < _bound(broker, least, parsed):
            raise KafkaError(Error.INVALID_CONFIG,
                             f"{name} must be greater than or equal to {least}")
        if parsed > _bound(broker, most, parsed):
            raise KafkaError(Error.INVALID_CONFIG,
                             f"{name} must be less than or equal to {most}")
    for kind in ("consumer", "share", "streams"):
        _check_heartbeat(kind, configs, broker)


def _bound(broker: BrokerConfig, name: str, absent: object) -> object:
    return getattr(broker, name.replace(".", "_"), absent)


def _check_heartbeat(kind: str, configs: Mapping[str, str], broker: BrokerConfig) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if session not in configs and heartbeat not in configs:
        return
    values = [
        int(configs[name]) if name in configs else getattr(broker, f"group.{name}".replace(".", "_"))
        for name in (session, heartbeat)
    ]
    if values[0] <= values[1]:
        raise KafkaError(Error.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def check_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Raises INVALID_REQUEST or INVALID_CONFIG for what is no subscription (KIP-714)."""
    for name, value in configs.items():
        option = CLIENT_METRICS.get(name)
        if option is None:
            raise KafkaError(Error.INVALID_REQUEST,
                             f"Unknown client metrics configuration: {name}")
        try:
            option.parse(value)
        except ConfigError as error:
            raise KafkaError(Error.INVALID_CONFIG, str(error)) from None
    interval = configs.get("interval.ms")
    if interval is not None and int(interval) not in _METRICS_INTERVALS_MS:
        raise KafkaError(Error.INVALID_REQUEST,
                         f"Invalid value {interval} for interval.ms, interval must be between 100 "
                         "and 3600000 (1 hour)")
    for selector in filter(None, configs.get("match", "").split(",")):
        _check_selector(selector.strip())


def _check_selector(selector: str) -> None:
    name, equals, pattern = selector.partition("=")
    if not equals or name.strip() not in _MATCHABLE:
        raise KafkaError(Error.INVALID_CONFIG, f"Illegal client matching pattern: {selector}")
    try:
        re.compile(pattern.strip())
    except re.error:
        raise KafkaError(Error.INVALID_CONFIG,
                         f"Illegal client matching pattern: {selector}") from None
