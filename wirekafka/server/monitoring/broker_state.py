"""Metrics of the broker as a whole: its logs, sessions, transactions and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

from wirekafka.broker import Broker
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.transactions.shard import TransactionShard
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table, single
from wirekafka.protocol.records.metadata import RegisterBrokerRecord

_RUNNING, _SHUTTING_DOWN = 3, 6
"""Kafka's numbers of the states RUNNING and PENDING_CONTROLLED_SHUTDOWN."""
_GROUPS_PER_STEP = 500
_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_KINDS = {
    "classic": _STATES,
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "share": ("Empty", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}
"""The states of groups by type, as Kafka counts them."""


class BrokerCollector:
    """One sample of each metric, and a few by log directory."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self.is_stopping = False
        self._broker_table = Table([], _broker_columns())
        self._directories = Table(
            ["logDirectory"],
            [
                Column("kafka_log_logmanager_logdirectoryoffline", GAUGE, "1 if it has failed."),
                Column(
                    "kafka_log_logmanager_logdirectorycordoned",
                    GAUGE,
                    "1 if it gets no new replicas.",
                ),
                Column("wirekafka_log_directory_logs", GAUGE, "Logs in the directory."),
                Column(
                    "wirekafka_log_directory_full",
                    GAUGE,
                    "1 while appends are refused for lack of space.",
                ),
                Column(
                    "wirekafka_log_directory_free_bytes",
                    GAUGE,
                    "The free space of the directory's file system.",
                ),
                Column(
                    "wirekafka_log_directory_total_bytes",
                    GAUGE,
                    "The size of the directory's file system.",
                ),
            ],
        )
        self._cluster = single(
            "kafka_brokers", GAUGE, "Brokers in service; from that of the lowest id only."
        )
        self._members = single(
            "kafka_broker_info",
            GAUGE,
            "The address of each broker in service; from that of the lowest id only.",
            "id",
            "address",
        )
        self.tables = (self._broker_table, self._directories, self._cluster, self._members)

    def collect(self) -> Iterator[None]:
        broker, config = self._broker, self._broker.config
        now_ms = broker.clock.now_ms()
        since_ms: list[int] = []
        for machine in broker.transactions.machines():
            since_ms += cast(TransactionShard, machine).open_since_ms()
            yield
        oldest_ms = max(now_ms - min(since_ms, default=now_ms), 0)
        cordoned = {each.path for each in broker.directories if config.is_cordoned(each.path)}
        self._broker_table.fill(
            [
                (
                    (),
                    (
                        _SHUTTING_DOWN if self.is_stopping else _RUNNING,
                        len(broker.sessions),
                        broker.sessions.partitions,
                        broker.sessions.evictions,
                        len(broker.directory_reports),
                        sum(each.failure is not None for each in broker.directories),
                        len(cordoned),
                        broker.metadata_offset,
                        broker.metadata.lagging,
                        oldest_ms / 1000,
                        len(since_ms),
                    ),
                )
            ]
        )
        self._directories.fill(
            (
                (each.path,),
                (
                    int(each.failure is not None),
                    int(each.path in cordoned),
                    len(each.logs),
                    int(each.is_full),
                    *_space(broker, each),
                ),
            )
            for each in broker.directories
        )
        live = broker.image.live_brokers()
        reports = bool(live) and live[0].id == broker.node_id
        self._cluster.fill([((), (len(live),))] if reports else [])
        self._members.fill(
            ((str(each.id), _address(each.registration)), (1,)) for each in live if reports
        )


def _broker_columns() -> list[Column]:
    return [
        Column(
            "kafka_server_kafkaserver_brokerstate",
            GAUGE,
            "3 while clients are served, 6 while it stops.",
        ),
        Column(
            "kafka_server_fetchsessioncache_numincrementalfetchsessions",
            GAUGE,
            "Incremental fetch sessions (KIP-227).",
        ),
        Column(
            "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
            GAUGE,
            "Partitions of incremental fetch sessions.",
        ),
        Column(
            "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
            COUNTER,
            "Sessions that had to make room for others.",
        ),
        Column(
            "kafka_server_assignmentsmanager_queuedreplicatodirassignments",
            GAUGE,
            "Log directories of replicas that the controller is yet to be informed of (KIP-1100).",
        ),
        Column(
            "kafka_log_logmanager_offlinelogdirectorycount",
            GAUGE,
            "Log directories that have failed.",
        ),
        Column(
            "kafka_log_logmanager_cordonedlogdirectorycount",
            GAUGE,
            "Log directories that get no new replicas (KIP-1066).",
        ),
        Column(
            "kafka_server_brokermetadatametrics_last_applied_record_offset",
            GAUGE,
            "The last metadata offset that this broker has applied.",
        ),
        Column(
            "wirekafka_metadata_lagging_partitions",
            GAUGE,
            "Partitions to which this broker could not apply metadata yet: their logs cannot be"
            " created or opened, for lack of descriptors or space for instance. It is retried.",
        ),
        Column(
            "wirekafka_oldest_open_transaction_seconds",
            GAUGE,
            "The age of the oldest transaction of this coordinator that is not complete; "
            "0 without one.",
        ),
        Column(
            "wirekafka_open_transactions",
            GAUGE,
            "Transactions of this coordinator that are not complete.",
        ),
    ]


def _space(broker: Broker, directory: LogDirectory) -> tuple[int | None, int | None]:
    """The free and the total bytes of a directory's file system, None where it has failed."""
    if directory.failure is None:
        # Housekeeping notices the error, too.
        with suppress(OSError):
            disk, path = broker.disk, directory.path
            return disk.free_bytes(path), disk.total_bytes(path)
    return None, None


def _address(registration: RegisterBrokerRecord) -> str:
    endpoints = registration.end_points
    return f"{endpoints[0].host}:{endpoints[0].port}" if endpoints else ""


class CoordinatorCollector:
    """The groups that this broker coordinates, by type and state."""

    def __init__(self, broker: Broker):
        self._groups = broker.groups
        prefix = "kafka_coordinator_group_groupmetadatamanager"
        self._classic = Table(
            [],
            [
                Column(f"{prefix}_numgroups", GAUGE, "Classic groups."),
                Column(f"{prefix}_numoffsets", GAUGE, "Committed offsets of all groups."),
                *(
                    Column(f"{prefix}_numgroups{state.lower()}", GAUGE, f"Classic groups: {state}.")
                    for state in _STATES
                ),
            ],
        )
        self._types = single(
            "wirekafka_groups", GAUGE, "Groups by type and state.", "type", "state"
        )
        own = "kafka_server_group_coordinator_metrics"
        self._protocols = single(f"{own}_group_count", GAUGE, "Groups by type.", "protocol")
        self._offsets = single(f"{own}_offset_count", GAUGE, "Committed offsets of all groups.")
        self._kinds = {
            kind: single(f"{own}_{kind}_group_count", GAUGE, f"Groups of type {kind}.", "state")
            for kind in _KINDS
        }
        self.tables = (
            self._classic,
            self._types,
            self._protocols,
            self._offsets,
            *self._kinds.values(),
        )

    def collect(self) -> Iterator[None]:
        kinds: Counter[tuple[str, str]] = Counter()
        offsets = 0
        for machine in self._groups.machines():
            shard = cast(GroupShard, machine)
            for number, group in enumerate(list(shard.groups.values())):
                kinds[group.type_name, group.listed().state] += 1
                offsets += shard.offsets.count(group.group_id)
                if number % _GROUPS_PER_STEP == _GROUPS_PER_STEP - 1:
                    yield
            yield
        states = [kinds["classic", state] for state in _STATES]
        classic = sum(count for (kind, _), count in kinds.items() if kind == "classic")
        self._classic.fill([((), (classic, offsets, *states))])
        self._types.fill((key, (count,)) for key, count in sorted(kinds.items()))
        self._offsets.fill([((), (offsets,))])
        totals = Counter(dict.fromkeys(_KINDS, 0))
        for (kind, _), count in kinds.items():
            totals[kind] += count
        self._protocols.fill(((kind,), (totals[kind],)) for kind in _KINDS)
        for kind, states_of in _KINDS.items():
            self._kinds[kind].fill(((state,), (kinds[kind, state],)) for state in states_of)
