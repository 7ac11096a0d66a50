"""Metrics of tiered storage, named as by Kafka's JMX beans, and metrics of its own health."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.log.retention import local_limits
from wirekafka.metrics.exposition import (
    COUNTER,
    GAUGE,
    SUMMARY,
    Column,
    Summary,
    Table,
    Value,
    single,
)
from wirekafka.metrics.histogram import QUANTILES, quantiles
from wirekafka.metrics.measures import Measures
from wirekafka.server.tiering.partition_tier import PartitionTier
from wirekafka.server.tiering.tiering import Tiering
from wirekafka.tiered.counters import TierCounters
from wirekafka.tiered.remote_segment import SegmentState

_PREFIX = "kafka_server_brokertopicmetrics_"
_COUNTERS = (
    ("remotecopybytes", "copied_bytes", "Bytes of segments copied to remote storage."),
    ("remotecopyrequests", "copies", "Segments whose copy was begun."),
    ("remotecopyerrors", "failed_copies", "Copies that were given up."),
    ("remotefetchbytes", "read_bytes", "Bytes read from remote storage for consumers."),
    ("remotefetchrequests", "reads", "Reads of remote storage."),
    ("remotefetcherrors", "failed_reads", "Reads of remote storage that failed."),
    ("remotedeleterequests", "deletions", "Segments whose deletion was begun."),
    ("remotedeleteerrors", "failed_deletions", "Deletions that failed, and are repeated."),
    ("buildremotelogauxstaterequests", "starts", "Followers that were to begin from the tier."),
    (
        "buildremotelogauxstateerrors",
        "failed_starts",
        "Failed attempts to start followers from remote storage.",
    ),
)
_GAUGES = (
    ("remotecopylagbytes", "Bytes of closed segments that are not copied yet."),
    ("remotecopylagsegments", "Closed segments that are not copied yet."),
    ("remotedeletelagbytes", "Bytes of segments whose deletion has not ended."),
    ("remotedeletelagsegments", "Segments whose deletion has not ended."),
    ("remotelogmetadatacount", "Segments in remote storage, in any state."),
    ("remotelogsizebytes", "Bytes of segments in remote storage."),
)
_LATE = (
    (
        "kafka_server_delayedremotefetchmetrics_expires_total",
        "late_reads",
        "Fetches that did not wait for a read any longer.",
    ),
    (
        "kafka_server_delayedremotelistoffsetsmetrics_expires_total",
        "late_look_ups",
        "Look-ups of timestamps that took too long.",
    ),
)
_MANAGER = "kafka_log_remote_remotelogmanager_"
_POOL = "kafka_log_remote_remotestoragethreadpool_remotelogreader"
_WORK = (
    Column(
        f"{_MANAGER}remotelogmanagertasksavgidle_percent",
        GAUGE,
        "The share, up to 1, of copies at the same time that are not used.",
    ),
    Column(
        f"{_MANAGER}remotelogreaderfetchrateandtimems",
        SUMMARY,
        "Reads of remote storage, in milliseconds.",
    ),
    Column(
        f"{_POOL}avgidle_percent",
        GAUGE,
        "The share, up to 1, of reads at the same time that are not used.",
    ),
    Column(f"{_POOL}taskqueuesize", GAUGE, "Reads that wait for others to end."),
    *(Column(name, COUNTER, text) for name, _, text in _LATE),
)
_FILLED = (
    Column(
        f"{_MANAGER}retentionsizein_percent",
        GAUGE,
        "The size of a log, remote storage included, in percent of retention.bytes.",
    ),
    Column(
        f"{_MANAGER}localretentionsizein_percent",
        GAUGE,
        "The local size of a log in percent of local.retention.bytes.",
    ),
)
_MICROSECONDS = 1_000
"""Of a millisecond."""


class TierCollector:
    """The traffic with remote storage, what is there, and what fails."""

    def __init__(self, tiering: Tiering, measures: Measures):
        self._tiering, self._measures = tiering, measures
        self._work = Table([], _WORK)
        self._filled = Table(["topic", "partition"], _FILLED)
        self._counters = Table(
            ["topic"],
            [Column(f"{_PREFIX}{name}_total", COUNTER, text) for name, _, text in _COUNTERS],
        )
        self._gauges = Table(
            ["topic"], [Column(f"{_PREFIX}{name}", GAUGE, text) for name, text in _GAUGES]
        )
        self._skipped = single(
            "wirekafka_tier_skipped_records_total",
            COUNTER,
            "Metadata records that cannot be decoded, or do not apply to their segments.",
        )
        self._failing = Table(
            ["topic", "partition", "task"],
            [Column("wirekafka_tier_failing", GAUGE, "1 while a task of a partition fails.")],
        )
        self.tables = (
            self._counters,
            self._gauges,
            self._work,
            self._filled,
            self._skipped,
            self._failing,
        )

    def collect(self) -> Iterator[None]:
        tiering = self._tiering
        total = _values(tiering.past_counters)
        self._counters.begin()
        for topic, counters in tiering.counters.items():
            values = _values(counters)
            total = [one + other for one, other in zip(total, values, strict=True)]
            self._counters.put((topic,), values)
        self._counters.put(("",), total)
        self._work.fill([((), self._work_values())])
        yield
        sums: dict[str, list[int]] = {"": [0] * len(_GAUGES)}
        self._filled.begin()
        for (topic, index), tier in list(tiering.tiers.items()):
            if tier.partition.is_leader:
                found = _lags(tier)
                self._filled.put((topic, str(index)), _shares(tier))
                for name in (topic, ""):
                    known = sums.get(name, [0] * len(_GAUGES))
                    sums[name] = [a + b for a, b in zip(known, found, strict=True)]
                yield
        self._gauges.fill(((topic,), values) for topic, values in sums.items())
        self._skipped.fill([((), (tiering.metadata.skipped,))])
        self._failing.fill(
            ((partition.topic, str(partition.number), task), (1,))
            for task, partition in tiering.failing()
        )
        yield

    def _work_values(self) -> list[Value]:
        tiering, reads = self._tiering, self._measures.remote_reads
        times_ms = {
            label: value / _MICROSECONDS for label, value in quantiles([reads], QUANTILES).items()
        }
        known = [tiering.past_counters, *tiering.counters.values()]
        return [
            tiering.copiers.idle,
            Summary(times_ms, reads.count),
            tiering.readers.slots.idle,
            tiering.readers.slots.waiting,
            *(sum(getattr(each, name) for each in known) for _, name, _ in _LATE),
        ]


def _values(counters: TierCounters) -> list[int]:
    return [getattr(counters, attribute) for _, attribute, _ in _COUNTERS]


def _lags(tier: PartitionTier) -> list[int]:
    log, states = tier.partition.log, tier.states
    copied = -1 if log.remote is None else log.remote.readable_end_offset
    waiting = [each.size_bytes for each in list(log.segments)[:-1] if each.base_offset >= copied]
    known = list(states or ())
    leaving = [each.size_bytes for each in known if each.state is SegmentState.DELETE_STARTED]
    there = [each.size_bytes for each in known if each.state is SegmentState.COPY_FINISHED]
    return [sum(waiting), len(waiting), sum(leaving), len(leaving), len(known), sum(there)]


def _shares(tier: PartitionTier) -> list[Value]:
    """The sizes of a log and of its local part, in percent of what is kept of them."""
    log = tier.partition.log
    copied = -1 if log.remote is None else log.remote.copied_end_offset
    size_bytes = sum(
        each.size_bytes for each in tier.states or () if each.state is SegmentState.COPY_FINISHED
    ) + sum(each.size_bytes for each in list(log.segments) if each.base_offset >= copied)
    local_bytes, _ = local_limits(log.config)
    return [_percent(size_bytes, log.config.retention_bytes), _percent(log.size_bytes, local_bytes)]


def _percent(size_bytes: int, limit_bytes: int) -> int:
    return 100 * size_bytes // limit_bytes if limit_bytes > 0 else 0
