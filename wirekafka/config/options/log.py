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

    auto_create_topics_enable = boolean(
        True, importance=HIGH,
        doc="Creates a topic when a client asks for one that is not there.",
    )
    background_threads = integer(
        10, at_least(1), importance=HIGH, update=CLUSTER_WIDE,
        doc="Threads for work nobody waits for.",
    )
    compression_gzip_level = integer(
        -1, gzip_level, update=CLUSTER_WIDE,
        doc="The level for batches the broker compresses with gzip; -1 is gzip's own default.",
    )
    compression_lz4_level = integer(
        9, between(1, 17), update=CLUSTER_WIDE,
        doc="The level for batches the broker compresses with lz4.",
    )
    compression_type = string(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="How batches lie on disk: `producer` keeps them as they came, `uncompressed` or a "
        "codec's name has the broker rewrite them.",
    )
    compression_zstd_level = integer(
        3, between(-131_072, 22), update=CLUSTER_WIDE,
        doc="The level for batches the broker compresses with zstd.",
    )
    cordoned_log_dirs = listing(
        (), update=PER_BROKER,
        doc="Log directories that get no new partitions; `*` is all of them.",
    )
    create_topic_policy_class_name = class_name(
        None, importance=LOW,
        doc="A Java class that judges new topics.",
    )
    delete_topic_enable = boolean(True, importance=HIGH, doc="Whether topics can be deleted.")
    log_cleaner_backoff_ms = long(
        15_000, at_least(0), update=CLUSTER_WIDE,
        doc="How long the cleaner rests when there is nothing to clean.",
    )
    log_cleaner_dedupe_buffer_size = long(
        1 << 27, update=CLUSTER_WIDE,
        doc="Memory for the cleaner's map of keys, over all its threads.",
    )
    log_cleaner_delete_retention_ms = long(
        86_400_000, at_least(0), update=CLUSTER_WIDE,
        doc="How long tombstones and transaction markers stay readable after compaction.",
    )
    log_cleaner_enable = boolean(True, doc="Whether compacted topics are compacted.")
    log_cleaner_io_buffer_load_factor = double(
        0.9, update=CLUSTER_WIDE,
        doc="How full the cleaner's map of keys may get.",
    )
    log_cleaner_io_buffer_size = integer(
        1 << 19, at_least(0), update=CLUSTER_WIDE,
        doc="Memory for the cleaner's reading and writing, over all its threads.",
    )
    log_cleaner_io_max_bytes_per_second = double(
        DOUBLE_MAX, update=CLUSTER_WIDE,
        doc="The most bytes the cleaner reads and writes per second.",
    )
    log_cleaner_max_compaction_lag_ms = long(
        LONG_MAX, at_least(1), update=CLUSTER_WIDE,
        doc="The longest a record stays out of compaction's reach.",
    )
    log_cleaner_min_cleanable_ratio = double(
        0.5, between(0, 1), update=CLUSTER_WIDE,
        doc="The share of a log that must be dirty before it is compacted.",
    )
    log_cleaner_min_compaction_lag_ms = long(
        0, at_least(0), update=CLUSTER_WIDE,
        doc="The shortest time a record stays as it was written.",
    )
    log_cleaner_threads = integer(1, at_least(0), update=CLUSTER_WIDE, doc="Threads that compact.")
    log_cleanup_policy = listing(
        ("delete",), all_of("compact", "delete"), update=CLUSTER_WIDE,
        doc="What happens to old records: `delete` drops whole segments, `compact` keeps the "
        "latest of each key; both may be given.",
    )
    log_dir = listing(
        ("/tmp/kafka-logs",), importance=HIGH,
        doc="Where the data is, if `log.dirs` does not say.",
    )
    log_dir_failure_timeout_ms = long(
        30_000, at_least(1), importance=LOW,
        doc="A broker that cannot tell the controller of a failed directory for so long stops.",
    )
    log_dirs = listing(None, importance=HIGH, doc="The directories the data is in.")
    log_flush_interval_messages = long(
        LONG_MAX, at_least(1), importance=HIGH, update=CLUSTER_WIDE,
        doc="Calls fsync after so many records of a partition.",
    )
    log_flush_interval_ms = long(
        None, importance=HIGH, update=CLUSTER_WIDE,
        doc="Calls fsync when a record has waited for it so long.",
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000, at_least(0), importance=HIGH,
        doc="How often recovery points are written down.",
    )
    log_flush_scheduler_interval_ms = long(
        LONG_MAX, importance=HIGH,
        doc="How often partitions are looked over for records to fsync.",
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, at_least(0), importance=HIGH,
        doc="How often log start offsets are written down.",
    )
    log_index_interval_bytes = integer(
        1 << 12, at_least(0), update=CLUSTER_WIDE,
        doc="An index entry for every so many bytes of log.",
    )
    log_index_size_max_bytes = integer(
        10_485_760, at_least(4), update=CLUSTER_WIDE,
        doc="The largest an index may grow; a full one rolls the segment.",
    )
    log_initial_task_delay_ms = long(
        30_000, at_least(0), importance=LOW, internal=True,
        doc="How long after the start the log's regular work begins.",
    )
    log_local_retention_bytes = long(
        -2, at_least(-2), update=CLUSTER_WIDE,
        doc="How much of a tiered partition stays on local disk; -2 is as much as "
        "`log.retention.bytes`.",
    )
    log_local_retention_ms = long(
        -2, at_least(-2), update=CLUSTER_WIDE,
        doc="How long records of a tiered partition stay on local disk; -2 is as long as "
        "`log.retention.ms`.",
    )
    log_message_timestamp_after_max_ms = long(
        3_600_000, at_least(0), update=CLUSTER_WIDE,
        doc="How far ahead of the broker's clock a record's timestamp may be.",
    )
    log_message_timestamp_before_max_ms = long(
        LONG_MAX, at_least(0), update=CLUSTER_WIDE,
        doc="How far behind the broker's clock a record's timestamp may be.",
    )
    log_message_timestamp_type = string(
        "CreateTime", one_of("CreateTime", "LogAppendTime"), update=CLUSTER_WIDE,
        doc="Whether records bear the producer's time (`CreateTime`) or the broker's "
        "(`LogAppendTime`).",
    )
    log_preallocate = boolean(
        False, update=CLUSTER_WIDE,
        doc="Reserves the disk space of a whole segment when it is made.",
    )
    log_retention_bytes = long(
        -1, importance=HIGH, update=CLUSTER_WIDE,
        doc="The most bytes a partition keeps; -1 is no limit.",
    )
    log_retention_check_interval_ms = long(
        300_000, at_least(1),
        doc="How often logs are looked over for segments to delete.",
    )
    log_retention_hours = integer(
        168, importance=HIGH,
        doc="How long records are kept, in hours; the coarsest of three.",
    )
    log_retention_minutes = integer(
        None, importance=HIGH,
        doc="How long records are kept, in minutes, before `log.retention.hours`.",
    )
    log_retention_ms = long(
        None, importance=HIGH, update=CLUSTER_WIDE,
        doc="How long records are kept, before `log.retention.minutes`; -1 is for ever.",
    )
    log_roll_hours = integer(
        168, at_least(1), importance=HIGH,
        doc="The longest a segment is written to, in hours.",
    )
    log_roll_jitter_hours = integer(
        0, at_least(0), importance=HIGH,
        doc="The most that is taken at random off `log.roll.hours`.",
    )
    log_roll_jitter_ms = long(
        None, importance=HIGH, update=CLUSTER_WIDE,
        doc="The most that is taken at random off a segment's time, so that not all roll at once.",
    )
    log_roll_ms = long(
        None, importance=HIGH, update=CLUSTER_WIDE,
        doc="The longest a segment is written to, before `log.roll.hours`.",
    )
    log_segment_bytes = integer(
        1 << 30, at_least(1 << 20), importance=HIGH, update=CLUSTER_WIDE,
        doc="A new segment begins when one would grow beyond this.",
    )
    log_segment_delete_delay_ms = long(
        60_000, at_least(0), importance=HIGH, update=CLUSTER_WIDE,
        doc="How long a deleted file stays on disk.",
    )
    message_max_bytes = integer(
        1_048_588, at_least(0), importance=HIGH, update=CLUSTER_WIDE,
        doc="The largest batch a topic takes, as it comes compressed.",
    )
    num_partitions = integer(
        1, at_least(1),
        doc="Partitions of a topic that does not say how many it wants.",
    )
    num_recovery_threads_per_data_dir = integer(
        2, at_least(1), importance=HIGH, update=CLUSTER_WIDE,
        doc="How many logs of a directory are recovered at a time, in processes of their own.",
    )
