"""Metrics of share groups and of share coordinators, named as by Kafka's JMX beans (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.broker import Broker
from wirekafka.coordinator.groups.share.leader import LedShare
from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table, single
from wirekafka.replication.share.acknowledgement import AcknowledgeType
from wirekafka.server.monitoring.coordinators import RecentRates

_GROUPS = "kafka_server_sharegroupmetrics"
_PARTITIONS = "kafka_server_sharepartitionmetrics"
_SESSIONS = "kafka_server_sharesessioncache"
_COORDINATOR = "kafka_server_share_coordinator_metrics"
_COUNTED_TYPES = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
_PARTITIONS_PER_STEP = 100


class ShareCollector:
    """The reads of share groups from the partitions that this broker leads, and their states."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._sessions = Table(
            [],
            [
                Column(f"{_SESSIONS}_sharesessionscount", GAUGE, "Share sessions."),
                Column(f"{_SESSIONS}_sharepartitionscount", GAUGE, "The partitions of them."),
            ],
        )
        self._acknowledgements = single(
            f"{_GROUPS}_recordacknowledgements_total",
            COUNTER,
            "Records that members of share groups have acknowledged.",
            "ackType",
        )
        letters = f"{_GROUPS}_deadletterqueue"
        self._letters = Table(
            ["group"],
            [
                Column(f"{letters}recordcount_count", GAUGE, "Dead letters (KIP-1191)."),
                Column(f"{letters}totalproducerequests_total", COUNTER, "Batches of them."),
                Column(f"{letters}failedproducerequests_total", COUNTER, "Batches that failed."),
            ],
        )
        self._partitions = Table(
            ["group", "topic", "partition"],
            [
                Column(f"{_PARTITIONS}_inflightmessagecount", GAUGE, "Records in flight."),
                Column(f"{_PARTITIONS}_inflightbatchcount", GAUGE, "Batches in flight."),
                Column(
                    f"{_PARTITIONS}_acquisitionlocktimeout_total",
                    COUNTER,
                    "Locks of records that have expired.",
                ),
            ],
        )
        self._states = single(
            f"{_COORDINATOR}_num_partitions",
            GAUGE,
            "Partitions of the topic of share states that this broker leads, by state.",
            "state",
        )
        self._writes = Table(
            [],
            [
                Column(f"{_COORDINATOR}_write_total", COUNTER, "States that were written."),
                Column(f"{_COORDINATOR}_write_rate", GAUGE, "The same per second, of late."),
            ],
        )
        self._rates = RecentRates()
        self.tables = (
            self._sessions,
            self._acknowledgements,
            self._letters,
            self._partitions,
            self._states,
            self._writes,
        )

    def collect(self) -> Iterator[None]:
        broker = self._broker
        shares, counts = broker.shares, broker.shares.counts
        self._sessions.fill([((), (len(shares.sessions), shares.sessions.partitions))])
        self._acknowledgements.fill(
            ((kind.name.capitalize(),), (counts.acknowledged[kind],)) for kind in _COUNTED_TYPES
        )
        self._letters.fill(
            ((group,), (each.records, each.batches, each.failures))
            for group, each in counts.dead_letters.items()
        )
        self._partitions.begin()
        for number, share in enumerate(shares.all()):
            key = share.key.group_id, share.partition.topic, str(share.partition.index)
            self._partitions.put(key, _in_flight(share))
            if number % _PARTITIONS_PER_STEP == _PARTITIONS_PER_STEP - 1:
                yield
        yield
        coordinator = broker.share_coordinator
        loaded = len(coordinator.machines())
        states = {"active": loaded, "loading": coordinator.led - loaded}
        self._states.fill(((state,), (count,)) for state, count in states.items())
        written = coordinator.writes
        [rate] = self._rates.of((written,), broker.clock.now_ms())
        self._writes.fill([((), (written, rate))])


def _in_flight(share: LedShare) -> tuple[int, int, int]:
    machine = share.machine
    # As in Kafka, all offsets from the start offset on, settled records included.
    return machine.locked_count, len(machine.in_flight), share.timed_out
