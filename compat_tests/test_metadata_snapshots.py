"""Apache Kafka reads wirekafka's metadata snapshots, and starts from them without the log."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.java_tools import JavaTools
from spark_examples.live_broker import live_broker
from tests.eventually import eventually

OFTEN = (
    "metadata.log.max.record.bytes.between.snapshots=500",
    "metadata.log.segment.ms=100",
    "metadata.max.retention.bytes=1",
)


@pytest.mark.timeout(240)
def test_kafka_starts_on_snapshots_whose_log_is_gone(tmp_path: Path, java_tools: JavaTools) -> None:
    data = tmp_path / "data"
    metadata = data / "__cluster_metadata-0"
    topics = []
    with live_broker(data, *OFTEN) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})

        def covered() -> bool:
            topics.append(f"topic-{len(topics)}")
            admin.create_topics([NewTopic(topics[-1], 2)])[topics[-1]].result(30)
            time.sleep(0.3)
            return not (metadata / f"{0:020d}.log").exists()

        eventually(covered, timeout_s=90)
    newest = max(metadata.glob("*-*.checkpoint"))
    printed = java_tools.run(
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--skip-record-metadata",
        "--files",
        str(newest),
    )
    assert printed.count('"type":"TOPIC_RECORD"') > 10
    with apache_kafka_on([data], tmp_path) as bootstrap:
        found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
        assert set(topics) <= set(found)
        assert all(len(found[topic].partitions) == 2 for topic in topics)
    with live_broker(data) as bootstrap:
        found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
        assert set(topics) <= set(found)
