"""Options for share groups and the state they keep (KIP-932)."""

from __future__ import annotations

from wirekafka.config.check import at_least, between
from wirekafka.config.option import CLUSTER_WIDE, HIGH, LOW, integer, listing, short, string


class ShareOptions:
    """Rows, by name."""

    group_share_assignment_interval_ms = integer(1000, at_least(0), update=CLUSTER_WIDE, doc="")
    group_share_assignors = listing(("simple",), doc="")
    group_share_delivery_count_limit = integer(5, between(2, 10), doc="")
    group_share_heartbeat_interval_ms = integer(5000, at_least(1), doc="")
    group_share_initialize_retry_interval_ms = integer(
        30_000, at_least(1), importance=LOW, internal=True,
        doc="",
    )
    group_share_max_assignment_interval_ms = integer(15_000, at_least(0), doc="")
    group_share_max_delivery_count_limit = integer(10, between(5, 25), doc="")
    group_share_max_heartbeat_interval_ms = integer(15_000, at_least(1), doc="")
    group_share_max_partition_max_record_locks = integer(4000, between(2000, 10_000), doc="")
    group_share_max_record_lock_duration_ms = integer(60_000, between(30_000, 3_600_000), doc="")
    group_share_max_session_timeout_ms = integer(60_000, at_least(1), doc="")
    group_share_max_share_sessions = integer(2000, at_least(1), doc="")
    group_share_max_size = integer(200, between(1, 1000), doc="")
    group_share_min_assignment_interval_ms = integer(0, at_least(0), doc="")
    group_share_min_delivery_count_limit = integer(2, between(2, 5), doc="")
    group_share_min_heartbeat_interval_ms = integer(5000, at_least(1), doc="")
    group_share_min_partition_max_record_locks = integer(100, between(100, 2000), doc="")
    group_share_min_record_lock_duration_ms = integer(15_000, between(1000, 30_000), doc="")
    group_share_min_session_timeout_ms = integer(45_000, at_least(1), doc="")
    group_share_partition_max_record_locks = integer(2000, between(100, 10_000), doc="")
    group_share_persister_class_name = string(
        "org.apache.kafka.server.share.persister.DefaultStatePersister", internal=True,
        doc="",
    )
    group_share_record_lock_duration_ms = integer(30_000, between(1000, 3_600_000), doc="")
    group_share_session_timeout_ms = integer(45_000, at_least(1), doc="")
    share_coordinator_append_linger_ms = integer(-1, at_least(-1), doc="")
    share_coordinator_cached_buffer_max_bytes = integer(
        1_048_588, at_least(1 << 19), update=CLUSTER_WIDE,
        doc="",
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        300_000, at_least(1), importance=LOW, internal=True,
        doc="",
    )
    share_coordinator_load_buffer_size = integer(5_242_880, at_least(1), importance=HIGH, doc="")
    share_coordinator_snapshot_update_records_per_snapshot = integer(500, between(0, 500), doc="")
    share_coordinator_state_topic_compression_codec = integer(0, importance=HIGH, doc="")
    share_coordinator_state_topic_min_isr = short(2, at_least(1), importance=HIGH, doc="")
    share_coordinator_state_topic_num_partitions = integer(50, at_least(1), importance=HIGH, doc="")
    share_coordinator_state_topic_prune_interval_ms = integer(
        300_000, at_least(1), importance=LOW, internal=True,
        doc="",
    )
    share_coordinator_state_topic_replication_factor = short(
        3, at_least(1), importance=HIGH,
        doc="",
    )
    share_coordinator_state_topic_segment_bytes = integer(
        104_857_600, at_least(1), importance=HIGH,
        doc="",
    )
    share_coordinator_threads = integer(1, at_least(1), doc="")
    share_coordinator_write_timeout_ms = integer(5000, at_least(1), importance=HIGH, doc="")
    share_fetch_purgatory_purge_interval_requests = integer(1000, doc="")
