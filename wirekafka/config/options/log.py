"""Options of topics and their logs."""

from __future__ import annotations

from wirekafka.config.check import all_of, at_least, between, gzip_level, one_of, some_items
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

LONGEST_JAVA_ARRAY = (1 << 31) - 9
DOUBLE_MAX = 1.7976931348623157e308


class LogOptions:
    """Broker options of topics and logs, by attribute."""

    auto_create_topics_enable = boolean(
        True, importance=HIGH, doc="Creates a topic that a client requests if it does not exist."
    )
    background_threads = integer(
        10, at_least(1), importance=HIGH, update=CLUSTER_WIDE, doc="Threads for background tasks."
    )
    compression_gzip_level = integer(
        -1,
        gzip_level,
        update=CLUSTER_WIDE,
        doc="The level for batches the broker compresses with gzip; -1 is gzip's own default.",
    )
    compression_lz4_level = integer(
        9,
        between(1, 17),
        update=CLUSTER_WIDE,
        doc="The level for batches the broker compresses with lz4.",
    )
    compression_type = string(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="Compression of stored batches: `producer` keeps the producer's, `uncompressed` or a "
        "codec's name makes the broker recompress them.",
    )
    compression_zstd_level = integer(
        3,
        between(-131_072, 22),
        update=CLUSTER_WIDE,
        doc="The level for batches the broker compresses with zstd.",
    )
    cordoned_log_dirs = listing(
        (), update=PER_BROKER, doc="Log directories that get no new partitions; `*` is all of them."
    )
    create_topic_policy_class_name = class_name(
        None, importance=LOW, doc="A Java class that accepts or refuses new topics."
    )
    delete_topic_enable = boolean(True, importance=HIGH, doc="Whether topics can be deleted.")
    log_cleaner_backoff_ms = long(
        15_000,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How long the cleaner waits when there is nothing to clean.",
    )
    log_cleaner_dedupe_buffer_size = long(
        1 << 27,
        update=CLUSTER_WIDE,
        doc="Memory for the cleaner's map of keys, over all its threads.",
    )
    log_cleaner_delete_retention_ms = long(
        86_400_000,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How long tombstones and transaction markers stay readable after compaction.",
    )
    log_cleaner_enable = boolean(True, doc="Whether compacted topics are compacted.")
    log_cleaner_io_buffer_load_factor = double(
        0.9, update=CLUSTER_WIDE, doc="The largest load factor of the cleaner's map of keys."
    )
    log_cleaner_io_buffer_size = integer(
        1 << 19,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="Memory for the cleaner's reading and writing, over all its threads.",
    )
    log_cleaner_io_max_bytes_per_second = double(
        DOUBLE_MAX,
        update=CLUSTER_WIDE,
        doc="The most bytes the cleaner reads and writes per second.",
    )
    log_cleaner_max_compaction_lag_ms = long(
        LONG_MAX,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="The longest time before a record can be compacted.",
    )
    log_cleaner_min_cleanable_ratio = double(
        0.5,
        between(0, 1),
        update=CLUSTER_WIDE,
        doc="The share of a log that must be dirty for it to be compacted.",
    )
    log_cleaner_min_compaction_lag_ms = long(
        0,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="The shortest time before a record can be compacted.",
    )
    log_cleaner_threads = integer(1, at_least(0), update=CLUSTER_WIDE, doc="Threads that compact.")
    log_cleanup_policy = listing(
        ("delete",),
        all_of("compact", "delete", can_be_empty=True),
        update=CLUSTER_WIDE,
        doc="What happens to old records: `delete` drops whole segments, `compact` keeps the "
        "latest of each key; both may be given.",
    )
    log_dir = listing(
        ("/tmp/kafka-logs",),  # noqa: S108 (Kafka's default)
        some_items,
        importance=HIGH,
        doc="The directory of the data, if `log.dirs` is not set.",
    )
    log_dir_failure_timeout_ms = long(
        30_000,
        at_least(1),
        importance=LOW,
        doc="A broker that cannot report a failed directory to the controller for this long stops.",
    )
    log_dirs = listing(None, some_items, importance=HIGH, doc="The directories of the data.")
    log_flush_interval_messages = long(
        LONG_MAX,
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="Calls fsync after this many records of a partition.",
    )
    log_flush_interval_ms = long(
        None,
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="Calls fsync when a record has waited for it this long.",
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000, at_least(0), importance=HIGH, doc="How often recovery points are checkpointed."
    )
    log_flush_scheduler_interval_ms = long(
        LONG_MAX, importance=HIGH, doc="How often partitions are checked for records to fsync."
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, at_least(0), importance=HIGH, doc="How often log start offsets are checkpointed."
    )
    log_index_interval_bytes = integer(
        1 << 12, at_least(0), update=CLUSTER_WIDE, doc="The bytes of log between index entries."
    )
    log_index_size_max_bytes = integer(
        10_485_760,
        at_least(4),
        update=CLUSTER_WIDE,
        doc="The largest size of an index; a full one rolls the segment.",
    )
    log_initial_task_delay_ms = long(
        30_000,
        at_least(0),
        importance=LOW,
        internal=True,
        doc="How long after the start periodic log tasks begin.",
    )
    log_local_retention_bytes = long(
        -2,
        at_least(-2),
        update=CLUSTER_WIDE,
        doc="How much of a tiered partition stays on local disk; -2 is as much as "
        "`log.retention.bytes`.",
    )
    log_local_retention_ms = long(
        -2,
        at_least(-2),
        update=CLUSTER_WIDE,
        doc="How long records of a tiered partition stay on local disk; -2 is as long as "
        "`log.retention.ms`.",
    )
    log_message_timestamp_after_max_ms = long(
        3_600_000,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How far ahead of the broker's clock a record's timestamp may be.",
    )
    log_message_timestamp_before_max_ms = long(
        LONG_MAX,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How far behind the broker's clock a record's timestamp may be.",
    )
    log_message_timestamp_type = string(
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE,
        doc="Whether timestamps are the producer's time (`CreateTime`) or the broker's "
        "(`LogAppendTime`).",
    )
    log_preallocate = boolean(
        False,
        update=CLUSTER_WIDE,
        doc="Reserves the disk space of a whole segment when it is created, on Linux. The file's "
        "size stays the size of its records; the rest is freed when the segment is full or closed.",
    )
    log_retention_bytes = long(
        -1,
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="The most bytes a partition keeps; -1 is no limit.",
    )
    log_retention_check_interval_ms = long(
        300_000, at_least(1), doc="How often logs are checked for segments to delete."
    )
    log_retention_hours = integer(
        168,
        importance=HIGH,
        doc="How long records are kept, in hours; the weakest of three options.",
    )
    log_retention_minutes = integer(
        None,
        importance=HIGH,
        doc="How long records are kept, in minutes; overrides `log.retention.hours`.",
    )
    log_retention_ms = long(
        None,
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="How long records are kept; overrides `log.retention.minutes`; -1 is unlimited.",
    )
    log_roll_hours = integer(
        168,
        at_least(1),
        importance=HIGH,
        doc="The longest time a segment is appended to, in hours.",
    )
    log_roll_jitter_hours = integer(
        0, at_least(0), importance=HIGH, doc="The most subtracted at random from `log.roll.hours`."
    )
    log_roll_jitter_ms = long(
        None,
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="The most subtracted at random from `log.roll.ms`, so that not all roll at once.",
    )
    log_roll_ms = long(
        None,
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="The longest time a segment is appended to; overrides `log.roll.hours`.",
    )
    log_segment_bytes = integer(
        1 << 30,
        at_least(1 << 20),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="The largest size of a segment; a batch beyond it goes into a new one.",
    )
    log_segment_delete_delay_ms = long(
        60_000,
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="How long a deleted file stays on disk.",
    )
    log_remote_copy_lag_bytes = long(
        -1,
        at_least(-1),
        update=CLUSTER_WIDE,
        doc="How much newer data must follow a segment before it is copied to tiered storage; -1 "
        "is as much as `log.local.retention.bytes`.",
    )
    log_remote_copy_lag_ms = long(
        0,
        at_least(-1),
        update=CLUSTER_WIDE,
        doc="How old a segment must be before it is copied to tiered storage; -1 is as old as "
        "`log.local.retention.ms`.",
    )
    max_decompressed_message_bytes = integer(
        LONGEST_JAVA_ARRAY,
        between(1, LONGEST_JAVA_ARRAY),
        update=CLUSTER_WIDE,
        doc="The largest record, decompressed, that a compressed batch may hold.",
    )
    message_max_bytes = integer(
        1_048_588,
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="The largest batch a topic accepts, compressed as received.",
    )
    num_partitions = integer(
        1, at_least(1), doc="Partitions of a topic created without a number of partitions."
    )
    num_recovery_threads_per_data_dir = integer(
        2,
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="How many logs of a directory are recovered at a time, in separate processes.",
    )
