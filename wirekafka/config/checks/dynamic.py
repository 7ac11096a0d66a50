"""Checks new dynamic values against the current ones of a running broker (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.constraints import ConstraintError, check_constraints, why_not_tiered
from wirekafka.config.checks.java_classes import LOADED_AT_START
from wirekafka.config.endpoints import listeners
from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER
from wirekafka.config.prefixed_names import split
from wirekafka.errors import Error, KafkaError

_THREADS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
_TIERED = (
    "log.local.retention.ms",
    "log.local.retention.bytes",
    "log.remote.copy.lag.ms",
    "log.remote.copy.lag.bytes",
)
_POSITIVE = ("max.connections", "max.connection.creation.rate")
"""Options of listeners that can be 0 only at a start."""


def validate_dynamic(config: BrokerConfig, values: Mapping[str, str], after: BrokerConfig) -> None:
    """Raise KafkaError(INVALID_REQUEST), with Kafka's message, for inapplicable values.

    `after` is the configuration with the values; each value must have passed the check of its
    option.
    """
    _check_reporters(values)
    try:
        check_constraints(after)
    except ConstraintError as error:
        raise _refused(error.stated) from None
    except ConfigError as error:
        raise _refused(str(error)) from None
    for name in _THREADS:
        # Also after a deletion, which restores a weaker value.
        attribute = name.replace(".", "_")
        _check_threads(name, getattr(after, attribute), getattr(config, attribute))
    _check_listeners(config, values)
    _check_cleaner(config.log_cleaner_threads, after.log_cleaner_threads)
    for name in _POSITIVE:
        if int(values.get(name, 1)) <= 0:
            raise _invalid(f"Invalid {name} {values[name]}")
    for name in _TIERED:
        reason = why_not_tiered(after, name)
        if reason:
            value = after.value(BROKER[name])
            raise _invalid(f"Invalid value {value} for configuration {name}: {reason}")


def _check_reporters(values: Mapping[str, str]) -> None:
    name = "metric.reporters"
    for reporter in BROKER[name].parse(values.get(name, "")):
        if reporter not in LOADED_AT_START[name]:
            raise _invalid(
                f"Validation of dynamic config update of Set({name}) failed with class class "
                "kafka.server.DynamicMetricsReporters"
            )


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


def _check_cleaner(current: int, threads: int) -> None:
    if threads < current // 2:
        raise _invalid(
            f"Log cleaner threads cannot be reduced to less than half the current value {current}"
        )
    if threads > current * 2:
        raise _invalid(
            "Log cleaner threads cannot be increased to more than double the current "
            f"value {current}"
        )


def _invalid(reason: str) -> KafkaError:
    return _refused(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} for "
        "configuration Invalid dynamic configuration"
    )


def _refused(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)
