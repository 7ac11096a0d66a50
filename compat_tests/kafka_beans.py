"""Lists the MBeans of a running Apache Kafka by the names of metrics that the JMX exporter makes.

`python -m compat_tests.kafka_beans` writes `docs/reference/kafka_beans.txt` anew, a line for
each metric.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, java_command, prepare, running
from compat_tests.java_programs import program_classes
from compat_tests.tiered import EARLIEST_LOCAL, offset, settings, with_storage
from tests.eventually import eventually
from tests.raw_client import RawClient
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

LIST = Path(__file__).resolve().parent.parent / "docs" / "reference" / "kafka_beans.txt"

_SETTINGS = f"""{SMALL_CLEANER}
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
errors.deadletterqueue.auto.create.topics.enable=true
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
metric.reporters=org.apache.kafka.common.metrics.JmxReporter,TelemetryReporter
"""
_GROUP = "share-life-explicit"
"""The group of `ShareLife` that rejects a record."""
_GROUP_RESOURCE = 32
_CONDENSED = ("raft-metrics", "raft-channel-metrics", "broker-metadata-metrics")
"""Types for which Strimzi's rules leave out the hyphens."""
_OF_SELECTORS = frozenset({"io-ratio", "select-total", "request-total"})
"""What all clients of a broker have, with 30 more attributes."""
_PERCENT = re.compile("Percent$")
_PER_SECOND = re.compile("PerSec$")


def main() -> None:
    """Write the list."""
    with tempfile.TemporaryDirectory() as scratch:
        found = beans(Path(scratch))
    LIST.write_text("".join(f"{name}\n" for name in metrics(found)))


def beans(directory: Path) -> list[tuple[str, str]]:
    """The MBeans of a broker that has served all kinds of clients, each with an attribute."""
    tier = settings(directory / "tier")
    lines = "".join(f"{name}={value}\n" for name, value in tier.items())
    port, _ = prepare(directory, SMALL_JVM, _SETTINGS + lines)
    java = with_storage(java_command(directory))
    java[2] += f":{program_classes()}"
    found = directory / "beans.txt"
    properties = directory / "server.properties"
    command = [*java, *SMALL_JVM, "KafkaBeans", str(found), str(properties)]
    with running(command, directory, port) as bootstrap:
        _serve_clients(bootstrap)
        _serve_tier(bootstrap)
        _set_dead_letter_topic(bootstrap)
        subprocess.run([*java, "-Xmx256m", "ShareLife", bootstrap], check=True, timeout=120)
        eventually(found.exists, timeout_s=60)
        found.unlink()
        eventually(found.exists, timeout_s=60)
        lines = found.read_text().splitlines()
    return [(bean, attribute) for bean, _, attribute in (line.partition("\t") for line in lines)]


def metrics(found: Iterable[tuple[str, str]]) -> list[str]:
    """The names of metrics, in order; all that a client of a broker has is one name with a `*`."""
    attributes = defaultdict(set)
    names = set()
    for bean, attribute in found:
        domain, _, text = bean.partition(":")
        keys = dict(re.findall('([^=,]+)=("[^"]*"|[^,]*)', text))
        if domain == "kafka":  # The settings of its log.
            continue
        if "name" in keys:
            names.add(_of_yammer(domain, keys["type"], keys["name"]))
        else:
            attributes[keys["type"]].add(attribute)
    for kind, of_kind in attributes.items():
        condensed = kind.replace("-", "") if kind in _CONDENSED else kind
        prefix = _safe(f"kafka_server_{condensed}_")
        is_client = of_kind >= _OF_SELECTORS and kind != "socket-server-metrics"
        names |= {f"{prefix}*"} if is_client else {prefix + _safe(each) for each in of_kind}
    return sorted(names)


def _of_yammer(domain: str, kind: str, name: str) -> str:
    for ending, suffix in ((_PERCENT, "_percent"), (_PER_SECOND, "_total")):
        if ending.search(name):
            name = ending.sub("", name) + suffix
    return _safe(f"{domain}_{kind}_{name}")


def _safe(name: str) -> str:
    return re.sub(r"\W", "_", name).lower()


def _serve_clients(bootstrap: str) -> None:
    """A transaction, a group of each protocol, and an ACL."""
    server = {"bootstrap.servers": bootstrap}
    admin = AdminClient(server)
    created = admin.create_topics([NewTopic("t", 1, 1)])
    acl = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for each in (*created.values(), *admin.create_acls([acl]).values()):
        each.result(30)
    producer = Producer({**server, "transactional.id": "transaction"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("t", b"one")
    producer.commit_transaction(60)
    for protocol in ("classic", "consumer"):
        settings = {"group.id": protocol, "group.protocol": protocol}
        consumer = Consumer({**server, **settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        try:
            eventually(lambda one=consumer: one.poll(1), timeout_s=60)
        finally:
            consumer.close()


def _serve_tier(bootstrap: str) -> None:
    """Copy segments of a tiered topic, and read them."""
    server = {"bootstrap.servers": bootstrap}
    config = {
        "remote.storage.enable": "true",
        "segment.bytes": str(1 << 20),
        "local.retention.bytes": "1",
    }
    admin = AdminClient(server)
    admin.create_topics([NewTopic("tiered", 1, 1, config=config)])["tiered"].result(30)
    producer = Producer(server)
    for _ in range(8):
        producer.produce("tiered", bytes(500_000))
        producer.flush(30)
    eventually(lambda: offset(bootstrap, "tiered", EARLIEST_LOCAL)[2] > 0, timeout_s=60)
    consumer = Consumer({**server, "group.id": "tier"})
    consumer.assign([TopicPartition("tiered", 0, 0)])
    try:
        eventually(lambda: consumer.poll(1), timeout_s=60)
    finally:
        consumer.close()


def _set_dead_letter_topic(bootstrap: str) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    entry = resource.AlterableConfig(name="errors.deadletterqueue.topic.name", value="dlq.letters")
    altered = resource(resource_type=_GROUP_RESOURCE, resource_name=_GROUP, configs=[entry])
    with RawClient(int(bootstrap.rpartition(":")[2])) as client:
        answer = client.call(IncrementalAlterConfigsRequest(resources=[altered]), 1)
    assert answer.responses[0].error_code == 0, answer.responses


if __name__ == "__main__":
    main()
