"""Options of tiered storage (KIP-405): the store, its metadata, limits of copies and reads."""

from __future__ import annotations

from wirekafka.config.check import at_least, between, non_empty
from wirekafka.config.option import (
    CLUSTER_WIDE,
    LONG_MAX,
    LOW,
    boolean,
    double,
    integer,
    long,
    string,
)


class RemoteOptions:
    """Broker options of tiered storage, by attribute."""

    follower_fetch_last_tiered_offset_enable = boolean(
        False, update=CLUSTER_WIDE, doc="New followers start at the last offset in tiered storage."
    )
    remote_fetch_max_wait_ms = integer(
        500, at_least(1), update=CLUSTER_WIDE, doc="How long a fetch waits for tiered storage."
    )
    remote_list_offsets_request_timeout_ms = long(
        30_000,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="How long ListOffsets waits for tiered storage.",
    )
    remote_log_index_file_cache_total_size_bytes = long(
        1 << 30,
        at_least(1),
        importance=LOW,
        update=CLUSTER_WIDE,
        doc="The most disk space for indexes fetched from tiered storage.",
    )
    remote_log_index_file_cache_ttl_ms = long(
        900_000,
        at_least(-1),
        importance=LOW,
        internal=True,
        doc="How long unused indexes from tiered storage are kept.",
    )
    remote_log_manager_copier_thread_pool_size = integer(
        10,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="How many segments are copied to tiered storage at once.",
    )
    remote_log_manager_copy_max_bytes_per_second = long(
        LONG_MAX,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="The most bytes copied to tiered storage per second.",
    )
    remote_log_manager_copy_quota_window_num = integer(
        11, at_least(1), doc="How many samples that limit covers."
    )
    remote_log_manager_copy_quota_window_size_seconds = integer(
        1, at_least(1), doc="How long each such sample lasts."
    )
    remote_log_manager_expiration_thread_pool_size = integer(
        10,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="How many partitions delete expired segments from tiered storage at once.",
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        LONG_MAX,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="The most bytes fetched from tiered storage per second.",
    )
    remote_log_manager_fetch_quota_window_num = integer(
        11, at_least(1), doc="How many samples that limit covers."
    )
    remote_log_manager_fetch_quota_window_size_seconds = integer(
        1, at_least(1), doc="How long each such sample lasts."
    )
    remote_log_manager_follower_thread_pool_size = integer(
        2, at_least(1), update=CLUSTER_WIDE, doc="Threads of followers of tiered partitions."
    )
    remote_log_manager_task_interval_ms = long(
        30_000, at_least(1), importance=LOW, doc="How often tasks of tiered partitions run."
    )
    remote_log_manager_task_retry_backoff_max_ms = long(
        30_000,
        at_least(1),
        importance=LOW,
        internal=True,
        doc="The longest wait before a task of a tiered partition is retried.",
    )
    remote_log_manager_task_retry_backoff_ms = long(
        500,
        at_least(1),
        importance=LOW,
        internal=True,
        doc="How long to wait before a task of a tiered partition is retried.",
    )
    remote_log_manager_task_retry_jitter = double(
        0.2, between(0, 0.5), importance=LOW, internal=True, doc="The random share of those waits."
    )
    remote_log_manager_thread_pool_size = integer(
        2, at_least(1), doc="Threads for other tasks of tiered storage."
    )
    remote_log_metadata_custom_metadata_max_bytes = integer(
        128,
        at_least(0),
        importance=LOW,
        doc="The largest metadata a storage plugin may add to a segment.",
    )
    remote_log_metadata_manager_class_name = string(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        non_empty,
        doc="The Java class that stores tiered storage's metadata.",
    )
    remote_log_metadata_manager_class_path = string(None, doc="The class path of that class.")
    remote_log_metadata_manager_impl_prefix = string(
        "rlmm.config.", non_empty, doc="The prefix of that class's options."
    )
    remote_log_metadata_manager_listener_name = string(
        None, non_empty, doc="The listener that class connects to."
    )
    remote_log_reader_max_pending_tasks = integer(
        100, at_least(1), doc="The most reads of tiered storage that may be queued."
    )
    remote_log_reader_threads = integer(
        10, at_least(1), update=CLUSTER_WIDE, doc="How many reads of tiered storage run at once."
    )
    remote_log_storage_manager_class_name = string(
        None, non_empty, doc="The Java class that accesses the remote storage."
    )
    remote_log_storage_manager_class_path = string(None, doc="The class path of that class.")
    remote_log_storage_manager_impl_prefix = string(
        "rsm.config.", non_empty, doc="The prefix of that class's options."
    )
    remote_log_storage_system_enable = boolean(False, doc="Whether topics may use tiered storage.")
