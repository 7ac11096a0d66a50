"""Checks new dynamic values against the current ones of a running broker (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.config import listeners
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.host_limits import connections_of_hosts
from wirekafka.config.option import ConfigError
from wirekafka.config.prefixed import split
from wirekafka.errors import Error, KafkaError

_THREADS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
_POSITIVE = ("max.connections", "max.connection.creation.rate")
"""Options of listeners that can be 0 only at a start."""
_CLEANER_BUFFER_BYTES = 1 << 20


def validate_dynamic(config: BrokerConfig, values: Mapping[str, str]) -> None:
    """Raise KafkaError(INVALID_REQUEST), with Kafka's message, for values it cannot apply.

    Each value must have passed the check of its option.
    """
    for name in _THREADS:
        if name in values:
            _check_threads(name, int(values[name]), getattr(config, name.replace(".", "_")))
    _check_listeners(config, values)
    _check_cleaner(config, values)
    _check_connections(config, values)
    _check_logs(config, values)


def _check_threads(name: str, wanted: int, current: int) -> None:
    reason = ""
    if wanted < current // 2:
        reason = f"value should be at least half the current value {current}"
    elif wanted > current * 2:
        reason = f"value should not be greater than double the current value {current}"
    if reason:
        raise _invalid(
            f"Dynamic thread count update validation failed for {name}={wanted}, {reason}"
        )


def _check_listeners(config: BrokerConfig, values: Mapping[str, str]) -> None:
    bound = {name.lower() for name in listeners.own_names(config)}
    for name, text in values.items():
        parts = split(name)
        if parts is None or parts.listener not in bound:
            continue
        if parts.rest in _POSITIVE and int(text) <= 0:
            raise _invalid(f"Invalid {parts.rest} {text}")
        if parts.rest == "num.network.threads":
            current = config.for_listener(parts.listener).num_network_threads
            _check_threads(parts.rest, int(text), current)


def _check_cleaner(config: BrokerConfig, values: Mapping[str, str]) -> None:
    current = config.log_cleaner_threads
    threads = int(values.get("log.cleaner.threads", current))
    if threads < 1:
        raise _invalid("Log cleaner threads should be at least 1")
    if threads < current // 2:
        raise _invalid(
            f"Log cleaner threads cannot be reduced to less than half the current value {current}"
        )
    if threads > current * 2:
        raise _invalid(
            "Log cleaner threads cannot be increased to more than double the current "
            f"value {current}"
        )
    buffer = int(
        values.get("log.cleaner.dedupe.buffer.size", config.log_cleaner_dedupe_buffer_size)
    )
    if buffer // threads <= _CLEANER_BUFFER_BYTES:
        raise _refused(
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB "
            "per cleaner thread."
        )


def _check_connections(config: BrokerConfig, values: Mapping[str, str]) -> None:
    for name in _POSITIVE:
        if int(values.get(name, 1)) <= 0:
            raise _invalid(f"Invalid {name} {values[name]}")
    overrides = values.get(
        "max.connections.per.ip.overrides", config.max_connections_per_ip_overrides
    )
    try:
        connections_of_hosts(overrides)
    except ConfigError as error:
        raise _refused(str(error)) from None
    if int(values.get("max.connections.per.ip", 1)) == 0 and not overrides:
        raise _refused(
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set."
        )


def _check_logs(config: BrokerConfig, values: Mapping[str, str]) -> None:
    if int(values.get("log.roll.ms", 1)) < 1:
        raise _refused("requirement failed: log.roll.ms must be greater than or equal to 1")
    directories = config.data_directories
    cordoned = [path.strip() for path in values.get("cordoned.log.dirs", "").split(",")]
    missing = [path for path in cordoned if path and path != "*" and path not in directories]
    if missing:
        raise _refused(
            "requirement failed: All entries in cordoned.log.dirs must be present in "
            f"log.dirs or log.dir. Missing entries : {', '.join(missing)}"
        )
    after = config.with_written(config.sources.cluster, {**config.sources.broker, **values})
    for unit in ("ms", "bytes"):
        local = int(values.get(f"log.local.retention.{unit}", -2))
        total = getattr(after.topic_defaults, f"retention_{unit}")
        _check_local_retention(unit, local, total)


def _check_local_retention(unit: str, local: int, total: int) -> None:
    name, bound = f"log.local.retention.{unit}", f"log.retention.{unit}"
    if local == -1 and total != -1:
        raise _invalid(
            f"Invalid value -1 for configuration {name}: Value must not be -1 as "
            f"{bound} value is set as {total}."
        )
    if local > total != -1:
        raise _invalid(
            f"Invalid value {local} for configuration {name}: Value must not be more "
            f"than {bound} property value: {total}"
        )


def _invalid(reason: str) -> KafkaError:
    return _refused(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} for "
        "configuration Invalid dynamic configuration"
    )


def _refused(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)
