"""Apache Kafka's nodes reach wirekafka's controller over TLS and SASL, and take its snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.cluster import FIRST_CONTROLLER, KAFKA, WIREKAFKA, Cluster, Node, Shape
from compat_tests.quorums import make
from tests.certificates import Authority
from tests.eventually import eventually
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.metadata.controller.features import bootstrap_features
from wirekafka.metadata.first_users import parse

OURS, APACHES = FIRST_CONTROLLER, FIRST_CONTROLLER + 1
_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "metadata.log.max.record.bytes.between.snapshots": "1",
}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def snapshots(node: Node) -> dict[str, bytes]:
    """The snapshots in a node's directory, but for that of the new cluster."""
    found = (node.data / METADATA_LOG).glob("*.checkpoint")
    return {each.name: each.read_bytes() for each in found if each.name[:20] != "0" * 20}


def takes_a_snapshot(cluster: Cluster, taker: int) -> None:
    """Start a node whose directory is empty, and check that it got a snapshot of the controller."""
    source = cluster.nodes[OURS]
    eventually(lambda: snapshots(source))
    cluster.spawn(taker)
    took = eventually(lambda: snapshots(cluster.nodes[taker]), timeout_s=60)
    assert took is not None
    # The controller keeps two, and writes further ones meanwhile.
    names = set(took) & set(snapshots(source))
    assert all(took[name] == snapshots(source).get(name, took[name]) for name in names)


@pytest.mark.timeout(180)
def test_brokers_log_in_by_scram_and_an_apache_broker_begins_with_a_snapshot(
    tmp_path: Path, unique: str
) -> None:
    login = f'{_SCRAM} username="node" password="node-secret";'
    settings = _SETTINGS | {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
        "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.controller.scram-sha-256.sasl.jaas.config": login,
    }
    user = parse("SCRAM-SHA-256=[name=node,password=node-secret]", b"salt")
    shape = Shape(
        brokers=(WIREKAFKA, KAFKA),
        controller_engine=WIREKAFKA,
        first_voters=(OURS,),
        is_combined=False,
        settings=settings,
        records=(*bootstrap_features(), user),
    )
    with Cluster.laid_out(shape, tmp_path) as cluster:
        cluster.start(OURS, 1)
        make(cluster, f"{unique}-one")
        takes_a_snapshot(cluster, 2)
        cluster.await_in_service(2)
        make(cluster, f"{unique}-both", replicas=2)


@pytest.mark.timeout(180)
def test_an_apache_controller_follows_over_tls_with_certificates_on_both_sides(
    tmp_path: Path, unique: str
) -> None:
    authority = Authority(tmp_path)
    settings = _SETTINGS | {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.controller.ssl.keystore.type": "PEM",
        "listener.name.controller.ssl.keystore.location": authority.issue(
            "O=Example,CN=node", "127.0.0.1"
        ).pem(),
        "listener.name.controller.ssl.truststore.type": "PEM",
        "listener.name.controller.ssl.truststore.location": authority.file,
    }
    shape = Shape(
        brokers=(WIREKAFKA, KAFKA),
        controllers=2,
        controller_engines=(WIREKAFKA, KAFKA),
        first_voters=(OURS,),
        is_combined=False,
        settings=settings,
    )
    with Cluster.laid_out(shape, tmp_path) as cluster:
        cluster.start(OURS, 1)
        make(cluster, f"{unique}-one")
        takes_a_snapshot(cluster, APACHES)
        cluster.start(2)
        make(cluster, f"{unique}-both", replicas=2)
