"""Options of listeners, connections, requests, quotas and metrics."""

from __future__ import annotations

from wirekafka.config.check import at_least, some_items
from wirekafka.config.option import (
    CLUSTER_WIDE,
    HIGH,
    INT_MAX,
    LOW,
    PER_BROKER,
    class_name,
    integer,
    listing,
    long,
    string,
)


class NetworkOptions:
    """Broker options of the network, quotas and metrics, by attribute."""

    advertised_listeners = listing(
        None,
        some_items,
        importance=HIGH,
        doc="The addresses reported to clients and other brokers; `listeners` if not set.",
    )
    alter_config_policy_class_name = class_name(
        None, importance=LOW, doc="A Java class that accepts or refuses changes of configuration."
    )
    client_quota_callback_class = class_name(
        None, importance=LOW, doc="A Java class that computes client quotas."
    )
    config_providers = listing(
        (),
        importance=LOW,
        update=CLUSTER_WIDE,
        doc="Names of Java classes that look up values stored elsewhere.",
    )
    connections_max_idle_ms = long(
        600_000, doc="A connection that is idle for this long is closed."
    )
    delete_records_purgatory_purge_interval_requests = integer(
        1, doc="How many completed delayed DeleteRecords are kept before they are purged."
    )
    fetch_max_bytes = integer(
        57_671_680,
        at_least(1 << 10),
        doc="The most bytes in one fetch response, whatever the client requests; one batch "
        "is always returned.",
    )
    fetch_purgatory_purge_interval_requests = integer(
        1000, doc="How many completed delayed fetches are kept before they are purged."
    )
    inter_broker_listener_name = string(None, doc="The listener for connections between brokers.")
    kafka_metrics_polling_interval_secs = integer(
        10, at_least(1), importance=LOW, doc="How often Java metrics reporters are polled."
    )
    kafka_metrics_reporters = listing(
        (), importance=LOW, doc="Java classes that report the broker's older metrics."
    )
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance=LOW,
        update=PER_BROKER,
        doc="The security protocol of each named listener, as NAME:PROTOCOL. While a broker runs,"
        " the protocol of a listener that stays cannot change.",
    )
    listeners = listing(
        ("PLAINTEXT://:9092",),
        some_items,
        importance=HIGH,
        update=PER_BROKER,
        doc="The endpoints to listen on, as NAME://host:port; an empty host is every interface."
        " A running broker opens added listeners and closes removed ones; a listener that stays"
        " keeps its address until a restart.",
    )
    max_connection_creation_rate = integer(
        INT_MAX, at_least(0), update=CLUSTER_WIDE, doc="The most new connections per second."
    )
    max_connections = integer(
        INT_MAX, at_least(0), update=CLUSTER_WIDE, doc="The most connections at a time."
    )
    max_connections_per_ip = integer(
        INT_MAX,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="The most connections at a time from one address.",
    )
    max_connections_per_ip_overrides = string(
        "", update=CLUSTER_WIDE, doc="Limits for single addresses or host names, as host:count."
    )
    max_incremental_fetch_session_cache_slots = integer(
        1000, at_least(0), doc="The most incremental fetch sessions that are cached."
    )
    max_request_partition_size_limit = integer(
        2000, at_least(1), doc="The most partitions in one DescribeTopicPartitions response."
    )
    metric_reporters = listing(
        ("org.apache.kafka.common.metrics.JmxReporter",),
        importance=LOW,
        update=CLUSTER_WIDE,
        doc="Java classes that report metrics.",
    )
    metrics_num_samples = integer(
        2, at_least(1), importance=LOW, doc="How many samples metrics are computed from."
    )
    metrics_recording_level = string("INFO", importance=LOW, doc="The recording level of metrics.")
    metrics_sample_window_ms = long(
        30_000, at_least(1), importance=LOW, doc="How long each sample lasts."
    )
    num_io_threads = integer(
        8, at_least(1), importance=HIGH, update=CLUSTER_WIDE, doc="Threads that handle requests."
    )
    num_network_threads = integer(
        3,
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        doc="Threads that read requests and write responses.",
    )
    producer_purgatory_purge_interval_requests = integer(
        1000, doc="How many completed delayed produce requests are kept before they are purged."
    )
    queued_max_request_bytes = long(
        -1,
        doc="The most bytes of requests that are incomplete or wait; while it is reached, no "
        "further request is read; -1 is no limit.",
    )
    queued_max_requests = integer(
        500,
        at_least(1),
        importance=HIGH,
        doc="The most large requests that are incomplete or wait before no further one is read; "
        "Kafka's default is no limit here, as requests are handled without a queue.",
    )
    quota_window_num = integer(
        11, at_least(1), importance=LOW, doc="How many samples client quotas cover."
    )
    quota_window_size_seconds = integer(
        1, at_least(1), importance=LOW, doc="How long each such sample lasts."
    )
    socket_connection_setup_timeout_max_ms = long(
        30_000, doc="The longest that an attempt to connect to another node may take."
    )
    socket_connection_setup_timeout_ms = long(
        10_000, doc="How long the first attempt to connect to another node may take."
    )
    socket_listen_backlog_size = integer(
        50,
        at_least(1),
        doc="How many connections the system holds before they are accepted; 1024 here, unless it "
        "is set.",
    )
    socket_receive_buffer_bytes = integer(
        102_400,
        importance=HIGH,
        doc="The receive buffer of clients' sockets; the system's default for -1, and here unless "
        "it is set.",
    )
    socket_request_max_bytes = integer(
        104_857_600,
        at_least(1),
        importance=HIGH,
        doc="A request larger than this closes its connection.",
    )
    socket_send_buffer_bytes = integer(
        102_400,
        importance=HIGH,
        doc="The send buffer of clients' sockets; -1 is the system's default.",
    )
    telemetry_max_bytes = integer(
        1 << 20,
        at_least(1),
        importance=LOW,
        doc="The most bytes of metrics a client may push at a time.",
    )
