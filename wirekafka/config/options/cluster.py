"""Options for the identity of this node, its quorum, and who leads."""

from __future__ import annotations

from wirekafka.config.check import all_of, at_least
from wirekafka.config.option import (
    CLUSTER_WIDE,
    HIGH,
    LONG_MAX,
    LOW,
    boolean,
    integer,
    listing,
    long,
    string,
)


class ClusterOptions:
    """Rows, by name."""

    auto_leader_rebalance_enable = boolean(True, importance=HIGH, doc="")
    broker_heartbeat_interval_ms = integer(2000, doc="")
    broker_id = integer(-1, importance=HIGH, doc="")
    broker_rack = string(None, doc="")
    broker_session_timeout_ms = integer(9000, doc="")
    controlled_shutdown_enable = boolean(True, doc="")
    controller_listener_names = listing(None, importance=HIGH, doc="")
    controller_performance_always_log_threshold_ms = long(2000, at_least(0), internal=True, doc="")
    controller_performance_sample_period_ms = long(60_000, at_least(100), internal=True, doc="")
    controller_quorum_append_linger_ms = integer(25, at_least(0), doc="")
    controller_quorum_auto_join_enable = boolean(False, importance=LOW, doc="")
    controller_quorum_bootstrap_servers = listing((), importance=HIGH, doc="")
    controller_quorum_election_backoff_max_ms = integer(1000, at_least(0), importance=HIGH, doc="")
    controller_quorum_election_timeout_ms = integer(1000, at_least(0), importance=HIGH, doc="")
    controller_quorum_fetch_max_bytes = integer(1 << 20, at_least(1), importance=LOW, doc="")
    controller_quorum_fetch_snapshot_max_bytes = integer(
        1 << 20, at_least(1), importance=LOW,
        doc="",
    )
    controller_quorum_fetch_timeout_ms = integer(2000, at_least(0), importance=HIGH, doc="")
    controller_quorum_request_timeout_ms = integer(2000, at_least(0), doc="")
    controller_quorum_retry_backoff_ms = integer(20, at_least(0), importance=LOW, doc="")
    controller_quorum_voters = listing((), importance=HIGH, doc="")
    controller_quota_window_num = integer(11, at_least(1), importance=LOW, doc="")
    controller_quota_window_size_seconds = integer(1, at_least(1), importance=LOW, doc="")
    controller_socket_timeout_ms = integer(30_000, doc="")
    early_start_listeners = listing(None, importance=HIGH, doc="")
    initial_broker_registration_timeout_ms = integer(60_000, doc="")
    internal_metadata_delete_delay_millis = long(60_000, importance=LOW, internal=True, doc="")
    internal_metadata_log_segment_bytes = integer(None, importance=LOW, internal=True, doc="")
    internal_metadata_max_batch_size_in_bytes = integer(
        1 << 23, importance=LOW, internal=True,
        doc="",
    )
    leader_imbalance_check_interval_seconds = long(300, at_least(1), importance=HIGH, doc="")
    metadata_log_dir = string(None, importance=HIGH, doc="")
    metadata_log_max_record_bytes_between_snapshots = long(
        20_971_520, at_least(1), importance=HIGH,
        doc="",
    )
    metadata_log_max_snapshot_interval_ms = long(3_600_000, at_least(0), importance=HIGH, doc="")
    metadata_log_segment_bytes = integer(1 << 30, at_least(1 << 23), importance=HIGH, doc="")
    metadata_log_segment_ms = long(604_800_000, importance=HIGH, doc="")
    metadata_max_idle_interval_ms = integer(500, at_least(0), importance=LOW, doc="")
    metadata_max_retention_bytes = long(104_857_600, importance=HIGH, doc="")
    metadata_max_retention_ms = long(604_800_000, importance=HIGH, doc="")
    node_id = integer(-1, at_least(0), importance=HIGH, required=True, doc="")
    process_roles = listing(None, all_of("broker", "controller"), importance=HIGH, doc="")
    server_max_startup_time_ms = long(LONG_MAX, at_least(0), internal=True, doc="")
    unclean_leader_election_enable = boolean(False, importance=HIGH, update=CLUSTER_WIDE, doc="")
    unclean_leader_election_interval_ms = long(300_000, at_least(1), internal=True, doc="")
    unstable_api_versions_enable = boolean(False, importance=HIGH, internal=True, doc="")
    unstable_feature_versions_enable = boolean(False, importance=HIGH, internal=True, doc="")
