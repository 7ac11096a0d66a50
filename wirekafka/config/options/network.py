"""Options for sockets, requests, quotas and metrics."""

from __future__ import annotations

from wirekafka.config.check import at_least
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
    """Rows, by name."""

    advertised_listeners = listing(None, importance=HIGH, doc="")
    alter_config_policy_class_name = class_name(None, importance=LOW, doc="")
    client_quota_callback_class = class_name(None, importance=LOW, doc="")
    config_providers = listing((), importance=LOW, update=CLUSTER_WIDE, doc="")
    connections_max_idle_ms = long(600_000, doc="")
    delete_records_purgatory_purge_interval_requests = integer(1, doc="")
    fetch_max_bytes = integer(57_671_680, at_least(1 << 10), doc="")
    fetch_purgatory_purge_interval_requests = integer(1000, doc="")
    inter_broker_listener_name = string(None, doc="")
    kafka_metrics_polling_interval_secs = integer(10, at_least(1), importance=LOW, doc="")
    kafka_metrics_reporters = listing((), importance=LOW, doc="")
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance=LOW,
        update=PER_BROKER,
        doc="",
    )
    listeners = listing(("PLAINTEXT://:9092",), importance=HIGH, update=PER_BROKER, doc="")
    max_connection_creation_rate = integer(INT_MAX, at_least(0), update=CLUSTER_WIDE, doc="")
    max_connections = integer(INT_MAX, at_least(0), update=CLUSTER_WIDE, doc="")
    max_connections_per_ip = integer(INT_MAX, at_least(0), update=CLUSTER_WIDE, doc="")
    max_connections_per_ip_overrides = string("", update=CLUSTER_WIDE, doc="")
    max_incremental_fetch_session_cache_slots = integer(1000, at_least(0), doc="")
    max_request_partition_size_limit = integer(2000, at_least(1), doc="")
    metric_reporters = listing(
        ("org.apache.kafka.common.metrics.JmxReporter",), importance=LOW, update=CLUSTER_WIDE,
        doc="",
    )
    metrics_num_samples = integer(2, at_least(1), importance=LOW, doc="")
    metrics_recording_level = string("INFO", importance=LOW, doc="")
    metrics_sample_window_ms = long(30_000, at_least(1), importance=LOW, doc="")
    num_io_threads = integer(8, at_least(1), importance=HIGH, update=CLUSTER_WIDE, doc="")
    num_network_threads = integer(3, at_least(1), importance=HIGH, update=CLUSTER_WIDE, doc="")
    producer_purgatory_purge_interval_requests = integer(1000, doc="")
    queued_max_request_bytes = long(-1, doc="")
    queued_max_requests = integer(500, at_least(1), importance=HIGH, doc="")
    quota_window_num = integer(11, at_least(1), importance=LOW, doc="")
    quota_window_size_seconds = integer(1, at_least(1), importance=LOW, doc="")
    socket_connection_setup_timeout_max_ms = long(30_000, doc="")
    socket_connection_setup_timeout_ms = long(10_000, doc="")
    socket_listen_backlog_size = integer(50, at_least(1), doc="")
    socket_receive_buffer_bytes = integer(102_400, importance=HIGH, doc="")
    socket_request_max_bytes = integer(104_857_600, at_least(1), importance=HIGH, doc="")
    socket_send_buffer_bytes = integer(102_400, importance=HIGH, doc="")
    telemetry_max_bytes = integer(1 << 20, at_least(1), importance=LOW, doc="")
