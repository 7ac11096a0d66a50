"""Options of share groups and their state (KIP-932)."""

from __future__ import annotations

from wirekafka.config.check import at_least, between, codec_number, some_items
from wirekafka.config.option import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    boolean,
    integer,
    listing,
    short,
    string,
)


class ShareOptions:
    """Broker options of share groups, by attribute."""

    errors_deadletterqueue_auto_create_topics_enable = boolean(
        False,
        update=CLUSTER_WIDE,
        doc="Whether the dead-letter topic of a share group is created where it is missing "
        "(KIP-1191).",
    )
    errors_deadletterqueue_topic_name_prefix = string(
        "dlq.",
        update=CLUSTER_WIDE,
        doc="The prefix that names of dead-letter topics must have; empty allows any name.",
    )
    group_share_assignment_interval_ms = integer(
        1000,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="The least time between two assignments of one share group.",
    )
    group_share_assignor_offload_enable = boolean(
        True,
        update=CLUSTER_WIDE,
        internal=True,
        doc="Whether Apache Kafka computes assignments of share groups in a thread of its own.",
    )
    group_share_assignors = listing(
        ("simple",), some_items, doc="Server-side assignors of share groups."
    )
    group_share_delivery_count_limit = integer(
        5, between(2, 10), doc="How often a record is delivered at most before it is archived."
    )
    group_share_dlq_manager_class_name = string(
        "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
        internal=True,
        doc="The Java class that writes dead-letter records.",
    )
    group_share_heartbeat_interval_ms = integer(
        5000, at_least(1), doc="The heartbeat interval of members of share groups."
    )
    group_share_initialize_retry_interval_ms = integer(
        30_000,
        at_least(1),
        importance=LOW,
        internal=True,
        doc="How long to wait before a failed initialization of a share group's state is retried.",
    )
    group_share_max_assignment_interval_ms = integer(
        15_000, at_least(0), doc="The most a share group may set its assignment interval to."
    )
    group_share_max_delivery_count_limit = integer(
        10, between(5, 25), doc="The most a share group may set its delivery limit to."
    )
    group_share_max_heartbeat_interval_ms = integer(
        15_000, at_least(1), doc="The most a share group may set its heartbeat interval to."
    )
    group_share_max_partition_max_record_locks = integer(
        4000,
        between(2000, 10_000),
        doc="The most a share group may set its limit of locked records to.",
    )
    group_share_max_record_lock_duration_ms = integer(
        60_000,
        between(30_000, 3_600_000),
        doc="The most a share group may set its lock duration to.",
    )
    group_share_max_session_timeout_ms = integer(
        60_000, at_least(1), doc="The most a share group may set its session timeout to."
    )
    group_share_max_share_sessions = integer(
        2000, at_least(1), doc="The most share sessions of one broker."
    )
    group_share_max_size = integer(
        200, between(1, 1000), doc="The most members of one share group."
    )
    group_share_min_assignment_interval_ms = integer(
        0, at_least(0), doc="The least a share group may set its assignment interval to."
    )
    group_share_min_delivery_count_limit = integer(
        2, between(2, 5), doc="The least a share group may set its delivery limit to."
    )
    group_share_min_heartbeat_interval_ms = integer(
        5000, at_least(1), doc="The least a share group may set its heartbeat interval to."
    )
    group_share_min_partition_max_record_locks = integer(
        100,
        between(100, 2000),
        doc="The least a share group may set its limit of locked records to.",
    )
    group_share_min_record_lock_duration_ms = integer(
        15_000, between(1000, 30_000), doc="The least a share group may set its lock duration to."
    )
    group_share_min_session_timeout_ms = integer(
        45_000, at_least(1), doc="The least a share group may set its session timeout to."
    )
    group_share_partition_max_record_locks = integer(
        2000, between(100, 10_000), doc="The most acquired records of one partition at a time."
    )
    group_share_persister_class_name = string(
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        internal=True,
        doc="The Java class that stores the state of share groups.",
    )
    group_share_record_lock_duration_ms = integer(
        30_000, between(1000, 3_600_000), doc="How long a record stays acquired by a consumer."
    )
    group_share_session_timeout_ms = integer(
        45_000,
        at_least(1),
        doc="A member of a share group without a heartbeat for this long is removed.",
    )
    share_coordinator_append_linger_ms = integer(
        -1,
        at_least(-1),
        doc="How long the share coordinator collects records before it writes them as one batch; "
        "0 and -1: not at all.",
    )
    share_coordinator_cached_buffer_max_bytes = integer(
        1_048_588,
        at_least(1 << 19),
        update=CLUSTER_WIDE,
        doc="The largest write buffer the share coordinator keeps for reuse.",
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        300_000,
        at_least(1),
        importance=LOW,
        internal=True,
        doc="How often the state of inactive share partitions is written as a snapshot.",
    )
    share_coordinator_load_buffer_size = integer(
        5_242_880,
        at_least(1),
        importance=HIGH,
        doc="Bytes read at a time while a share coordinator loads.",
    )
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        500,
        between(0, 500),
        doc="How many updates of a share partition's state are written before a snapshot.",
    )
    share_coordinator_state_topic_compression_codec = integer(
        0,
        codec_number,
        importance=HIGH,
        doc="The codec number of batches of `__share_group_state`.",
    )
    share_coordinator_state_topic_min_isr = short(
        2, at_least(1), importance=HIGH, doc="`min.insync.replicas` of `__share_group_state`."
    )
    share_coordinator_state_topic_num_partitions = integer(
        50,
        at_least(1),
        importance=HIGH,
        doc="Partitions of `__share_group_state`; fixed once it exists.",
    )
    share_coordinator_state_topic_prune_interval_ms = integer(
        300_000,
        at_least(1),
        importance=LOW,
        internal=True,
        doc="How often obsolete records of `__share_group_state` are deleted.",
    )
    share_coordinator_state_topic_replication_factor = short(
        3, at_least(1), importance=HIGH, doc="Copies of each partition of `__share_group_state`."
    )
    share_coordinator_state_topic_segment_bytes = integer(
        104_857_600, at_least(1), importance=HIGH, doc="Segment size of `__share_group_state`."
    )
    share_coordinator_threads = integer(1, at_least(1), doc="Threads of the share coordinator.")
    share_coordinator_write_timeout_ms = integer(
        5000,
        at_least(1),
        importance=HIGH,
        doc="How long a write of the share coordinator waits for replication.",
    )
    share_fetch_purgatory_purge_interval_requests = integer(
        1000, doc="How many completed delayed share fetches are kept before they are purged."
    )
