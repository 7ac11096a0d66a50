"""Options of the node's identity, its quorum and leadership."""

from __future__ import annotations

from wirekafka.config.check import all_of, at_least, some_items
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
    """Broker options of the node, its quorum and leadership, by attribute."""

    auto_leader_rebalance_enable = boolean(
        True, importance=HIGH, doc="Moves leadership back to preferred replicas periodically."
    )
    broker_heartbeat_interval_ms = integer(
        2000, doc="How often a broker sends a heartbeat to the controller."
    )
    broker_id = integer(-1, importance=HIGH, doc="An older name of `node.id`.")
    broker_rack = string(None, doc="The rack of this broker; replicas are spread over racks.")
    broker_session_timeout_ms = integer(
        9000, doc="A broker without a heartbeat for this long is fenced."
    )
    controlled_shutdown_enable = boolean(
        True, doc="A stopping broker first moves leadership to other replicas."
    )
    controller_listener_names = listing(
        None,
        some_items,
        importance=HIGH,
        doc="Names of the controllers' listeners; brokers connect to the first.",
    )
    controller_performance_always_log_threshold_ms = long(
        2000,
        at_least(0),
        internal=True,
        doc="A controller event that takes longer than this is always logged.",
    )
    controller_performance_sample_period_ms = long(
        60_000,
        at_least(100),
        internal=True,
        doc="How often the slowest controller events are logged.",
    )
    controller_quorum_append_linger_ms = integer(
        25, at_least(0), doc="How long the quorum's leader collects records before it writes them."
    )
    controller_quorum_auto_join_enable = boolean(
        False, importance=LOW, doc="A starting controller joins the quorum's voters automatically."
    )
    controller_quorum_bootstrap_servers = listing(
        (), None, importance=HIGH, doc="Nodes to discover the quorum from, as host:port pairs."
    )
    controller_quorum_election_backoff_max_ms = integer(
        1000, at_least(0), importance=HIGH, doc="The longest backoff after a lost election."
    )
    controller_quorum_election_timeout_ms = integer(
        1000, at_least(0), importance=HIGH, doc="How long to wait for votes."
    )
    controller_quorum_fetch_max_bytes = integer(
        1 << 20,
        at_least(1),
        importance=LOW,
        doc="The most bytes of metadata records in one fetch response.",
    )
    controller_quorum_fetch_snapshot_max_bytes = integer(
        1 << 20,
        at_least(1),
        importance=LOW,
        doc="The most bytes of a metadata snapshot in one response.",
    )
    controller_quorum_fetch_timeout_ms = integer(
        2000,
        at_least(0),
        importance=HIGH,
        doc="A voter that cannot fetch for this long starts an election.",
    )
    controller_quorum_request_timeout_ms = integer(
        2000, at_least(0), doc="How long a request between nodes of the quorum may take."
    )
    controller_quorum_retry_backoff_ms = integer(
        20,
        at_least(0),
        importance=LOW,
        doc="How long to wait before a request between nodes of the quorum is retried.",
    )
    controller_quorum_voters = listing(
        (), None, importance=HIGH, doc="The voters of a static quorum, as id@host:port."
    )
    controller_quota_window_num = integer(
        11, at_least(1), importance=LOW, doc="How many samples the quota on topic changes covers."
    )
    controller_quota_window_size_seconds = integer(
        1, at_least(1), importance=LOW, doc="How long each such sample lasts."
    )
    controller_socket_timeout_ms = integer(
        30_000, doc="The socket timeout of a broker's requests to the controller."
    )
    early_start_listeners = listing(
        None,
        importance=HIGH,
        doc="Listeners that accept connections before the authorizer is ready.",
    )
    initial_broker_registration_timeout_ms = integer(
        60_000, doc="How long a starting broker tries to register before it stops."
    )
    internal_metadata_delete_delay_millis = long(
        60_000, importance=LOW, internal=True, doc="How long deleted metadata files stay on disk."
    )
    internal_metadata_log_segment_bytes = integer(
        None,
        importance=LOW,
        internal=True,
        doc="Rolls metadata segments below `metadata.log.segment.bytes`' lower bound; for tests.",
    )
    internal_metadata_max_batch_size_in_bytes = integer(
        1 << 23, importance=LOW, internal=True, doc="The largest batch of metadata records."
    )
    leader_imbalance_check_interval_seconds = long(
        300,
        at_least(1),
        importance=HIGH,
        doc="How often leaders are compared with preferred replicas.",
    )
    metadata_log_dir = string(
        None,
        importance=HIGH,
        doc="Where the metadata log is; the first of `log.dirs` where not set.",
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        20_971_520,
        at_least(1),
        importance=HIGH,
        doc="A metadata snapshot is taken after this many bytes of records.",
    )
    metadata_log_max_snapshot_interval_ms = long(
        3_600_000,
        at_least(0),
        importance=HIGH,
        doc="A metadata snapshot is taken at least this often while there are new records; 0 "
        "means never by time.",
    )
    metadata_log_segment_bytes = integer(
        1 << 30, at_least(1 << 23), importance=HIGH, doc="The largest size of a metadata segment."
    )
    metadata_log_segment_ms = long(
        604_800_000, importance=HIGH, doc="The longest time a metadata segment is appended to."
    )
    metadata_max_idle_interval_ms = integer(
        500,
        at_least(0),
        importance=LOW,
        doc="How often the quorum's leader writes a no-op while idle; 0 means never. A node whose "
        "metadata log nobody follows writes none.",
    )
    metadata_max_retention_bytes = long(
        104_857_600,
        importance=HIGH,
        doc="Old metadata snapshots and segments are deleted while all are larger than this; the "
        "two newest snapshots are always kept. A negative number is no limit.",
    )
    metadata_max_retention_ms = long(
        604_800_000,
        importance=HIGH,
        doc="Metadata snapshots whose newest record is older than this are deleted, with the "
        "segments that they cover. A negative number is no limit.",
    )
    node_id = integer(
        -1,
        at_least(0),
        importance=HIGH,
        required=True,
        doc="This node's id, unique in the cluster.",
    )
    process_roles = listing(
        None,
        all_of("broker", "controller"),
        importance=HIGH,
        doc="The roles of this node: `broker`, `controller` or both.",
    )
    server_max_startup_time_ms = long(
        LONG_MAX, at_least(0), internal=True, doc="How long a start may take before the node stops."
    )
    unclean_leader_election_enable = boolean(
        False,
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="Lets a replica that is out of sync become leader when no other is left, which loses "
        "records.",
    )
    unclean_leader_election_interval_ms = long(
        300_000,
        at_least(1),
        internal=True,
        doc="How often partitions are checked for such elections.",
    )
    unstable_api_versions_enable = boolean(
        False,
        importance=HIGH,
        internal=True,
        doc="Supports versions of requests that are not released yet.",
    )
    unstable_feature_versions_enable = boolean(
        False,
        importance=HIGH,
        internal=True,
        doc="Allows versions of features that are not released yet.",
    )
