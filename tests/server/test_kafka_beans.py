"""Each MBean of Apache Kafka is served, or docs/reference/kafka_beans.md says why not.

`docs/reference/kafka_beans.txt` is written by `python -m compat_tests.kafka_beans`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.eventually import eventually
from tests.raw_client import RawClient
from tests.server.test_monitoring import Monitored
from tests.server.test_serve import batch, create, fetch, produce
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"
LISTED = (DOCS / "kafka_beans.txt").read_text().split()
PAGE = (DOCS / "kafka_beans.md").read_text()
MISSING = [
    pattern
    for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    for pattern in re.findall("`(.*?)`", row)
]
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = (
    AUTHORIZER,
    "super.users=User:ANONYMOUS",
    "errors.deadletterqueue.auto.create.topics.enable=true",
    "log.cleaner.backoff.ms=100",
    "offsets.topic.num.partitions=1",
    "share.coordinator.state.topic.num.partitions=1",
)
GROUP, GROUP_RESOURCE = "g", 32
SHARE = {"group": GROUP, "topic": "t", "partition": "0"}
LATE = {
    "kafka_log_logcleanermanager_time_since_last_run_ms",
    "kafka_server_client_metrics_throttle_count",
    "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_count",
}
"""Once the cleaner has run, a client has asked for its subscription, and a letter was written."""
ROLES = ("broker", "controller")


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """A share group has accepted a record and rejected one, and two records are in flight."""
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    scratch = tmp_path_factory.mktemp("beans")
    found = Monitored(scratch / "data", *options, "--tier", f"file://{scratch / 'tier'}")
    with found.serving, RawClient(found.serving.port) as client:
        create(client, "t")
        _create_tiered(found.serving.port)
        _configure_group(client)
        for value in (b"accepted", b"rejected", b"held", b"held too"):
            produce(client, "t", batch(value))
        fetch(client, "t")
        _create_acl(found.serving.port)
        consumer = _share_consumer(found.serving.port)
        try:
            _consume(found, consumer)
            yield found
        finally:
            consumer.close()


def test_each_bean_is_served_or_is_a_row_of_the_document(monitored: Monitored) -> None:
    eventually(lambda: _served(monitored) >= LATE)
    served = _served(monitored)
    absent = [name for name in LISTED if not _is_served(name, served)]
    assert [name for name in absent if not _is_explained(name)] == []
    assert [name for name in LISTED if name not in absent and _is_explained(name)] == []


def test_each_row_of_the_document_is_about_a_bean_of_kafka() -> None:
    assert [each for each in MISSING if not any(fnmatchcase(name, each) for name in LISTED)] == []


def test_records_of_share_groups_are_counted(monitored: Monitored) -> None:
    prefix = "kafka_server_sharegroupmetrics"
    counted = {
        kind: monitored.value(f"{prefix}_recordacknowledgements_total", ackType=kind)
        for kind in ("Accept", "Reject", "Release", "Renew")
    }
    assert counted == {"Accept": 1, "Reject": 1, "Release": 0, "Renew": 0}
    letters = f"{prefix}_deadletterqueue"
    eventually(lambda: monitored.value(f"{letters}recordcount_count", group=GROUP) == 1)
    assert monitored.value(f"{letters}failedproducerequests_total", group=GROUP) == 0
    prefix = "kafka_server_sharepartitionmetrics"
    eventually(lambda: monitored.value(f"{prefix}_inflightmessagecount", **SHARE) == 2)
    assert monitored.value(f"{prefix}_inflightbatchcount", **SHARE) >= 1
    assert monitored.value("kafka_server_sharesessioncache_sharesessionscount") == 1
    assert monitored.value("kafka_server_share_coordinator_metrics_write_total") >= 1
    prefix = "kafka_server_brokertopicmetrics"
    assert monitored.value(f"{prefix}_totalsharefetchrequests_total", topic="t") >= 1
    assert monitored.value(f"{prefix}_totalshareacknowledgementrequests_total", topic="t") >= 1
    assert monitored.value(f"{prefix}_failedshareacknowledgementrequests_total", topic="t") == 0


@pytest.mark.parametrize("role", ROLES)
def test_acls_and_decisions_of_the_authorizer_are_counted(monitored: Monitored, role: str) -> None:
    labels = {"config": "authorizer.class.name", "class": "StandardAuthorizer", "role": role}
    prefix = "kafka_server_plugins"
    assert monitored.value(f"{prefix}_acls_total_count", **labels) == 1
    assert monitored.value(f"{prefix}_authorization_denied_rate_per_minute", **labels) == 0


def test_voters_and_features_are_those_of_the_quorum(monitored: Monitored) -> None:
    assert monitored.value("kafka_server_raftmetrics_number_of_voters") == 1
    assert monitored.value("kafka_server_raftmetrics_number_of_observers") == 0
    assert monitored.value("kafka_server_raftmetrics_uncommitted_voter_change") == 0
    finalized = "kafka_server_metadataloader_finalizedlevel"
    assert monitored.value(finalized, featureName="metadataVersion") == 33
    highest = "kafka_server_node_metrics_maximum_supported_level"
    assert monitored.value(highest, feature_name="metadata-version") == 33


def _served(monitored: Monitored) -> set[str]:
    text = monitored.get("/metrics").body.decode()
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def _is_served(name: str, served: set[str]) -> bool:
    if name.endswith("*"):
        return any(fnmatchcase(each, name) for each in served)
    # The number of values of a meter without a rate in its name is a count, as of a histogram.
    return name in served or f"{name}_count" in served or f"{name}_total" in served


def _is_explained(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in MISSING)


def _configure_group(client: RawClient) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=name, value=value)
        for name, value in (
            ("share.auto.offset.reset", "earliest"),
            ("errors.deadletterqueue.topic.name", "dlq.letters"),
        )
    ]
    altered = resource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=configs)
    answer = client.call(IncrementalAlterConfigsRequest(resources=[altered]), 1)
    assert answer.responses[0].error_code == 0


def _create_tiered(port: int) -> None:
    topic = NewTopic("tiered", 1, 1, config={"remote.storage.enable": "true"})
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    admin.create_topics([topic])["tiered"].result(20)


def _create_acl(port: int) -> None:
    acl = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    for created in admin.create_acls([acl]).values():
        created.result(20)


def _share_consumer(port: int) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    return consumer


def _consume(monitored: Monitored, consumer: ShareConsumer) -> None:
    records: list[Message] = []

    def has_all() -> bool:
        records.extend(consumer.poll(0.2))
        return len(records) == 4

    eventually(has_all, timeout_s=20)
    types = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
    for record, kind in zip(records, types, strict=False):
        consumer.acknowledge(record, kind)
    consumer.commit_sync()
