"""A controller's listener: the requests of brokers, of other controllers, and of admin clients."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.raw_client import frame, response_in
from wirekafka.apis.shared.registry import load
from wirekafka.codec.batch import batches
from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.log.directories.log_directory import METADATA_TOPIC_ID, UnusableDirectory
from wirekafka.log.files import RealDisk
from wirekafka.metadata.broker.claim import check_formatted
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.envelope import DefaultPrincipalData, EnvelopeRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.fetch_snapshot import FetchSnapshotRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.replication.raft import snapshot_file

LISTENER = "CONTROLLER"
CONTROLLERS = {
    "listeners": "PLAINTEXT://broker.test:9092,CONTROLLER://broker.test:9093",
    "controller_listener_names": LISTENER,
}


@pytest.fixture
def kafka(tmp_path: Path) -> InProcessBroker:
    return InProcessBroker(tmp_path / "data", ManualClock(), **CONTROLLERS)


def ask(kafka: InProcessBroker, request: Request, version: int, principal: str = "User:broker"):
    exchange = kafka.begin(request, version, listener=LISTENER, principal=principal)
    assert exchange.is_done, "the request waits"
    return exchange.response


def fetch(kafka: InProcessBroker, **changes: int) -> FetchRequest:
    """A fetch of the whole metadata log, as by an observer."""
    quorum = kafka.broker.controller.quorum
    values = {"fetch_offset": 0, "last_fetched_epoch": 0, "current_leader_epoch": quorum.epoch}
    topic = FetchRequest.Topic
    partition = topic.Partition(partition=0, high_watermark=-1, **values | changes)
    return FetchRequest(
        cluster_id=kafka.broker.cluster_id,
        max_wait_ms=0,
        min_bytes=0,
        replica_state=FetchRequest.ReplicaState(replica_id=7),
        topics=[topic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def only(response):
    [topic] = response.responses
    [partition] = topic.partitions
    return partition


def test_replicas_fetch_the_metadata_log(kafka: InProcessBroker) -> None:
    kafka.create("t")
    quorum = kafka.broker.controller.quorum
    response = ask(kafka, fetch(kafka), 17)
    partition = only(response)
    assert partition.error_code == Error.NONE
    assert partition.high_watermark == quorum.committed_offset
    assert partition.current_leader.leader_id == kafka.broker.node_id
    [endpoint] = response.node_endpoints
    assert (endpoint.host, endpoint.port) == ("broker.test", 9093)
    data = bytes(partition.records)
    found = [header for _, header in batches(data)]
    assert found[0].base_offset == 0 and found[-1].end_offset == quorum.end_offset


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"current_leader_epoch": 0}, Error.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 1000}, Error.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": -1}, Error.INVALID_REQUEST),
    ],
)
def test_fetches_of_another_epoch_are_refused_with_the_leader(kafka, change, error) -> None:
    partition = only(ask(kafka, fetch(kafka, **change), 17))
    assert partition.error_code == error
    assert partition.current_leader.leader_epoch == kafka.broker.controller.quorum.epoch


def test_a_replica_with_other_records_is_sent_to_where_the_logs_diverge(kafka) -> None:
    quorum = kafka.broker.controller.quorum
    request = fetch(kafka, fetch_offset=1_000, last_fetched_epoch=quorum.epoch)
    partition = only(ask(kafka, request, 17))
    diverging = partition.diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (quorum.epoch, quorum.end_offset)


def test_fetches_of_another_cluster_or_topic_are_refused(kafka) -> None:
    other = replace_fields(fetch(kafka), cluster_id="another")
    assert ask(kafka, other, 17).error_code == Error.INCONSISTENT_CLUSTER_ID
    topic = FetchRequest.Topic(topic_id=b"x" * 16, partitions=fetch(kafka).topics[0].partitions)
    other = replace_fields(fetch(kafka), topics=[topic])
    assert ask(kafka, other, 17).error_code == Error.INVALID_REQUEST


def test_a_fetch_without_news_waits_for_the_next_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        kafka = InProcessBroker(tmp_path / "data", ManualClock(), **CONTROLLERS)
        quorum = kafka.broker.controller.quorum
        request = fetch(kafka, fetch_offset=quorum.end_offset, last_fetched_epoch=quorum.epoch)
        request.max_wait_ms = 500
        request.topics[0].partitions[0].high_watermark = quorum.committed_offset
        waiting = kafka.begin(request, 18, listener=LISTENER)
        assert not waiting.is_done
        kafka.create("t")
        await waiting.settled()
        assert waiting.is_done and len(only(waiting.response).records)

    asyncio.run(scenario())


def test_a_replica_that_is_behind_gets_a_snapshot_in_parts(kafka) -> None:
    kafka.create("t")
    broker = kafka.broker
    quorum = broker.controller.quorum
    id = quorum.write_snapshot(broker.image.snapshot(), MetadataCodec())
    offered = only(ask(kafka, fetch(kafka), 17)).snapshot_id
    assert (offered.end_offset, offered.epoch) == id
    data = b""
    size = 1
    while len(data) < size:
        served = snapshot_part(kafka, id, len(data), 100)
        assert served.error_code == Error.NONE and served.position == len(data)
        data, size = data + bytes(served.unaligned_records), served.size
    assert any(list(snapshot_file.decode(data)))
    beyond = snapshot_part(kafka, id, size, 100)
    assert beyond.error_code == Error.POSITION_OUT_OF_RANGE
    missing = snapshot_part(kafka, id._replace(end_offset=9_999), 0, 100)
    assert missing.error_code == Error.SNAPSHOT_NOT_FOUND


def snapshot_part(kafka, id, position, max_bytes):
    topic = FetchSnapshotRequest.TopicSnapshot
    partition = topic.PartitionSnapshot
    request = FetchSnapshotRequest(
        cluster_id=kafka.broker.cluster_id,
        replica_id=7,
        max_bytes=max_bytes,
        topics=[
            topic(
                name="__cluster_metadata",
                partitions=[
                    partition(
                        partition=0,
                        current_leader_epoch=kafka.broker.controller.quorum.epoch,
                        snapshot_id=partition.SnapshotId(end_offset=id.end_offset, epoch=id.epoch),
                        position=position,
                    )
                ],
            )
        ],
    )
    [topic] = ask(kafka, request, 1).topics
    [served] = topic.partitions
    return served


def test_the_listener_serves_what_kafkas_controllers_serve_and_nothing_else(kafka) -> None:
    listed = {each.api_key for each in ask(kafka, ApiVersionsRequest(), 0).api_keys}
    assert listed == {each.key for each in load().values() if each.serves_controllers}
    for request, version in ((MetadataRequest(), 9), (ListGroupsRequest(), 4)):
        assert type(request).key not in listed
        refused = kafka.begin(request, version, listener=LISTENER)
        assert refused.closes_connection and refused.response is None


def test_describe_cluster_lists_the_controllers(kafka) -> None:
    response = ask(kafka, DescribeClusterRequest(endpoint_type=2), 1)
    assert response.controller_id == kafka.broker.node_id and response.endpoint_type == 2
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [
        (kafka.broker.node_id, "broker.test", 9093)
    ]
    brokers = ask(kafka, DescribeClusterRequest(endpoint_type=1), 1)
    assert brokers.error_code == Error.MISMATCHED_ENDPOINT_TYPE
    assert "to an endpoint of type CONTROLLER" in brokers.error_message


def envelope(principal: bytes, request: Request, version: int) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=frame(request, version, 5, "client"),
        request_principal=principal,
        client_host_address=bytes([10, 0, 0, 7]),
    )


def serialized(name: str) -> bytes:
    return b"\0\0" + DefaultPrincipalData(type="User", name=name).encode(0)


def create(name: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(topics=[topic(name=name, num_partitions=1, replication_factor=1)])


def test_a_forwarded_request_is_authorized_as_its_client(tmp_path: Path) -> None:
    kafka = InProcessBroker(
        tmp_path / "data",
        ManualClock(),
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:broker;User:admin",
        **CONTROLLERS,
    )

    def result(name: str) -> int:
        response = ask(kafka, envelope(serialized(name), create(f"of-{name}"), 7), 0)
        assert response.error_code == Error.NONE
        inner = response_in(bytes(response.response_data), CreateTopicsRequest, 7)
        [topic] = inner.topics
        return topic.error_code

    assert result("alice") == Error.TOPIC_AUTHORIZATION_FAILED
    assert result("admin") == Error.NONE
    assert set(kafka.broker.image.topics) == {"of-admin"}
    by_alice = envelope(serialized("admin"), create("t"), 7)
    refused = ask(kafka, by_alice, 0, principal="User:alice")
    assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED


def test_a_forwarded_clients_ipv6_address_is_compared_with_acls_as_java_writes_it(
    tmp_path: Path,
) -> None:
    kafka = InProcessBroker(
        tmp_path / "data",
        ManualClock(),
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:broker",
        **CONTROLLERS,
    )
    acl = CreateAclsRequest.AclCreation(
        resource_type=2,  # TOPIC
        resource_name="t",
        resource_pattern_type=3,  # LITERAL
        principal="User:alice",
        host="0:0:0:0:0:0:0:1",
        operation=5,  # CREATE
        permission_type=3,  # ALLOW
    )
    assert ask(kafka, CreateAclsRequest(creations=[acl]), 3).results[0].error_code == Error.NONE

    def result(host: str) -> int:
        wrapped = envelope(serialized("alice"), create("t"), 7)
        request = replace_fields(wrapped, client_host_address=ip_address(host).packed)
        response = ask(kafka, request, 0)
        inner = response_in(bytes(response.response_data), CreateTopicsRequest, 7)
        return inner.topics[0].error_code

    assert result("::2") == Error.TOPIC_AUTHORIZATION_FAILED
    assert result("::1") == Error.NONE


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"request_principal": None}, Error.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\0\0\x09"}, Error.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"123"}, Error.INVALID_REQUEST),
        ({"request_data": frame(ListGroupsRequest(), 4, 1, "c")}, Error.INVALID_REQUEST),
        ({"request_data": b"\0"}, Error.INVALID_REQUEST),
        ({"request_data": frame(create("t"), 7, 1, "c")[:-3]}, Error.INVALID_REQUEST),
    ],
)
def test_envelopes_that_cannot_be_opened_are_refused(kafka, change, error) -> None:
    request = replace_fields(envelope(serialized("a"), create("t"), 7), **change)
    assert ask(kafka, request, 0).error_code == error


def test_one_of_several_controllers_needs_the_id_of_its_cluster(tmp_path: Path) -> None:
    config = BrokerConfig.of(
        {
            "log.dirs": str(tmp_path),
            "process.roles": "controller",
            "node.id": "1",
            "controller.quorum.voters": "1@a:1,2@b:1,3@c:1",
            "listeners": "CONTROLLER://:1",
        }
    )
    with pytest.raises(UnusableDirectory, match="set CLUSTER_ID in the environment"):
        check_formatted(RealDisk(), config, None)
    check_formatted(RealDisk(), config, "given")
    (tmp_path / "meta.properties").write_text("version=1\n")
    check_formatted(RealDisk(), config, None)


def replace_fields(request, **changes):
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def test_only_the_broker_cordons_its_directories(kafka) -> None:
    """The controller knows of them at once, and may be asked itself to release one (KIP-1066)."""
    [directory] = kafka.broker.config.data_directories

    def alter(value: str, listener: str | None = None) -> int:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        config = resource.AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=value)
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=4, resource_name="1", configs=[config])]
        )
        exchange = kafka.begin(request, 1, listener=listener)
        assert exchange.is_done
        [answer] = exchange.response.responses
        return answer.error_code

    def cordoned() -> int:
        [broker] = kafka.broker.image.brokers.values()
        return len(broker.registration.cordoned_log_dirs)

    assert alter(directory, LISTENER) == Error.INVALID_CONFIG
    assert (alter(directory), cordoned()) == (Error.NONE, 1)
    assert alter(directory, LISTENER) == Error.NONE
    assert (alter("", LISTENER), cordoned()) == (Error.NONE, 0)


def test_a_controller_changes_levels_of_its_own_loggers_and_refuses_unknown_types(kafka) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    level = resource.AlterableConfig(name="kafka.server", config_operation=0, value="TRACE")

    def alter(*resources: tuple[int, str]) -> list[tuple[int, str | None]]:
        request = IncrementalAlterConfigsRequest(
            resources=[
                resource(resource_type=kind, resource_name=name, configs=[level])
                for kind, name in resources
            ],
            validate_only=True,
        )
        answers = ask(kafka, request, 1).responses
        return [(each.error_code, each.error_message) for each in answers]

    logger, unknown, repeated = (8, "1"), (99, "x"), (2, "t")
    assert alter(logger, unknown, repeated, repeated) == [
        (Error.NONE, None),
        (Error.UNSUPPORTED_VERSION, "Unknown resource type 99."),
        (Error.INVALID_REQUEST, "Duplicate resource."),
        (Error.INVALID_REQUEST, "Duplicate resource."),
    ]
    assert alter((8, "2")) == [
        (Error.INVALID_REQUEST, "Unexpected node id. Expected 1, but received 2")
    ]


def test_refusals_of_configs_at_a_controller_have_a_text(tmp_path: Path) -> None:
    kafka = InProcessBroker(
        tmp_path / "data",
        ManualClock(),
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:broker",
        **CONTROLLERS,
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [resource(resource_type=kind, resource_name="1") for kind in (4, 8)]
    request = IncrementalAlterConfigsRequest(resources=resources)
    answers = ask(kafka, request, 1, principal="User:alice").responses
    refused = (Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    assert [(each.error_code, each.error_message) for each in answers] == [refused] * 2


@pytest.mark.parametrize(
    ("option", "value"),
    [("listeners", "x"), ("listener.security.protocol.map", "x"), ("max.connections", "x")],
)
def test_a_node_goes_on_with_options_that_a_controller_has_stored_unchecked(
    kafka, option: str, value: str
) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(name=option, config_operation=0, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=4, resource_name="1", configs=[config])]
    )
    [answer] = ask(kafka, request, 1).responses
    assert answer.error_code == Error.NONE
    for listener in kafka.node.listeners:
        listener.review()
    assert ask(kafka, DescribeClusterRequest(endpoint_type=2), 1).error_code == Error.NONE
