"""Options for consumer and streams groups and their committed offsets."""

from __future__ import annotations

from wirekafka.config.check import all_of, at_least, one_of_any_case
from wirekafka.config.option import (
    CLUSTER_WIDE,
    HIGH,
    INT_MAX,
    integer,
    listing,
    long,
    short,
    string,
)


class GroupOptions:
    """Rows, by name."""

    group_consumer_assignment_interval_ms = integer(1000, at_least(0), update=CLUSTER_WIDE, doc="")
    group_consumer_assignors = listing(("uniform", "range"), doc="")
    group_consumer_heartbeat_interval_ms = integer(5000, at_least(1), doc="")
    group_consumer_max_assignment_interval_ms = integer(15_000, at_least(0), doc="")
    group_consumer_max_heartbeat_interval_ms = integer(15_000, at_least(1), doc="")
    group_consumer_max_session_timeout_ms = integer(60_000, at_least(1), doc="")
    group_consumer_max_size = integer(INT_MAX, at_least(1), doc="")
    group_consumer_migration_policy = string(
        "bidirectional", one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        doc="",
    )
    group_consumer_min_assignment_interval_ms = integer(0, at_least(0), doc="")
    group_consumer_min_heartbeat_interval_ms = integer(5000, at_least(1), doc="")
    group_consumer_min_session_timeout_ms = integer(45_000, at_least(1), doc="")
    group_consumer_regex_refresh_interval_ms = integer(
        600_000, at_least(10_000), internal=True,
        doc="",
    )
    group_consumer_session_timeout_ms = integer(45_000, at_least(1), doc="")
    group_coordinator_append_linger_ms = integer(-1, at_least(-1), doc="")
    group_coordinator_background_threads = integer(2, at_least(1), importance=HIGH, doc="")
    group_coordinator_cached_buffer_max_bytes = integer(
        1_048_588, at_least(1 << 19), update=CLUSTER_WIDE,
        doc="",
    )
    group_coordinator_rebalance_protocols = listing(
        ("classic", "consumer", "streams"), all_of("consumer", "classic", "share", "streams"),
        doc="",
    )
    group_coordinator_threads = integer(4, at_least(1), importance=HIGH, doc="")
    group_initial_rebalance_delay_ms = integer(3000, doc="")
    group_max_session_timeout_ms = integer(1_800_000, doc="")
    group_max_size = integer(INT_MAX, at_least(1), doc="")
    group_min_session_timeout_ms = integer(6000, doc="")
    group_streams_assignment_interval_ms = integer(1000, at_least(0), update=CLUSTER_WIDE, doc="")
    group_streams_heartbeat_interval_ms = integer(5000, at_least(1), doc="")
    group_streams_initial_rebalance_delay_ms = integer(3000, at_least(0), doc="")
    group_streams_max_assignment_interval_ms = integer(15_000, at_least(0), doc="")
    group_streams_max_heartbeat_interval_ms = integer(15_000, at_least(1), doc="")
    group_streams_max_session_timeout_ms = integer(60_000, at_least(1), doc="")
    group_streams_max_size = integer(INT_MAX, at_least(1), doc="")
    group_streams_max_standby_replicas = integer(2, at_least(0), doc="")
    group_streams_min_assignment_interval_ms = integer(0, at_least(0), doc="")
    group_streams_min_heartbeat_interval_ms = integer(5000, at_least(1), doc="")
    group_streams_min_session_timeout_ms = integer(45_000, at_least(1), doc="")
    group_streams_num_standby_replicas = integer(0, at_least(0), doc="")
    group_streams_session_timeout_ms = integer(45_000, at_least(1), doc="")
    offset_metadata_max_bytes = integer(1 << 12, importance=HIGH, doc="")
    offsets_commit_timeout_ms = integer(5000, at_least(1), importance=HIGH, doc="")
    offsets_load_buffer_size = integer(5_242_880, at_least(1), importance=HIGH, doc="")
    offsets_retention_check_interval_ms = long(600_000, at_least(1), importance=HIGH, doc="")
    offsets_retention_minutes = integer(10_080, at_least(1), importance=HIGH, doc="")
    offsets_topic_compression_codec = integer(0, importance=HIGH, doc="")
    offsets_topic_num_partitions = integer(50, at_least(1), importance=HIGH, doc="")
    offsets_topic_replication_factor = short(3, at_least(1), importance=HIGH, doc="")
    offsets_topic_segment_bytes = integer(104_857_600, at_least(1), importance=HIGH, doc="")
