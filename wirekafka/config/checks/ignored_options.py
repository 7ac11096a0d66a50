"""Options of Apache Kafka that are accepted, but have no effect, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER
from wirekafka.config.prefixed_names import overridden

_BY_REASON: Mapping[str, Sequence[str]] = {
    "one thread serves all requests": (
        "background.threads",
        "group.consumer.assignor.offload.enable",
        "group.coordinator.background.threads",
        "group.coordinator.threads",
        "group.share.assignor.offload.enable",
        "group.streams.assignor.offload.enable",
        "num.io.threads",
        "num.network.threads",
        "num.replica.alter.log.dirs.threads",
        "share.coordinator.threads",
    ),
    "requests that are completed are forgotten at once": (
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "producer.purgatory.purge.interval.requests",
        "share.fetch.purgatory.purge.interval.requests",
    ),
    "metrics are counters, which Prometheus samples": (
        "kafka.metrics.polling.interval.secs",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    ),
    "there is no JMX: metrics are served by HTTP, as `--metrics` says": (
        "kafka.metrics.reporters",
        "metric.reporters",
    ),
    "buffers are as large as their content": (
        "group.coordinator.cached.buffer.max.bytes",
        "log.cleaner.io.buffer.size",
        "offsets.load.buffer.size",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.load.buffer.size",
        "transaction.state.log.load.buffer.size",
    ),
    "copies of segments begin at an interval, and each has a thread of its own": (
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "remote.log.manager.thread.pool.size",
    ),
    "Java's classes for it are not used": (
        "group.share.dlq.manager.class.name",
        "group.share.persister.class.name",
        "group.streams.topology.description.plugin.class",
        "remote.log.metadata.manager.class.path",
        "remote.log.storage.manager.class.path",
        "sasl.client.callback.handler.class",
        "sasl.login.class",
        "ssl.secure.random.implementation",
    ),
    "ssl.enabled.protocols decides": ("ssl.protocol",),
    "controllers' listeners are always served before the metadata is there, as by Kafka's default, "
    "and brokers' as soon as it is": ("early.start.listeners",),
    "the work is done when it is due, not at intervals": (
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.initial.task.delay.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
    ),
    "it is not supported": (
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "controller.quorum.append.linger.ms",
        "group.streams.num.warmup.replicas",
        "internal.metadata.max.batch.size.in.bytes",
        "replica.socket.receive.buffer.bytes",
        "server.max.startup.time.ms",
        "socket.connection.setup.timeout.max.ms",
        "transaction.two.phase.commit.enable",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    ),
}

IGNORED: Mapping[str, str] = {
    name: reason for reason, names in _BY_REASON.items() for name in names
}
"""The reason why an option has no effect, by its name."""


class Ignored(NamedTuple):
    """A setting without effect: its name, which may have a listener's prefix, and why."""

    name: str
    source: str
    reason: str


def ignored(config: BrokerConfig) -> Iterator[Ignored]:
    """Yield the static settings without effect whose value is not the default."""
    for name, setting in sorted(config.sources.static.items()):
        option = BROKER.get(name) or overridden(name)
        if option is None or option.name not in IGNORED:
            continue
        with suppress(ConfigError):  # Of a listener's option, which is checked where it is used.
            if option.parse(setting.text) != option.default:
                yield Ignored(name, setting.source, IGNORED[option.name])
