"""Options of consumer and streams groups and their committed offsets."""

from __future__ import annotations

from wirekafka.config.check import all_of, at_least, codec_number, one_of_any_case, some_items
from wirekafka.config.option import (
    CLUSTER_WIDE,
    HIGH,
    INT_MAX,
    LOW,
    boolean,
    class_name,
    integer,
    listing,
    long,
    short,
    string,
)


class GroupOptions:
    """Broker options of consumer and streams groups, by attribute."""

    group_consumer_assignment_interval_ms = integer(
        1000,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="The least time between two assignments of one consumer group.",
    )
    group_consumer_assignor_offload_enable = boolean(
        True,
        update=CLUSTER_WIDE,
        internal=True,
        doc="Whether Apache Kafka computes assignments of consumer groups in a thread of its own.",
    )
    group_consumer_assignors = listing(
        ("uniform", "range"),
        some_items,
        doc="Server-side assignors of consumer groups, the default first.",
    )
    group_consumer_heartbeat_interval_ms = integer(
        5000, at_least(1), doc="The heartbeat interval of members of consumer groups."
    )
    group_consumer_max_assignment_interval_ms = integer(
        15_000, at_least(0), doc="The most a consumer group may set its assignment interval to."
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        15_000, at_least(1), doc="The most a consumer group may set its heartbeat interval to."
    )
    group_consumer_max_session_timeout_ms = integer(
        60_000, at_least(1), doc="The most a consumer group may set its session timeout to."
    )
    group_consumer_max_size = integer(
        INT_MAX, at_least(1), doc="The most members of one consumer group."
    )
    group_consumer_migration_policy = string(
        "bidirectional",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        doc="Whether groups move between the classic and the consumer protocol: `bidirectional`, "
        "`upgrade`, `downgrade` or `disabled`.",
    )
    group_consumer_min_assignment_interval_ms = integer(
        0, at_least(0), doc="The least a consumer group may set its assignment interval to."
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        5000, at_least(1), doc="The least a consumer group may set its heartbeat interval to."
    )
    group_consumer_min_session_timeout_ms = integer(
        45_000, at_least(1), doc="The least a consumer group may set its session timeout to."
    )
    group_consumer_regex_refresh_interval_ms = integer(
        600_000,
        at_least(10_000),
        internal=True,
        doc="How often regular expressions of subscriptions are evaluated again.",
    )
    group_consumer_session_timeout_ms = integer(
        45_000,
        at_least(1),
        doc="A member of a consumer group without a heartbeat for this long is removed.",
    )
    group_coordinator_append_linger_ms = integer(
        -1,
        at_least(-1),
        doc="How long the coordinator collects records before it writes them as one batch; 0 and "
        "-1: not at all.",
    )
    group_coordinator_background_threads = integer(
        2, at_least(1), importance=HIGH, doc="Threads for slow tasks of the group coordinator."
    )
    group_coordinator_cached_buffer_max_bytes = integer(
        1_048_588,
        at_least(1 << 19),
        update=CLUSTER_WIDE,
        doc="The largest write buffer the group coordinator keeps for reuse.",
    )
    group_coordinator_rebalance_protocols = listing(
        ("classic", "consumer", "streams"),
        all_of("consumer", "classic", "share", "streams"),
        doc="The group protocols that are enabled.",
    )
    group_coordinator_threads = integer(
        4, at_least(1), importance=HIGH, doc="Threads of the group coordinator."
    )
    group_initial_rebalance_delay_ms = integer(
        3000, doc="How long an empty group waits for more members before its first rebalance."
    )
    group_max_session_timeout_ms = integer(
        1_800_000, doc="The longest session timeout that members of classic groups may request."
    )
    group_max_size = integer(INT_MAX, at_least(1), doc="The most members of one classic group.")
    group_min_session_timeout_ms = integer(
        6000, doc="The shortest session timeout that members of classic groups may request."
    )
    group_streams_acceptable_recovery_lag = long(
        10_000,
        at_least(0),
        internal=True,
        doc="The lag in records up to which a member's state is current enough for an active task.",
    )
    group_streams_assignment_interval_ms = integer(
        1000,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="The least time between two assignments of one streams group.",
    )
    group_streams_assignor_offload_enable = boolean(
        True,
        update=CLUSTER_WIDE,
        internal=True,
        doc="Whether Apache Kafka computes assignments of streams groups in a thread of its own.",
    )
    group_streams_assignors = listing(
        ("sticky",),
        some_items,
        doc="Server-side assignors of streams groups; the first is the default.",
    )
    group_streams_heartbeat_interval_ms = integer(
        5000, at_least(1), doc="The heartbeat interval of members of streams groups."
    )
    group_streams_initial_rebalance_delay_ms = integer(
        3000, at_least(0), doc="How long an empty streams group waits for more members."
    )
    group_streams_max_assignment_interval_ms = integer(
        15_000, at_least(0), doc="The most a streams group may set its assignment interval to."
    )
    group_streams_max_heartbeat_interval_ms = integer(
        15_000, at_least(1), doc="The most a streams group may set its heartbeat interval to."
    )
    group_streams_max_session_timeout_ms = integer(
        60_000, at_least(1), doc="The most a streams group may set its session timeout to."
    )
    group_streams_max_size = integer(
        INT_MAX, at_least(1), doc="The most members of one streams group."
    )
    group_streams_max_standby_replicas = integer(
        2, at_least(0), doc="The most a streams group may set its standby replicas to."
    )
    group_streams_min_assignment_interval_ms = integer(
        0, at_least(0), doc="The least a streams group may set its assignment interval to."
    )
    group_streams_min_heartbeat_interval_ms = integer(
        5000, at_least(1), doc="The least a streams group may set its heartbeat interval to."
    )
    group_streams_min_session_timeout_ms = integer(
        45_000, at_least(1), doc="The least a streams group may set its session timeout to."
    )
    group_streams_max_warmup_replicas = integer(
        20,
        at_least(0),
        internal=True,
        doc="The most a streams group may set its warm-up replicas to.",
    )
    group_streams_min_task_offset_interval_ms = integer(
        15_000,
        at_least(1),
        internal=True,
        doc="The least a streams group may set its task offset interval to.",
    )
    group_streams_num_standby_replicas = integer(
        0, at_least(0), doc="Standby copies of each stateful task."
    )
    group_streams_num_warmup_replicas = integer(
        2, at_least(0), internal=True, doc="The most tasks that warm up at a time."
    )
    group_streams_rack_aware_assignment_tags = listing(
        (),
        importance=LOW,
        doc="Client tags over which standby copies of streams groups are spread.",
    )
    group_streams_session_timeout_ms = integer(
        45_000,
        at_least(1),
        doc="A member of a streams group without a heartbeat for this long is removed.",
    )
    group_streams_task_offset_interval_ms = integer(
        60_000,
        at_least(1),
        internal=True,
        doc="How often members report the changelog offsets of their tasks.",
    )
    group_streams_topology_description_plugin_class = class_name(
        None, doc="The Java class that keeps descriptions of streams topologies (KIP-1331)."
    )
    offset_metadata_max_bytes = integer(
        1 << 12, importance=HIGH, doc="The largest metadata of a committed offset, in bytes."
    )
    offsets_commit_timeout_ms = integer(
        5000, at_least(1), importance=HIGH, doc="How long an offset commit waits for replication."
    )
    offsets_load_buffer_size = integer(
        5_242_880,
        at_least(1),
        importance=HIGH,
        doc="Bytes read at a time while a group coordinator loads.",
    )
    offsets_retention_check_interval_ms = long(
        600_000, at_least(1), importance=HIGH, doc="How often expired offsets are removed."
    )
    offsets_retention_minutes = integer(
        10_080,
        at_least(1),
        importance=HIGH,
        doc="How long the offsets of a group without members are kept.",
    )
    offsets_topic_compression_codec = integer(
        0, codec_number, importance=HIGH, doc="The codec number of batches of `__consumer_offsets`."
    )
    offsets_topic_num_partitions = integer(
        50,
        at_least(1),
        importance=HIGH,
        doc="Partitions of `__consumer_offsets`; fixed once it exists.",
    )
    offsets_topic_replication_factor = short(
        3, at_least(1), importance=HIGH, doc="Copies of each partition of `__consumer_offsets`."
    )
    offsets_topic_segment_bytes = integer(
        104_857_600, at_least(1), importance=HIGH, doc="Segment size of `__consumer_offsets`."
    )
