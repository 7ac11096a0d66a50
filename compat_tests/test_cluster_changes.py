"""The cluster changes while a wirekafka broker is a member: feature levels and registrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest

APACHE, OURS, STOPPED = 1, 2, 3
SETTINGS = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_HEARTBEATS: dict[str, tuple[Request, int]] = {
    "group.version": (
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="", member_epoch=0, subscribed_topic_names=["t"]
        ),
        1,
    ),
    "share.version": (
        ShareGroupHeartbeatRequest(
            group_id="s", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
        ),
        1,
    ),
    "streams.version": (
        StreamsGroupHeartbeatRequest(group_id="k", member_id="m", member_epoch=0),
        0,
    ),
}
"""By feature: a request that is refused, before anything else, while the level is 0."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(brokers=(KAFKA, WIREKAFKA, WIREKAFKA), settings=SETTINGS)
    with Cluster.running(shape, tmp_path_factory.mktemp("changes")) as running:
        yield running


def ask(cluster: Cluster, broker: int, request: Request, version: int) -> Any:
    with closing(Wire((HOST, cluster.nodes[broker].port))) as wire:
        return wire.ask(request, version)


def levels(cluster: Cluster, broker: int) -> dict[str, int]:
    """The finalized levels above 0, as a broker reports them."""
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    response = ask(cluster, broker, request, 4)
    return {each.name: each.max_version_level for each in response.finalized_features}


def update(cluster: Cluster, broker: int, feature: str, level: int) -> None:
    """Change a feature's level by way of one broker, and wait until all report it."""
    before = levels(cluster, APACHE).get(feature, 0)
    key = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=feature,
        max_version_level=level,
        upgrade_type=_UPGRADE if level > before else _SAFE_DOWNGRADE,
    )
    response = ask(cluster, broker, UpdateFeaturesRequest(feature_updates=[key]), 1)
    assert (Error(response.error_code), response.error_message) in (
        (Error.NONE, None),
        (Error.NONE, ""),
    )

    def is_followed() -> bool:
        found = [levels(cluster, each.id) for each in cluster.brokers() if each.is_running]
        return all(each == found[0] and each.get(feature, 0) == level for each in found)

    eventually(is_followed, timeout_s=30)


def is_refused(cluster: Cluster, broker: int, feature: str) -> bool:
    """Whether the feature's heartbeat gets UNSUPPORTED_VERSION."""
    request, version = _HEARTBEATS[feature]
    response = ask(cluster, broker, request, version)
    return bool(response.error_code == Error.UNSUPPORTED_VERSION)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("feature", list(_HEARTBEATS))
def test_group_protocol_follows_its_feature(cluster: Cluster, feature: str) -> None:
    highest = levels(cluster, APACHE)[feature]
    for level in (0, highest):
        update(cluster, OURS, feature, level)
        for broker in (APACHE, OURS):
            assert is_refused(cluster, broker, feature) == (level == 0)


@pytest.mark.timeout(240)
def test_transactions_go_on_at_each_transaction_version(cluster: Cluster, unique: str) -> None:
    client = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    admin = AdminClient(client)
    topic = NewTopic(unique, 2, replica_assignment=[[APACHE], [OURS]])
    admin.create_topics([topic])[unique].result(60)
    # One that lives through the changes, and new ones.
    lasting = Producer(client | {"transactional.id": f"{unique}-lasting"})
    lasting.init_transactions(60)
    for level in (1, 0, 1, 2):
        update(cluster, OURS, "transaction.version", level)
        newer = Producer(client | {"transactional.id": f"{unique}-{level}"})
        newer.init_transactions(60)
        for producer in (lasting, newer):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(unique, b"x", partition=partition)
            producer.flush(30)
            producer.commit_transaction(60)


@pytest.mark.timeout(180)
def test_replicas_stay_in_sync_without_eligible_leader_replicas(
    cluster: Cluster, unique: str
) -> None:
    feature = "eligible.leader.replicas.version"
    client = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    admin = AdminClient(client)
    topic = NewTopic(unique, 1, replica_assignment=[[OURS, APACHE, STOPPED]])
    admin.create_topics([topic])[unique].result(60)
    for level in (0, 1):
        update(cluster, OURS, feature, level)
        cluster.kill(STOPPED)
        producer = Producer(client | {"acks": "all"})
        producer.produce(unique, b"x")
        assert producer.flush(60) == 0
        cluster.start(STOPPED)
        eventually(
            lambda: len(admin.list_topics(unique, 10).topics[unique].partitions[0].isrs) == 3,
            timeout_s=60,
        )


@pytest.mark.timeout(180)
def test_stopped_broker_is_unregistered_and_may_return(cluster: Cluster) -> None:
    def registered(broker: int) -> list[int]:
        response = ask(cluster, broker, DescribeClusterRequest(include_fenced_brokers=True), 2)
        return sorted(each.broker_id for each in response.brokers)

    cluster.stop(STOPPED)
    assert registered(APACHE) == registered(OURS) == [APACHE, OURS, STOPPED]
    unregister = UnregisterBrokerRequest(broker_id=STOPPED)
    assert ask(cluster, OURS, unregister, 0).error_code == Error.NONE
    assert registered(OURS) == [APACHE, OURS]
    eventually(lambda: registered(APACHE) == [APACHE, OURS])
    again = ask(cluster, OURS, unregister, 0)
    assert (again.error_code, again.error_message) == (
        ask(cluster, APACHE, unregister, 0).error_code,
        ask(cluster, APACHE, unregister, 0).error_message,
    )
    cluster.start(STOPPED)
    assert registered(APACHE) == registered(OURS) == [APACHE, OURS, STOPPED]
