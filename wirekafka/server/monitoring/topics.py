"""Metrics of topics and partitions, named as by Kafka's JMX beans and by kafka_exporter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wirekafka.broker import Broker
from wirekafka.metadata.image.image import PartitionImage
from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table, single
from wirekafka.metrics.measures import Measures
from wirekafka.metrics.traffic import TopicTraffic
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import NO_LEADER

_PARTITIONS_PER_STEP = 100
_GRACE_MS = 300_000
"""A transaction is late this long after the largest timeout, as in Kafka."""


class TrafficCollector:
    """The traffic of reads and writes, in total and for each topic with any traffic."""

    def __init__(self, measures: Measures, broker: Broker):
        self._requests, self._traffic = measures.requests, measures.traffic
        self._broker = broker
        prefix = "kafka_server_brokertopicmetrics"
        self._topics = Table(
            ["topic"],
            [
                Column(f"{prefix}_{name}_total", COUNTER, text)
                for name, text in (
                    ("messagesin", "Records that leaders here have appended."),
                    ("bytesin", "Bytes of batches that leaders here have appended."),
                    ("bytesout", "Bytes of records sent to consumers."),
                    ("bytesrejected", "Bytes of batches that were too large."),
                    (
                        "totalproducerequests",
                        "Partitions in Produce requests, and appends of coordinators.",
                    ),
                    ("failedproducerequests", "Those of them that were refused."),
                    ("totalfetchrequests", "Partitions in Fetch requests."),
                    ("failedfetchrequests", "Partitions in Fetch requests that were refused."),
                    (
                        "producemessageconversions",
                        "Records compressed anew, because their topic has another codec.",
                    ),
                    ("fetchmessageconversions", "Always 0: records are sent as they are stored."),
                    ("totalsharefetchrequests", "ShareFetch requests, once for each topic."),
                    ("failedsharefetchrequests", "ShareFetch requests that were refused."),
                    (
                        "totalshareacknowledgementrequests",
                        "Requests that acknowledge records, once for each topic.",
                    ),
                    ("failedshareacknowledgementrequests", "Acknowledgements that were refused."),
                    ("replicationbytesin", "Bytes fetched from leaders."),
                    ("replicationbytesout", "Bytes sent to followers."),
                )
            ],
        )
        self.tables = (self._topics,)

    def collect(self) -> Iterator[None]:
        self._requests.settle()  # In the same step: topics that were deleted are forgotten.
        self._traffic.forget(self._broker.image.topics.__contains__)
        self._topics.begin()
        # As in Kafka, the total has no label.
        self._topics.put(("",), _totals(self._traffic.total()))
        for number, (topic, counters) in enumerate(self._traffic.topics()):
            if (
                counters.produces
                or counters.fetches
                or counters.replication_bytes_in
                or counters.share_fetches
            ):
                # Replication is counted for the broker only, as in Kafka.
                self._topics.put((topic,), (*_totals(counters)[:-2], None, None))
            if number % _PARTITIONS_PER_STEP == 0:
                yield


def _totals(counters: TopicTraffic) -> tuple[int, ...]:
    return (
        counters.messages_in,
        counters.bytes_in,
        counters.bytes_out,
        counters.bytes_rejected,
        counters.produces,
        counters.failed_produces,
        counters.fetches,
        counters.failed_fetches,
        counters.conversions,
        0,
        counters.share_fetches,
        counters.failed_share_fetches,
        counters.share_acknowledgements,
        counters.failed_share_acknowledgements,
        counters.replication_bytes_in,
        counters.replication_bytes_out,
    )


class PartitionCollector:
    """Each replica on this broker, and the broker's counts of replicas.

    kafka_exporter reports each partition of the cluster once: here its leader reports it, and for a
    partition without a leader the first replica.
    """

    def __init__(self, broker: Broker):
        self._broker = broker
        self._generation = -1
        self._reassigning = 0
        self._known: dict[tuple[str, int], _Known] = {}
        self._replicas = Table(["topic", "partition"], _replica_columns())
        self._topics = single("kafka_topic_partitions", GAUGE, "Partitions of a topic.", "topic")
        prefix = "kafka_server_replicamanager"
        self._counts = Table(
            [],
            [
                Column(f"{prefix}_{name}", GAUGE, text)
                for name, text in (
                    ("partitioncount", "Replicas on this broker."),
                    ("leadercount", "Partitions that this broker leads."),
                    ("underreplicatedpartitions", "Led partitions with too small an ISR."),
                    ("underminisrpartitioncount", "Led partitions below min.insync.replicas."),
                    ("atminisrpartitioncount", "Led partitions at min.insync.replicas."),
                    ("offlinereplicacount", "Replicas in failed log directories."),
                    ("reassigningpartitions", "Led partitions whose replicas are being moved."),
                    ("produceridcount", "Producer ids with a state in any partition."),
                    (
                        "partitionswithlatetransactionscount",
                        "Partitions with a transaction idle for longer than any may take.",
                    ),
                )
            ],
        )
        self._isrs = Table(
            [],
            [
                Column(f"{prefix}_{name}_total", COUNTER, text)
                for name, text in (
                    ("isrshrinks", "Replicas that this leader removed from an ISR."),
                    ("isrexpands", "Replicas that this leader returned to an ISR."),
                    ("failedisrupdates", "Changes of an ISR that the controller refused."),
                )
            ],
        )
        self.tables = (self._replicas, self._topics, self._counts, self._isrs)

    def collect(self) -> Iterator[None]:
        broker = self._broker
        if broker.image.generation != self._generation:
            self._generation = broker.image.generation
            yield from self._read_topics()
        late_ms = broker.clock.now_ms() - broker.config.transaction_max_timeout_ms - _GRACE_MS
        counts = [0] * 5
        producers = late = 0
        table = self._replicas
        table.begin()
        known = self._known
        self._known = {}
        for number, (key, partition) in enumerate(list(broker.partitions.items())):
            state = _state(partition)
            before = known.get(key)
            if before is None or before.state != state:
                labels = (key[0], str(key[1]))
                before = _Known(state, labels, _replica_values(partition))
            self._known[key] = before
            values = before.values
            table.put(before.labels, values)
            counts[0] += 1
            if partition.leader is not None:
                under_replicated, _, _, under_min, at_min, *_ = values
                counts[1] += 1
                counts[2] += under_replicated or 0
                counts[3] += under_min or 0
                counts[4] += at_min or 0
            states = partition.log.producers
            if len(states):
                producers += len(states)
                since_ms = states.oldest_open_ms
                late += since_ms is not None and since_ms < late_ms
            if number % _PARTITIONS_PER_STEP == _PARTITIONS_PER_STEP - 1:
                yield
        keeper = broker.isr_keeper
        self._isrs.fill([((), (keeper.shrinks, keeper.expands, keeper.refusals))])
        offline = sum(len(directory.offline) for directory in broker.directories)
        counted = (*counts, offline, self._reassigning, producers, late)
        self._counts.fill([((), counted)])

    def _read_topics(self) -> Iterator[None]:
        """The values that follow from the metadata alone."""
        image, node_id = self._broker.image, self._broker.node_id
        reassigning = seen = 0
        self._topics.begin()
        for topic in list(image.topics.values()):
            partitions = topic.partitions
            if 0 in partitions and _reporter(partitions[0]) == node_id:
                self._topics.put((topic.name,), (len(partitions),))
            for each in partitions.values():
                if each.leader == node_id and (each.adding_replicas or each.removing_replicas):
                    reassigning += 1
            seen += len(partitions)
            if seen >= 10 * _PARTITIONS_PER_STEP:
                seen = 0
                yield
        self._reassigning = reassigning
        yield


class FollowerCollector:
    """How far the replicas that follow leaders on other brokers are behind them."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._lags = single(
            "kafka_server_fetcherlagmetrics_consumerlag",
            GAUGE,
            "Records from the end of a replica to the leader's high watermark.",
            "clientId",
            "topic",
            "partition",
        )
        self._most = single(
            "kafka_server_replicafetchermanager_maxlag", GAUGE, "The largest of these.", "clientId"
        )
        self.tables = (self._lags, self._most)

    def collect(self) -> Iterator[None]:
        most = 0
        self._lags.begin()
        for number, (fetcher, partition, lag) in enumerate(self._broker.fetching.lags()):
            self._lags.put((fetcher, partition.topic, str(partition.index)), (lag,))
            most = max(most, lag)
            if number % _PARTITIONS_PER_STEP == _PARTITIONS_PER_STEP - 1:
                yield
        self._most.fill([(("Replica",), (most,))])


class _Known(NamedTuple):
    """The values of a replica, and the state that they were computed from."""

    state: tuple[object, ...]
    labels: tuple[str, str]
    values: tuple[int | None, ...]


def _state(partition: Partition) -> tuple[object, ...]:
    """The inputs of `_replica_values`, read in a quarter of the time."""
    log = partition.log
    segments = log.segments
    return (
        partition.leadership,
        partition.leader,
        partition.high_watermark,
        partition.start_offset,
        log.config,
        log.first_unstable_offset,
        log.start_offset,
        log.end_offset,
        segments.active.size_bytes if len(segments) == 1 else log.size_bytes,
    )


def _replica_columns() -> Sequence[Column]:
    named = (
        ("kafka_cluster_partition_underreplicated", "1 if replicas are missing in the ISR."),
        ("kafka_cluster_partition_insyncreplicascount", "The size of the ISR, on the leader."),
        ("kafka_cluster_partition_replicascount", "The number of replicas, on the leader."),
        ("kafka_cluster_partition_underminisr", "1 if the ISR is below min.insync.replicas."),
        ("kafka_cluster_partition_atminisr", "1 if the ISR has min.insync.replicas replicas."),
        (
            "kafka_cluster_partition_laststableoffsetlag",
            "From the last stable offset to the high watermark.",
        ),
        ("kafka_log_log_size", "Bytes of the log's segments."),
        ("kafka_log_log_logstartoffset", "The first offset of the log."),
        ("kafka_log_log_logendoffset", "The offset of the next record."),
        ("kafka_log_log_numlogsegments", "The number of the log's segments."),
        (
            "kafka_log_log_retentionsizein_percent",
            "The log's size in percent of retention.bytes (KIP-1257); 0 without a limit.",
        ),
        ("kafka_topic_partition_current_offset", "The high watermark."),
        ("kafka_topic_partition_oldest_offset", "The first offset of the partition."),
        ("kafka_topic_partition_in_sync_replica", "The size of the ISR."),
        ("kafka_topic_partition_leader", "The broker id of the leader."),
        (
            "kafka_topic_partition_leader_is_preferred",
            "1 if the leader is the first of the replicas.",
        ),
        ("kafka_topic_partition_replicas", "The number of replicas."),
        ("kafka_topic_partition_under_replicated_partition", "1 if the ISR is incomplete."),
    )
    return [Column(name, GAUGE, text) for name, text in named]


_NOT_LED = (None,) * 7


def _replica_values(partition: Partition) -> tuple[int | None, ...]:
    log, leadership = partition.log, partition.leadership
    segments = log.segments
    high_watermark = partition.high_watermark
    unstable = log.first_unstable_offset
    lag = 0 if unstable is None else max(high_watermark - unstable, 0)
    copies = log.config.is_tiered and not log.config.remote_log_copy_disable
    limit_bytes = 0 if copies else log.config.retention_bytes
    filled = 100 * log.size_bytes // limit_bytes if limit_bytes > 0 else 0
    files = (log.size_bytes, log.start_offset, log.end_offset, len(segments), filled)
    replicas, isr = len(leadership.replicas), len(leadership.isr)
    is_under = int(isr < replicas)
    if partition.leader is None:
        if leadership.leader_id != NO_LEADER or leadership.replicas[:1] != (partition.node_id,):
            return (0, 0, 0, 0, 0, lag, *files, *_NOT_LED)
        offsets = (high_watermark, partition.start_offset)
        return (0, 0, 0, 0, 0, lag, *files, *offsets, isr, None, 0, replicas, is_under)
    wanted = min(log.config.min_insync_replicas, replicas)
    return (
        is_under,
        isr,
        replicas,
        int(isr < wanted),
        int(isr == wanted),
        lag,
        *files,
        high_watermark,
        partition.start_offset,
        isr,
        leadership.leader_id,
        int(leadership.leader_id == leadership.replicas[0]),
        replicas,
        is_under,
    )


def _reporter(partition: PartitionImage) -> int:
    """The broker that reports a partition of the cluster: its leader, or its first replica."""
    return partition.leader if partition.leader != NO_LEADER else partition.replicas[0]
