"""The metrics and labels that published Grafana dashboards query are exported.

The lists were taken from Strimzi's dashboards for Kafka, KRaft and its exporter (August 2026), and
from that of kafka_exporter. Labels that Kubernetes or Prometheus add are left out, and the metrics
of containers, volumes and the JVM (`container_*`, `kubelet_*`, `jvm_*`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.eventually import eventually
from tests.raw_client import RawClient
from tests.server.test_monitoring import Monitored
from tests.server.test_serve import batch, create, fetch, produce
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest

DASHBOARDS = {
    "strimzi-kafka": """
        kafka_cluster_partition_atminisr
        kafka_cluster_partition_replicascount topic
        kafka_cluster_partition_underminisr
        kafka_controller_controllerstats_uncleanleaderelections_total
        kafka_controller_kafkacontroller_activecontrollercount
        kafka_controller_kafkacontroller_offlinepartitionscount
        kafka_log_log_size topic partition
        kafka_network_socketserver_networkprocessoravgidle_percent
        kafka_server_brokertopicmetrics_bytesin_total topic
        kafka_server_brokertopicmetrics_bytesout_total topic
        kafka_server_brokertopicmetrics_failedfetchrequests_total topic
        kafka_server_brokertopicmetrics_failedproducerequests_total topic
        kafka_server_brokertopicmetrics_messagesin_total topic
        kafka_server_brokertopicmetrics_totalfetchrequests_total topic
        kafka_server_brokertopicmetrics_totalproducerequests_total topic
        kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
        kafka_server_kafkaserver_linux_disk_read_bytes
        kafka_server_kafkaserver_linux_disk_write_bytes
        kafka_server_replicamanager_leadercount
        kafka_server_replicamanager_partitioncount
        kafka_server_replicamanager_underreplicatedpartitions
        kafka_server_socket_server_metrics_connection_count listener
        process_open_fds
    """,
    "strimzi-kraft": """
        kafka_server_raftchannelmetrics_incoming_byte_total
        kafka_server_raftchannelmetrics_outgoing_byte_total
        kafka_server_raftchannelmetrics_request_total
        kafka_server_raftchannelmetrics_response_total
        kafka_server_raftmetrics_append_records_rate
        kafka_server_raftmetrics_commit_latency_avg
        kafka_server_raftmetrics_current_epoch
        kafka_server_raftmetrics_current_leader
        kafka_server_raftmetrics_current_state current_state
        kafka_server_raftmetrics_current_vote
        kafka_server_raftmetrics_fetch_records_rate
        kafka_server_raftmetrics_high_watermark
        kafka_server_raftmetrics_log_end_offset
        process_open_fds
    """,
    "strimzi-kafka-exporter": """
        kafka_broker_info
        kafka_cluster_partition_atminisr topic
        kafka_cluster_partition_underminisr topic
        kafka_consumergroup_current_offset consumergroup topic partition
        kafka_consumergroup_lag consumergroup topic partition
        kafka_topic_partition_current_offset topic partition
        kafka_topic_partition_in_sync_replica topic
        kafka_topic_partition_leader_is_preferred topic
        kafka_topic_partition_oldest_offset topic partition
        kafka_topic_partition_replicas topic
        kafka_topic_partition_under_replicated_partition topic
        kafka_topic_partitions topic
    """,
    "kafka_exporter": """
        kafka_consumergroup_current_offset consumergroup topic
        kafka_consumergroup_lag consumergroup topic
        kafka_topic_partition_current_offset topic
        kafka_topic_partitions topic
    """,
}
QUERIES = [
    (dashboard, *line.split(maxsplit=1))
    for dashboard, text in DASHBOARDS.items()
    for line in text.strip().splitlines()
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[dict[str, str]]]]:
    """The labels of every sample, by name, of a node that is in use."""
    monitored = Monitored(tmp_path_factory.mktemp("dashboards") / "data")
    with monitored.serving, RawClient(monitored.serving.port) as client:
        create(client, "flights")
        produce(client, "flights", batch(b"one"))
        fetch(client, "flights")
        _commit(client)
        found: dict[str, list[dict[str, str]]] = {}
        for family in monitored.metrics().values():
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample.labels)
        yield found


def _commit(client: RawClient) -> None:
    topic = OffsetCommitRequest.Topic
    partition = topic.Partition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(
        group_id="g", topics=[topic(name="flights", partitions=[partition])]
    )
    client.call(FindCoordinatorRequest(key="g"), 0)  # Creates the topic of offsets.
    eventually(lambda: client.call(request, 8).topics[0].partitions[0].error_code == 0)


@pytest.mark.parametrize(
    "query", QUERIES, ids=[f"{dashboard}-{name}" for dashboard, name, *_ in QUERIES]
)
def test_a_dashboard_finds_what_it_queries(
    exported: dict[str, list[dict[str, str]]], query: tuple[str, ...]
) -> None:
    _, name, *labels = query
    wanted = set(labels[0].split()) if labels else set()
    assert any(
        wanted <= {label for label, value in found.items() if value}
        for found in exported.get(name, [])
    )
