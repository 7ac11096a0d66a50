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

    auto_leader_rebalance_enable = boolean(
        True, importance=HIGH,
        doc="Moves leadership back to preferred replicas from time to time.",
    )
    broker_heartbeat_interval_ms = integer(
        2000,
        doc="How often a broker tells the controller that it lives.",
    )
    broker_id = integer(-1, importance=HIGH, doc="An older name of `node.id`.")
    broker_rack = string(
        None,
        doc="The rack this broker stands in; replicas are spread over racks.",
    )
    broker_session_timeout_ms = integer(
        9000,
        doc="Without a heartbeat for so long, a broker is fenced.",
    )
    controlled_shutdown_enable = boolean(
        True,
        doc="A stopping broker hands its leaderships over first.",
    )
    controller_listener_names = listing(
        None, importance=HIGH,
        doc="Which of the listeners are the controllers' own; brokers use the first.",
    )
    controller_performance_always_log_threshold_ms = long(
        2000, at_least(0), internal=True,
        doc="A controller event that takes longer than this is always logged.",
    )
    controller_performance_sample_period_ms = long(
        60_000, at_least(100), internal=True,
        doc="How often the slowest controller events are logged.",
    )
    controller_quorum_append_linger_ms = integer(
        25, at_least(0),
        doc="How long the quorum's leader gathers records before it writes them.",
    )
    controller_quorum_auto_join_enable = boolean(
        False, importance=LOW,
        doc="A controller that starts joins the quorum's voters by itself.",
    )
    controller_quorum_bootstrap_servers = listing(
        (), importance=HIGH,
        doc="Where to look for the quorum, as host:port pairs.",
    )
    controller_quorum_election_backoff_max_ms = integer(
        1000, at_least(0), importance=HIGH,
        doc="The longest wait before a lost election is repeated.",
    )
    controller_quorum_election_timeout_ms = integer(
        1000, at_least(0), importance=HIGH,
        doc="How long to wait for votes.",
    )
    controller_quorum_fetch_max_bytes = integer(
        1 << 20, at_least(1), importance=LOW,
        doc="The most bytes of metadata records in one answer to a follower.",
    )
    controller_quorum_fetch_snapshot_max_bytes = integer(
        1 << 20, at_least(1), importance=LOW,
        doc="The most bytes of a metadata snapshot in one answer to a follower.",
    )
    controller_quorum_fetch_timeout_ms = integer(
        2000, at_least(0), importance=HIGH,
        doc="A follower that cannot fetch for so long calls an election.",
    )
    controller_quorum_request_timeout_ms = integer(
        2000, at_least(0),
        doc="How long a request within the quorum may take.",
    )
    controller_quorum_retry_backoff_ms = integer(
        20, at_least(0), importance=LOW,
        doc="How long to wait before a request within the quorum is repeated.",
    )
    controller_quorum_voters = listing(
        (), importance=HIGH,
        doc="The voters of a static quorum, as id@host:port.",
    )
    controller_quota_window_num = integer(
        11, at_least(1), importance=LOW,
        doc="How many samples the quota on topic changes looks back on.",
    )
    controller_quota_window_size_seconds = integer(
        1, at_least(1), importance=LOW,
        doc="How long each such sample lasts.",
    )
    controller_socket_timeout_ms = integer(
        30_000,
        doc="How long a broker waits for its controller's socket.",
    )
    early_start_listeners = listing(
        None, importance=HIGH,
        doc="Listeners that accept connections before there is an authorizer.",
    )
    initial_broker_registration_timeout_ms = integer(
        60_000,
        doc="How long a starting broker tries to register before it gives up.",
    )
    internal_metadata_delete_delay_millis = long(
        60_000, importance=LOW, internal=True,
        doc="How long deleted metadata files stay on disk.",
    )
    internal_metadata_log_segment_bytes = integer(
        None, importance=LOW, internal=True,
        doc="Rolls metadata segments below `metadata.log.segment.bytes`' lower bound; for tests.",
    )
    internal_metadata_max_batch_size_in_bytes = integer(
        1 << 23, importance=LOW, internal=True,
        doc="The largest batch of metadata records.",
    )
    leader_imbalance_check_interval_seconds = long(
        300, at_least(1), importance=HIGH,
        doc="How often leaders are compared with preferred replicas.",
    )
    metadata_log_dir = string(
        None, importance=HIGH,
        doc="Where the metadata log is; the first of `log.dirs` where not set.",
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        20_971_520, at_least(1), importance=HIGH,
        doc="A metadata snapshot is taken after so many bytes of records.",
    )
    metadata_log_max_snapshot_interval_ms = long(
        3_600_000, at_least(0), importance=HIGH,
        doc="A metadata snapshot is taken at least this often while there is something new; 0 "
        "never by time.",
    )
    metadata_log_segment_bytes = integer(
        1 << 30, at_least(1 << 23), importance=HIGH,
        doc="A new metadata segment begins when one would grow beyond this.",
    )
    metadata_log_segment_ms = long(
        604_800_000, importance=HIGH,
        doc="The longest a metadata segment is written to.",
    )
    metadata_max_idle_interval_ms = integer(
        500, at_least(0), importance=LOW,
        doc="How often the quorum's leader writes a no-op while nothing else happens; 0 never.",
    )
    metadata_max_retention_bytes = long(
        104_857_600, importance=HIGH,
        doc="The most bytes of metadata log and snapshots kept.",
    )
    metadata_max_retention_ms = long(
        604_800_000, importance=HIGH,
        doc="How long metadata log and snapshots are kept.",
    )
    node_id = integer(
        -1, at_least(0), importance=HIGH, required=True,
        doc="This node's number in the cluster.",
    )
    process_roles = listing(
        None, all_of("broker", "controller"), importance=HIGH,
        doc="What this node is: `broker`, `controller` or both.",
    )
    server_max_startup_time_ms = long(
        LONG_MAX, at_least(0), internal=True,
        doc="How long a start may take before it is given up.",
    )
    unclean_leader_election_enable = boolean(
        False, importance=HIGH, update=CLUSTER_WIDE,
        doc="Lets a replica that is out of sync lead when no other is left, at the price of "
        "records.",
    )
    unclean_leader_election_interval_ms = long(
        300_000, at_least(1), internal=True,
        doc="How often such elections are looked for.",
    )
    unstable_api_versions_enable = boolean(
        False, importance=HIGH, internal=True,
        doc="Offers versions of requests that are still being worked on.",
    )
    unstable_feature_versions_enable = boolean(
        False, importance=HIGH, internal=True,
        doc="Allows versions of features that are still being worked on.",
    )
