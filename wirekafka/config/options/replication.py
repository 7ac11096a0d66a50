"""Options for copies of partitions and how they are kept level."""

from __future__ import annotations

from wirekafka.config.check import at_least
from wirekafka.config.option import CLUSTER_WIDE, HIGH, LOW, integer, long, string


class ReplicationOptions:
    """Rows, by name."""

    alter_log_dirs_replication_quota_window_num = integer(11, at_least(1), importance=LOW, doc="")
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        1, at_least(1), importance=LOW,
        doc="",
    )
    default_replication_factor = integer(1, doc="")
    min_insync_replicas = integer(1, at_least(1), importance=HIGH, update=CLUSTER_WIDE, doc="")
    num_replica_alter_log_dirs_threads = integer(None, importance=HIGH, doc="")
    num_replica_fetchers = integer(1, at_least(1), importance=HIGH, update=CLUSTER_WIDE, doc="")
    replica_fetch_backoff_ms = integer(1000, at_least(0), doc="")
    replica_fetch_max_bytes = integer(1 << 20, at_least(0), doc="")
    replica_fetch_min_bytes = integer(1, importance=HIGH, doc="")
    replica_fetch_response_max_bytes = integer(10_485_760, at_least(0), doc="")
    replica_fetch_wait_max_ms = integer(500, importance=HIGH, doc="")
    replica_high_watermark_checkpoint_interval_ms = long(5000, importance=HIGH, doc="")
    replica_lag_time_max_ms = long(30_000, importance=HIGH, doc="")
    replica_selector_class = string(None, doc="")
    replica_socket_receive_buffer_bytes = integer(1 << 16, importance=HIGH, doc="")
    replica_socket_timeout_ms = integer(30_000, importance=HIGH, doc="")
    replication_quota_window_num = integer(11, at_least(1), importance=LOW, doc="")
    replication_quota_window_size_seconds = integer(1, at_least(1), importance=LOW, doc="")
    request_timeout_ms = integer(30_000, importance=HIGH, doc="")
