"""A broker's options for its connections to Apache Kafka's controllers change while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.cluster import FIRST_CONTROLLER, WIREKAFKA, Cluster, Shape
from tests.certificates import Authority
from tests.eventually import eventually

BROKER = 1
_HOST = "127.0.0.1"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_STORE = "listener.name.controller.ssl.keystore.location"
_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
}


def _change(cluster: Cluster, name: str, value: str) -> None:
    """Set a dynamic option of the broker."""
    admin = AdminClient({"bootstrap.servers": cluster.nodes[BROKER].bootstrap, "log_level": 0})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, str(BROKER), incremental_configs=[entry])
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(30)


def _replace(cluster: Cluster, old: str, new: str) -> None:
    """Restart the controller with other options; its broker has to connect again."""
    properties = cluster.nodes[FIRST_CONTROLLER].directory / "server.properties"
    text = properties.read_text()
    assert old in text
    cluster.stop(FIRST_CONTROLLER)
    properties.write_text(text.replace(old, new))
    cluster.spawn(FIRST_CONTROLLER)


def _creates(cluster: Cluster, topic: str) -> None:
    """Wait until the broker reaches its controller."""
    admin = AdminClient({"bootstrap.servers": cluster.nodes[BROKER].bootstrap, "log_level": 0})

    def is_created() -> bool:
        return topic in admin.list_topics(timeout=10).topics

    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    eventually(is_created)


@pytest.mark.timeout(180)
def test_changed_certificate_is_used_for_the_next_connection(tmp_path: Path, unique: str) -> None:
    authority = Authority(tmp_path)
    first = authority.issue("O=Example,CN=first", _HOST).pem()
    (tmp_path / "more").mkdir()
    other = Authority(tmp_path / "more", "Another CA")
    second = other.issue("O=Example,CN=second", _HOST).pem()
    trusted, only_other = tmp_path / "both.pem", tmp_path / "other.pem"
    trusted.write_text(f"{authority.pem}\n{other.pem}\n")
    only_other.write_text(f"{other.pem}\n")
    settings = _SETTINGS | {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.controller.ssl.keystore.type": "PEM",
        _STORE: first,
        "listener.name.controller.ssl.truststore.type": "PEM",
        "listener.name.controller.ssl.truststore.location": str(trusted),
    }
    shape = Shape(brokers=(WIREKAFKA,), is_combined=False, settings=settings)
    with Cluster.running(shape, tmp_path) as cluster:
        _creates(cluster, f"{unique}-before")
        _change(cluster, _STORE, second)
        # Now the controller, still under its first certificate, trusts only the other authority.
        _replace(cluster, str(trusted), str(only_other))
        _creates(cluster, f"{unique}-after")
