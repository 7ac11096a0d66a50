"""Group and client-metrics options: what may be set per group (KIP-848) and per subscription."""

from __future__ import annotations

from wirekafka.config.check import at_least, offset_reset, one_of
from wirekafka.config.option import boolean, integer, listing, string
from wirekafka.config.options.groups import GroupOptions as Group
from wirekafka.config.options.share import ShareOptions as Share
from wirekafka.config.options.topic import follows


class PerGroupOptions:
    """Rows, by name, of the GROUP resource."""

    consumer_assignment_interval_ms = follows(Group.group_consumer_assignment_interval_ms)
    consumer_heartbeat_interval_ms = follows(Group.group_consumer_heartbeat_interval_ms)
    consumer_session_timeout_ms = follows(Group.group_consumer_session_timeout_ms)
    share_assignment_interval_ms = follows(Share.group_share_assignment_interval_ms)
    share_auto_offset_reset = string(
        "latest", offset_reset,
        doc="Where a share group starts: earliest, latest, or by_duration:<ISO 8601 duration>.",
    )
    share_delivery_count_limit = follows(
        Share.group_share_delivery_count_limit, check=at_least(2))
    share_heartbeat_interval_ms = follows(Share.group_share_heartbeat_interval_ms)
    share_isolation_level = string(
        "read_uncommitted", one_of("read_committed", "read_uncommitted"),
        doc="Whether a share group sees records of transactions that are still open.",
    )
    share_partition_max_record_locks = follows(
        Share.group_share_partition_max_record_locks, check=at_least(100))
    share_record_lock_duration_ms = follows(
        Share.group_share_record_lock_duration_ms, check=at_least(1000))
    share_renew_acknowledge_enable = boolean(
        True, doc="Whether a consumer may prolong its hold on records it was given.")
    share_session_timeout_ms = follows(Share.group_share_session_timeout_ms)
    streams_assignment_interval_ms = follows(Group.group_streams_assignment_interval_ms)
    streams_heartbeat_interval_ms = follows(Group.group_streams_heartbeat_interval_ms)
    streams_initial_rebalance_delay_ms = follows(Group.group_streams_initial_rebalance_delay_ms)
    streams_num_standby_replicas = follows(Group.group_streams_num_standby_replicas)
    streams_session_timeout_ms = follows(Group.group_streams_session_timeout_ms)


class ClientMetricsOptions:
    """Rows, by name, of the CLIENT_METRICS resource (KIP-714)."""

    interval_ms = integer(
        300_000, doc="How often clients push the metrics they are asked for.")
    match = listing((), doc="Which clients are asked: selector=regular-expression pairs.")
    metrics = listing((), doc="Prefixes of the metrics' names that are asked for, or * for all.")
