"""Metrics of tiered storage, named as by Kafka's JMX beans, and metrics of its own health."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table, single
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


class TierCollector:
    """The traffic with remote storage, what is there, and what fails."""

    def __init__(self, tiering: Tiering):
        self._tiering = tiering
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
        self.tables = (self._counters, self._gauges, self._skipped, self._failing)

    def collect(self) -> Iterator[None]:
        tiering = self._tiering
        total = _values(tiering.past_counters)
        self._counters.begin()
        for topic, counters in tiering.counters.items():
            values = _values(counters)
            total = [one + other for one, other in zip(total, values, strict=True)]
            self._counters.put((topic,), values)
        self._counters.put(("",), total)
        yield
        sums: dict[str, list[int]] = {"": [0] * len(_GAUGES)}
        for (topic, _), tier in list(tiering.tiers.items()):
            if tier.partition.is_leader:
                found = _lags(tier)
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
