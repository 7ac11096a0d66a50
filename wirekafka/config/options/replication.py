"""Options of replicas and how they are kept in sync."""

from __future__ import annotations

from wirekafka.config.check import at_least
from wirekafka.config.option import CLUSTER_WIDE, HIGH, LOW, integer, long, string

_SELECTORS = "org.apache.kafka.common.replica."
RACK_AWARE_SELECTOR = f"{_SELECTORS}RackAwareReplicaSelector"
"""The `replica.selector.class` by which consumers read replicas in their own rack (KIP-392)."""
LEADER_SELECTOR = f"{_SELECTORS}LeaderSelector"
"""The `replica.selector.class` by which consumers read the leader, as without one."""


class ReplicationOptions:
    """Broker options of replication, by attribute."""

    alter_log_dirs_replication_quota_window_num = integer(
        11,
        at_least(1),
        importance=LOW,
        doc="How many samples the quota on moves between log directories covers.",
    )
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        1, at_least(1), importance=LOW, doc="How long each such sample lasts."
    )
    default_replication_factor = integer(
        1, doc="Replicas of each partition of a topic created without a replication factor."
    )
    min_insync_replicas = integer(
        1,
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="How many replicas must be in sync for a write with acks=all to be accepted.",
    )
    num_replica_alter_log_dirs_threads = integer(
        None, importance=HIGH, doc="Threads that move replicas between directories."
    )
    num_replica_fetchers = integer(
        1,
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="Connections to each broker that replicas are fetched over.",
    )
    replica_fetch_backoff_ms = integer(
        1000, at_least(0), doc="How long a follower waits after a failed fetch."
    )
    replica_fetch_max_bytes = integer(
        1 << 20,
        at_least(0),
        doc="The most bytes of one partition in a follower's fetch, except for a larger batch.",
    )
    replica_fetch_min_bytes = integer(
        1, importance=HIGH, doc="Bytes a leader waits for before it responds to a follower's fetch."
    )
    replica_fetch_response_max_bytes = integer(
        10_485_760, at_least(0), doc="The most bytes of all partitions in a follower's fetch."
    )
    replica_fetch_wait_max_ms = integer(
        500, importance=HIGH, doc="How long a leader waits for those bytes."
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        5000, importance=HIGH, doc="How often high watermarks are checkpointed."
    )
    replica_lag_time_max_ms = long(
        30_000,
        importance=HIGH,
        doc="A follower that has not caught up for this long is out of sync.",
    )
    replica_selector_class = string(
        None,
        doc="Selects the replica a consumer reads from: Kafka's RackAwareReplicaSelector, by its "
        "full name, prefers one in the consumer's rack.",
    )
    replica_socket_receive_buffer_bytes = integer(
        1 << 16, importance=HIGH, doc="The receive buffer of sockets between brokers."
    )
    replica_socket_timeout_ms = integer(
        30_000, importance=HIGH, doc="The socket timeout of a follower's requests."
    )
    replication_quota_window_num = integer(
        11, at_least(1), importance=LOW, doc="How many samples the replication quota covers."
    )
    replication_quota_window_size_seconds = integer(
        1, at_least(1), importance=LOW, doc="How long each such sample lasts."
    )
    request_timeout_ms = integer(
        30_000, importance=HIGH, doc="How long a broker waits for another one's response."
    )
