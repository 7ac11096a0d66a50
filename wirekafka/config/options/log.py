"""Options for topics and the files their records are kept in."""

from __future__ import annotations

from wirekafka.config.check import all_of, at_least, between, gzip_level, one_of
from wirekafka.config.option import (
    CLUSTER_WIDE,
    HIGH,
    LONG_MAX,
    LOW,
    PER_BROKER,
    boolean,
    class_name,
    double,
    integer,
    listing,
    long,
    string,
)

DOUBLE_MAX = 1.7976931348623157e308


class LogOptions:
    """Rows, by name."""

    auto_create_topics_enable = boolean(True, importance=HIGH, doc="")
    background_threads = integer(10, at_least(1), importance=HIGH, update=CLUSTER_WIDE, doc="")
    compression_gzip_level = integer(-1, gzip_level, update=CLUSTER_WIDE, doc="")
    compression_lz4_level = integer(9, between(1, 17), update=CLUSTER_WIDE, doc="")
    compression_type = string(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="",
    )
    compression_zstd_level = integer(3, between(-131_072, 22), update=CLUSTER_WIDE, doc="")
    cordoned_log_dirs = listing((), update=PER_BROKER, doc="")
    create_topic_policy_class_name = class_name(None, importance=LOW, doc="")
    delete_topic_enable = boolean(True, importance=HIGH, doc="")
    log_cleaner_backoff_ms = long(15_000, at_least(0), update=CLUSTER_WIDE, doc="")
    log_cleaner_dedupe_buffer_size = long(1 << 27, update=CLUSTER_WIDE, doc="")
    log_cleaner_delete_retention_ms = long(86_400_000, at_least(0), update=CLUSTER_WIDE, doc="")
    log_cleaner_enable = boolean(True, doc="")
    log_cleaner_io_buffer_load_factor = double(0.9, update=CLUSTER_WIDE, doc="")
    log_cleaner_io_buffer_size = integer(1 << 19, at_least(0), update=CLUSTER_WIDE, doc="")
    log_cleaner_io_max_bytes_per_second = double(DOUBLE_MAX, update=CLUSTER_WIDE, doc="")
    log_cleaner_max_compaction_lag_ms = long(LONG_MAX, at_least(1), update=CLUSTER_WIDE, doc="")
    log_cleaner_min_cleanable_ratio = double(0.5, between(0, 1), update=CLUSTER_WIDE, doc="")
    log_cleaner_min_compaction_lag_ms = long(0, at_least(0), update=CLUSTER_WIDE, doc="")
    log_cleaner_threads = integer(1, at_least(0), update=CLUSTER_WIDE, doc="")
    log_cleanup_policy = listing(
        ("delete",), all_of("compact", "delete"), update=CLUSTER_WIDE,
        doc="",
    )
    log_dir = listing(("/tmp/kafka-logs",), importance=HIGH, doc="")
    log_dir_failure_timeout_ms = long(30_000, at_least(1), importance=LOW, doc="")
    log_dirs = listing(None, importance=HIGH, doc="")
    log_flush_interval_messages = long(
        LONG_MAX, at_least(1), importance=HIGH, update=CLUSTER_WIDE,
        doc="",
    )
    log_flush_interval_ms = long(None, importance=HIGH, update=CLUSTER_WIDE, doc="")
    log_flush_offset_checkpoint_interval_ms = integer(60_000, at_least(0), importance=HIGH, doc="")
    log_flush_scheduler_interval_ms = long(LONG_MAX, importance=HIGH, doc="")
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, at_least(0), importance=HIGH,
        doc="",
    )
    log_index_interval_bytes = integer(1 << 12, at_least(0), update=CLUSTER_WIDE, doc="")
    log_index_size_max_bytes = integer(10_485_760, at_least(4), update=CLUSTER_WIDE, doc="")
    log_initial_task_delay_ms = long(30_000, at_least(0), importance=LOW, internal=True, doc="")
    log_local_retention_bytes = long(-2, at_least(-2), update=CLUSTER_WIDE, doc="")
    log_local_retention_ms = long(-2, at_least(-2), update=CLUSTER_WIDE, doc="")
    log_message_timestamp_after_max_ms = long(3_600_000, at_least(0), update=CLUSTER_WIDE, doc="")
    log_message_timestamp_before_max_ms = long(LONG_MAX, at_least(0), update=CLUSTER_WIDE, doc="")
    log_message_timestamp_type = string(
        "CreateTime", one_of("CreateTime", "LogAppendTime"), update=CLUSTER_WIDE,
        doc="",
    )
    log_preallocate = boolean(False, update=CLUSTER_WIDE, doc="")
    log_retention_bytes = long(-1, importance=HIGH, update=CLUSTER_WIDE, doc="")
    log_retention_check_interval_ms = long(300_000, at_least(1), doc="")
    log_retention_hours = integer(168, importance=HIGH, doc="")
    log_retention_minutes = integer(None, importance=HIGH, doc="")
    log_retention_ms = long(None, importance=HIGH, update=CLUSTER_WIDE, doc="")
    log_roll_hours = integer(168, at_least(1), importance=HIGH, doc="")
    log_roll_jitter_hours = integer(0, at_least(0), importance=HIGH, doc="")
    log_roll_jitter_ms = long(None, importance=HIGH, update=CLUSTER_WIDE, doc="")
    log_roll_ms = long(None, importance=HIGH, update=CLUSTER_WIDE, doc="")
    log_segment_bytes = integer(
        1 << 30, at_least(1 << 20), importance=HIGH, update=CLUSTER_WIDE,
        doc="",
    )
    log_segment_delete_delay_ms = long(
        60_000, at_least(0), importance=HIGH, update=CLUSTER_WIDE,
        doc="",
    )
    message_max_bytes = integer(
        1_048_588, at_least(0), importance=HIGH, update=CLUSTER_WIDE,
        doc="",
    )
    num_partitions = integer(1, at_least(1), doc="")
    num_recovery_threads_per_data_dir = integer(
        2, at_least(1), importance=HIGH, update=CLUSTER_WIDE,
        doc="",
    )
