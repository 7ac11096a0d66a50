"""Options that are set per group (KIP-848), and per client metrics subscription (KIP-714)."""

from __future__ import annotations

from wirekafka.config.check import at_least, offset_reset, one_of
from wirekafka.config.option import boolean, integer, listing, string
from wirekafka.config.options.groups import GroupOptions as Group
from wirekafka.config.options.share import ShareOptions as Share
from wirekafka.config.options.topic import follows


class PerGroupOptions:
    """Options of the GROUP resource, by attribute."""

    consumer_assignment_interval_ms = follows(Group.group_consumer_assignment_interval_ms)
    consumer_assignor_offload_enable = follows(
        Group.group_consumer_assignor_offload_enable, internal=True
    )
    consumer_heartbeat_interval_ms = follows(Group.group_consumer_heartbeat_interval_ms)
    consumer_session_timeout_ms = follows(Group.group_consumer_session_timeout_ms)
    errors_deadletterqueue_copy_record_enable = boolean(
        False, doc="Whether a record's key and value go to the dead-letter topic too."
    )
    errors_deadletterqueue_topic_name = string(
        "", doc="The dead-letter topic of a share group; empty for none (KIP-1191)."
    )
    share_assignment_interval_ms = follows(Share.group_share_assignment_interval_ms)
    share_assignor_offload_enable = follows(
        Share.group_share_assignor_offload_enable, internal=True
    )
    share_auto_offset_reset = string(
        "latest",
        offset_reset,
        doc="Where a share group starts: earliest, latest, or by_duration:<ISO 8601 duration>.",
    )
    share_delivery_count_limit = follows(Share.group_share_delivery_count_limit, check=at_least(2))
    share_heartbeat_interval_ms = follows(Share.group_share_heartbeat_interval_ms)
    share_isolation_level = string(
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        doc="Whether a share group sees records of transactions that are still open.",
    )
    share_partition_max_record_locks = follows(
        Share.group_share_partition_max_record_locks, check=at_least(100)
    )
    share_record_lock_duration_ms = follows(
        Share.group_share_record_lock_duration_ms, check=at_least(1000)
    )
    share_renew_acknowledge_enable = boolean(
        True, doc="Whether a consumer may renew the lock of records it acquired."
    )
    share_session_timeout_ms = follows(Share.group_share_session_timeout_ms)
    streams_acceptable_recovery_lag = follows(
        Group.group_streams_acceptable_recovery_lag, internal=True
    )
    streams_assignment_interval_ms = follows(Group.group_streams_assignment_interval_ms)
    streams_assignor_offload_enable = follows(
        Group.group_streams_assignor_offload_enable, internal=True
    )
    streams_assignor_name = string(
        "sticky", doc="The assignor of a streams group, one of `group.streams.assignors`."
    )
    streams_assignor_name.chain = (Group.group_streams_assignors,)
    streams_heartbeat_interval_ms = follows(Group.group_streams_heartbeat_interval_ms)
    streams_initial_rebalance_delay_ms = follows(Group.group_streams_initial_rebalance_delay_ms)
    streams_num_standby_replicas = follows(Group.group_streams_num_standby_replicas)
    streams_num_warmup_replicas = follows(Group.group_streams_num_warmup_replicas, internal=True)
    streams_rack_aware_assignment_tags = follows(Group.group_streams_rack_aware_assignment_tags)
    streams_session_timeout_ms = follows(Group.group_streams_session_timeout_ms)
    streams_task_offset_interval_ms = follows(
        Group.group_streams_task_offset_interval_ms, internal=True
    )


class ClientMetricsOptions:
    """Options of the CLIENT_METRICS resource (KIP-714), by attribute."""

    interval_ms = integer(300_000, doc="How often clients push the requested metrics.")
    match = listing(
        (), doc="Which clients the subscription is for: selector=regular-expression pairs."
    )
    metrics = listing((), doc="Prefixes of the requested metrics' names, or * for all.")
