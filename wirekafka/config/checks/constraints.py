"""Constraints between options: values that are valid one by one, but not together.

Every source of settings is checked against them: at the start, and when a broker's dynamic
configuration changes. The order and the words are Kafka's.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.group_bounds import BOUNDS
from wirekafka.config.checks.java_classes import (
    CONSUMER_ASSIGNORS,
    LOADED_AT_START,
    SHARE_ASSIGNORS,
    STREAMS_ASSIGNORS,
    short_names,
)
from wirekafka.config.endpoints import listeners
from wirekafka.config.endpoints.host_limits import connections_of_hosts
from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER

logger = logging.getLogger(__name__)

AT_LEAST = "must be greater than or equal to"
AT_MOST = "must be less than or equal to"
BELOW = "must be less than"
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    AT_LEAST: operator.ge,
    AT_MOST: operator.le,
    BELOW: operator.lt,
}
_CLEANER_BUFFER_BYTES = 1 << 20
_AS_TOTAL = -2
"""The local retention that is the whole retention."""
_RACK_TAGS = "group.streams.rack.aware.assignment.tags"


class ConstraintError(ConfigError):
    """A value that another option's value excludes; `stated` is Kafka's message."""

    def __init__(self, config: BrokerConfig, name: str, reason: str, stated: str = "") -> None:
        self.stated = stated or f"requirement failed: {reason}"
        super().__init__(name, config.value(BROKER[name]), f"{reason}{_source(config, name)}")


class Order(NamedTuple):
    """Two options and how the first compares with the second."""

    name: str
    words: str
    other: str

    def check(self, config: BrokerConfig) -> None:
        """Raise ConstraintError if the values do not compare so."""
        value, bound = (config.value(BROKER[name]) for name in (self.name, self.other))
        if not _HOLDS[self.words](value, bound):
            stated = f"{self.name} {self.words} {self.other}"
            raise ConstraintError(config, self.name, f"{stated} ({bound})", stated)


def _orders() -> Iterator[Order]:
    """Yield the orders of options of groups, as Kafka checks them for each kind of group."""
    for name, (low, high) in BOUNDS.items():
        value = f"group.{name}"
        if low is not None and high is not None:
            yield Order(high.name, AT_LEAST, low.name)
        if low is not None:
            yield Order(value, AT_LEAST, low.name)
        if high is not None:
            yield Order(value, AT_MOST, high.name)
        if value.endswith("session.timeout.ms"):
            yield Order(value.replace("session.timeout.ms", "heartbeat.interval.ms"), BELOW, value)
    yield Order("group.share.max.share.sessions", AT_LEAST, "group.share.max.size")


ORDERS = tuple(_orders())


def check_constraints(config: BrokerConfig) -> None:
    """Raise ConfigError for the first constraint of all sources that is not fulfilled."""
    for check in CONSTRAINTS:
        check(config)


def check_start(config: BrokerConfig) -> None:
    """Raise ConfigError for the first constraint of a start that is not fulfilled."""
    for check in (*CONSTRAINTS, *ONLY_AT_START):
        check(config)


def is_applicable(config: BrokerConfig) -> bool:
    """Whether dynamic settings fit together: controllers store settings unchecked.

    If not, the previous settings stay in use, as in Kafka; the reason is logged.
    """
    try:
        check_constraints(config)
    except ConfigError as error:
        logger.error("Dynamic settings are not applied: %s", error)
        return False
    return True


def _node_id(config: BrokerConfig) -> None:
    if config.broker_id != config.node_id:
        raise ConstraintError(
            config,
            "node.id",
            f"node.id and broker.id ({config.broker_id}) must be set to the same value; "
            "broker.id is an older name of node.id",
        )


def _times_of_logs(config: BrokerConfig) -> None:
    defaults = config.topic_defaults
    if defaults.segment_ms < 1:
        raise ConstraintError(
            config, "log.roll.ms", "log.roll.ms must be greater than or equal to 1"
        )
    if defaults.segment_jitter_ms < 0:
        raise ConstraintError(
            config, "log.roll.jitter.ms", "log.roll.jitter.ms must be greater than or equal to 0"
        )
    if defaults.retention_ms == 0:
        units = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
        raise ConstraintError(
            config,
            next(name for name in units if config.value(BROKER[name]) is not None),
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        )


def _cleaner(config: BrokerConfig) -> None:
    threads, buffer_bytes = config.log_cleaner_threads, config.log_cleaner_dedupe_buffer_size
    if threads < 1:
        # Kafka divides the buffer by the number of threads.
        raise ConstraintError(
            config, "log.cleaner.threads", "Log cleaner threads should be at least 1", "/ by zero"
        )
    if buffer_bytes // threads <= _CLEANER_BUFFER_BYTES:
        raise ConstraintError(
            config,
            "log.cleaner.dedupe.buffer.size",
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        )


def _replica_fetches(config: BrokerConfig) -> None:
    wait_ms = config.replica_fetch_wait_max_ms
    if config.replica_socket_timeout_ms < wait_ms:
        raise ConstraintError(
            config,
            "replica.socket.timeout.ms",
            f"replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms "
            f"({wait_ms}) to prevent unnecessary socket timeouts",
        )
    if config.replica_lag_time_max_ms < wait_ms:
        raise ConstraintError(
            config,
            "replica.fetch.wait.max.ms",
            "replica.fetch.wait.max.ms should always be less than or equal to "
            f"replica.lag.time.max.ms ({config.replica_lag_time_max_ms}) to prevent frequent "
            "changes in ISR",
        )


def _cordoned_directories(config: BrokerConfig) -> None:
    cordoned = config.cordoned_log_dirs
    if "*" in cordoned:
        if len(cordoned) > 1:
            raise ConstraintError(
                config,
                "cordoned.log.dirs",
                "When cordoned.log.dirs is set to *, it must not contain other values",
            )
        return
    missing = [path for path in cordoned if path not in config.data_directories]
    if missing:
        raise ConstraintError(
            config,
            "cordoned.log.dirs",
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}",
        )


def _requests(config: BrokerConfig) -> None:
    queued_bytes, request_bytes = config.queued_max_request_bytes, config.socket_request_max_bytes
    if 0 < queued_bytes < request_bytes:
        raise ConstraintError(
            config,
            "queued.max.request.bytes",
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes "
            f"({request_bytes})",
        )


def _connections(config: BrokerConfig) -> None:
    overrides = connections_of_hosts(config.max_connections_per_ip_overrides)
    if config.max_connections_per_ip == 0 and not overrides:
        raise ConstraintError(
            config,
            "max.connections.per.ip",
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set.",
        )
    delay_ms, idle_ms = (
        config.connection_failed_authentication_delay_ms,
        config.connections_max_idle_ms,
    )
    if 0 <= idle_ms <= delay_ms:
        raise ConstraintError(
            config,
            "connection.failed.authentication.delay.ms",
            f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
            f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from "
            "timing out",
        )


def _compaction_lags(config: BrokerConfig) -> None:
    least_ms, most_ms = (
        config.log_cleaner_min_compaction_lag_ms,
        config.log_cleaner_max_compaction_lag_ms,
    )
    if least_ms > most_ms:
        raise ConstraintError(
            config,
            "log.cleaner.min.compaction.lag.ms",
            "log.cleaner.min.compaction.lag.ms must not exceed log.cleaner.max.compaction.lag.ms "
            f"({most_ms})",
            f"conflict topic config setting min.compaction.lag.ms ({least_ms}) > "
            f"max.compaction.lag.ms ({most_ms})",
        )


def _tiers(config: BrokerConfig) -> None:
    if not config.remote_log_storage_system_enable:
        return
    for unit in ("ms", "bytes"):
        name = f"log.local.retention.{unit}"
        reason = why_not_tiered(config, name)
        if reason:
            raise ConstraintError(config, name, reason)


def why_not_tiered(config: BrokerConfig, name: str) -> str:
    """Why logs cannot keep so much locally, or copy so late, as Kafka words it; else empty.

    `name` is log.local.retention.* or log.remote.copy.lag.*.
    """
    unit = name.rpartition(".")[2]
    value = config.value(BROKER[name])
    total = getattr(config.topic_defaults, f"retention_{unit}")
    local = config.value(BROKER[f"log.local.retention.{unit}"])
    bound = f"log.retention.{unit}"
    if name.startswith("log.local."):
        if local == -1 and total >= 0:
            return f"Value must not be -1 as {bound} value is set as {total}."
        if local != _AS_TOTAL and local > total >= 0:
            return f"Value must not be more than {bound} property value: {total}"
        return ""
    effective = total if local == _AS_TOTAL else local
    if value > effective >= 0:
        return f"Value must not exceed log.local.retention.{unit} (effective value: {effective})"
    return ""


def _groups(config: BrokerConfig) -> None:
    short_names("group.consumer.assignors", config.group_consumer_assignors, CONSUMER_ASSIGNORS)
    short_names("group.streams.assignors", config.group_streams_assignors, STREAMS_ASSIGNORS)
    share = "group.share.assignors"
    count = len(config.group_share_assignors)
    short_names(share, config.group_share_assignors, SHARE_ASSIGNORS)
    if count != 1:
        stated = f"{share} must contain exactly one assignor, but found {count}"
        raise ConstraintError(config, share, stated, stated)
    tags = re.split(r"\s*,\s*", (config.sources.text(_RACK_TAGS) or "").strip())
    if len(set(tags)) < len(tags):
        stated = f"{_RACK_TAGS} must not contain duplicate tag keys."
        raise ConstraintError(config, _RACK_TAGS, stated, stated)
    for order in ORDERS:
        order.check(config)


def _early_listeners(config: BrokerConfig) -> None:
    known = listeners.own_names(config)
    for name in config.early_start_listeners:
        if name not in known:
            raise ConstraintError(
                config,
                "early.start.listeners",
                f"early.start.listeners contains listener {name}, but this is not contained in "
                "listeners or controller.listener.names",
            )


def _loaded_classes(config: BrokerConfig) -> None:
    for name, known in LOADED_AT_START.items():
        value = config.value(BROKER[name])
        for item in value if isinstance(value, tuple) else (value,):
            if item not in known:
                raise ConstraintError(config, name, "Java classes cannot be loaded")


def _source(config: BrokerConfig, name: str) -> str:
    sources = config.sources
    is_static = name in sources.static and not sources.is_dynamic(name)
    return f" (from {sources.source(name)})" if is_static else ""


CONSTRAINTS: tuple[Callable[[BrokerConfig], None], ...] = (
    _groups,
    _node_id,
    _times_of_logs,
    _cleaner,
    _replica_fetches,
    _cordoned_directories,
    _requests,
    _connections,
    _early_listeners,
    _loaded_classes,
)
ONLY_AT_START: tuple[Callable[[BrokerConfig], None], ...] = (_compaction_lags, _tiers)
"""The constraints that Kafka checks only at a start, or at run time in another way."""
