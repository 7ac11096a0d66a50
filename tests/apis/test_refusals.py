"""Clients without permissions, and malformed requests, get the responses of Apache Kafka 4.4.0.

Each is compared with a running Apache Kafka by `compat_tests/test_refusals.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.message import Request
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

ADMIN, NOBODY = "User:admin", "User:nobody"
LISTENERS = ("PLAINTEXT", "CONTROLLER")
LATER = 99
"""The code of a type that only a later Kafka could know."""


@pytest.fixture(scope="module")
def secured() -> Iterator[InProcessBroker]:
    kafka = InProcessBroker(
        "/data",
        ManualClock(),
        disk=SimulatedDisk(),
        process_roles="broker,controller",
        node_id="1",
        controller_listener_names="CONTROLLER",
        controller_quorum_voters="1@controller.test:9093",
        listeners="PLAINTEXT://broker.test:9092,CONTROLLER://controller.test:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:admin;User:ANONYMOUS",
    )
    kafka.create("t")
    yield kafka
    kafka.stop()


def ask(
    kafka: InProcessBroker,
    principal: str,
    request: Request,
    version: int | None = None,
    listener: str = "PLAINTEXT",
) -> Any:
    """The response in the latest version, or None if the connection was closed."""
    latest = type(request).versions.last if version is None else version
    exchange = kafka.begin(request, latest, listener=listener, principal=principal)
    assert exchange.is_done
    assert exchange.closes_connection is (exchange.response is None)
    return exchange.response


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_refused_reassignment_names_every_partition(
    secured: InProcessBroker, listener: str
) -> None:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    partitions = [topic.ReassignablePartition(partition_index=index) for index in (0, 7)]
    request = AlterPartitionReassignmentsRequest(
        topics=[topic(name="t", partitions=partitions), topic(name="missing")]
    )
    refused = ask(secured, NOBODY, request, listener=listener)
    needs = "Request AlterPartitionReassignments needs ALTER permission."
    assert (refused.error_code, refused.error_message) == (
        Error.CLUSTER_AUTHORIZATION_FAILED,
        needs,
    )
    [known, missing] = refused.responses
    assert (known.name, missing.name, missing.partitions) == ("t", "missing", [])
    assert [
        (each.partition_index, each.error_code, each.error_message) for each in known.partitions
    ] == [(index, Error.CLUSTER_AUTHORIZATION_FAILED, needs) for index in (0, 7)]


def test_a_refused_list_of_reassignments_repeats_the_partitions(secured: InProcessBroker) -> None:
    topic = ListPartitionReassignmentsRequest.Topics(name="t", partition_indexes=[0, 7])
    refused = ask(secured, NOBODY, ListPartitionReassignmentsRequest(topics=[topic]))
    assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
    [listed] = refused.topics
    assert [(each.partition_index, each.replicas) for each in listed.partitions] == [
        (0, []),
        (7, []),
    ]
    refused = ask(secured, NOBODY, ListPartitionReassignmentsRequest(topics=None))
    assert (refused.error_code, refused.topics) == (Error.CLUSTER_AUTHORIZATION_FAILED, [])


def test_a_refused_description_of_users_has_a_result_for_each(secured: InProcessBroker) -> None:
    names = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in ("a", "b")]
    refused = ask(secured, NOBODY, DescribeUserScramCredentialsRequest(users=names))
    assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
    assert [(each.user, each.error_code) for each in refused.results] == [
        ("", Error.CLUSTER_AUTHORIZATION_FAILED)
    ] * 2


def described(**types: int) -> DescribeAclsRequest:
    known = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3}
    return DescribeAclsRequest(**{**known, "permission_type": 3, **types})


def created(**types: int) -> CreateAclsRequest:
    known = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    named = {"resource_name": "t", "principal": "User:x", "host": "*"}
    return CreateAclsRequest(
        creations=[CreateAclsRequest.AclCreation(**named, **{**known, **types})]
    )


def deleted(**types: int) -> DeleteAclsRequest:
    known = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3}
    wanted = DeleteAclsRequest.Filter(**{**known, "permission_type": 3, **types})
    return DeleteAclsRequest(filters=[wanted])


@pytest.mark.parametrize("listener", LISTENERS)
def test_acls_of_types_of_a_later_kafka_are_refused_after_authorization(
    secured: InProcessBroker, listener: str
) -> None:
    def answer(principal: str, request: Request) -> Any:
        return ask(secured, principal, request, listener=listener)

    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        refused = answer(NOBODY, described(**{field: LATER}))
        assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
        found = answer(ADMIN, described(**{field: LATER}))
        assert (found.error_code, found.resources) == (Error.NONE, [])
        part = "patternFilter" if field.endswith("filter") else "entryFilter"
        [refused] = answer(NOBODY, deleted(**{field: LATER})).filter_results
        assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
        [result] = answer(ADMIN, deleted(**{field: LATER})).filter_results
        assert (result.error_code, result.error_message) == (
            Error.INVALID_REQUEST,
            f"Unknown {part}.",
        )
    for field, name in {
        "resource_type": "resourceType",
        "resource_pattern_type": "patternType",
        "operation": "operation",
        "permission_type": "permissionType",
    }.items():
        [refused] = answer(NOBODY, created(**{field: LATER})).results
        assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
        [result] = answer(ADMIN, created(**{field: LATER})).results
        assert (result.error_code, result.error_message) == (
            Error.INVALID_REQUEST,
            f"Invalid {name} UNKNOWN",
        )


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("principal", [ADMIN, NOBODY])
@pytest.mark.parametrize(
    "request_of_type_0",
    [
        *(described(**{field: 0}) for field in ("resource_type_filter", "operation")),
        *(created(**{field: 0}) for field in ("resource_pattern_type", "permission_type")),
        *(deleted(**{field: 0}) for field in ("pattern_type_filter", "permission_type")),
    ],
    ids=str,
)
def test_the_type_0_in_an_acl_closes_the_connection(
    secured: InProcessBroker, listener: str, principal: str, request_of_type_0: Request
) -> None:
    assert ask(secured, principal, request_of_type_0, listener=listener) is None


def test_an_entry_with_the_same_quota_twice_is_refused(secured: InProcessBroker) -> None:
    entry = AlterClientQuotasRequest.EntryData
    entity = [entry.EntityData(entity_type="user", entity_name="alice")]
    rates = [entry.OpData(key="producer_byte_rate", value=value) for value in (1.0, 2.0)]
    request = AlterClientQuotasRequest(entries=[entry(entity=entity, ops=rates)])
    [result] = ask(secured, ADMIN, request).entries
    assert (result.error_code, result.error_message) == (
        Error.INVALID_REQUEST,
        "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})",
    )
    [result] = ask(secured, NOBODY, request).entries
    assert (result.error_code, result.error_message) == (
        Error.CLUSTER_AUTHORIZATION_FAILED,
        "Cluster authorization failed.",
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_quota_is_a_finite_number(secured: InProcessBroker, value: float) -> None:
    entry = AlterClientQuotasRequest.EntryData
    for name in ("producer_byte_rate", "request_percentage"):
        entity = [entry.EntityData(entity_type="user", entity_name="alice")]
        ops = [entry.OpData(key=name, value=value)]
        request = AlterClientQuotasRequest(entries=[entry(entity=entity, ops=ops)])
        [result] = ask(secured, ADMIN, request).entries
        assert (result.error_code, result.error_message) == (
            Error.INVALID_REQUEST,
            f"Quota {name} must be a finite number",
        )


def test_the_type_of_an_entity_is_checked_before_how_it_matches(secured: InProcessBroker) -> None:
    component = DescribeClientQuotasRequest.ComponentData(entity_type="planet", match_type=LATER)
    answer = ask(secured, ADMIN, DescribeClientQuotasRequest(components=[component]))
    assert answer.error_code == Error.UNSUPPORTED_VERSION


def test_a_scram_credential_of_an_empty_hash_is_refused(secured: InProcessBroker) -> None:
    """Whoever knows that it is empty could log in as the user."""
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b""
    )
    [result] = ask(secured, ADMIN, AlterUserScramCredentialsRequest(upsertions=[upsertion])).results
    assert result.error_code == Error.UNACCEPTABLE_CREDENTIAL
    assert not secured.broker.image.security.scram


def test_an_unknown_share_group_is_reported_before_topics_are_refused(
    secured: InProcessBroker,
) -> None:
    acl = CreateAclsRequest.AclCreation(
        resource_type=3,
        resource_name="g",
        principal="User:cleaner",
        host="*",
        operation=6,
        permission_type=3,
    )
    [created] = ask(secured, ADMIN, CreateAclsRequest(creations=[acl])).results
    assert created.error_code == Error.NONE
    ask(
        secured, ADMIN, FindCoordinatorRequest(coordinator_keys=["g"])
    )  # Creates the groups' topic.
    topic = DeleteShareGroupOffsetsRequest.Topic(topic_name="t")
    request = DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic])
    answer = ask(secured, "User:cleaner", request)
    assert (answer.error_code, answer.responses) == (Error.GROUP_ID_NOT_FOUND, [])


def test_a_broker_that_migrates_from_zookeeper_is_not_registered(secured: InProcessBroker) -> None:
    request = BrokerRegistrationRequest(
        broker_id=7,
        cluster_id=secured.broker.cluster_id,
        incarnation_id=bytes(range(16)),
        is_migrating_zk_broker=True,
    )
    answer = ask(secured, ADMIN, request, listener="CONTROLLER")
    assert answer.error_code == Error.BROKER_ID_NOT_REGISTERED
    assert 7 not in secured.broker.image.brokers


@pytest.mark.parametrize("level", [-1, 2, 127])
def test_an_unknown_isolation_level_matters_only_where_there_is_something_to_read(
    secured: InProcessBroker, level: int
) -> None:
    topic_id = secured.broker.image.topics["t"].id
    fetched = FetchRequest.Topic(
        topic_id=topic_id, partitions=[FetchRequest.Topic.Partition(partition_max_bytes=1000)]
    )
    fetch = FetchRequest(isolation_level=level, topics=[fetched])
    refused = ask(secured, NOBODY, fetch)
    assert refused.error_code == Error.NONE
    [partition] = refused.responses[0].partitions
    assert partition.error_code == Error.TOPIC_AUTHORIZATION_FAILED
    assert ask(secured, ADMIN, fetch).error_code == Error.UNKNOWN_SERVER_ERROR
    listed = ListOffsetsRequest.Topic(
        name="t", partitions=[ListOffsetsRequest.Topic.Partition(timestamp=-1)]
    )
    offsets = ListOffsetsRequest(isolation_level=level, topics=[listed])
    for principal, error in (
        (NOBODY, Error.TOPIC_AUTHORIZATION_FAILED),
        (ADMIN, Error.UNKNOWN_SERVER_ERROR),
    ):
        [partition] = ask(secured, principal, offsets).topics[0].partitions
        assert partition.error_code == error


def test_invalid_topic_names_are_no_secret_to_those_who_may_not_describe_producers(
    secured: InProcessBroker,
) -> None:
    topic = DescribeProducersRequest.TopicRequest(name="t/", partition_indexes=[0])
    answer = ask(secured, NOBODY, DescribeProducersRequest(topics=[topic]))
    [partition] = answer.topics[0].partitions
    assert partition.error_code == Error.INVALID_TOPIC_EXCEPTION


def test_a_resource_of_an_unknown_type_spoils_a_description_of_configs(
    secured: InProcessBroker,
) -> None:
    resources = [
        DescribeConfigsRequest.Resource(resource_type=kind, resource_name="t") for kind in (2, 99)
    ]
    answer = ask(secured, ADMIN, DescribeConfigsRequest(resources=resources))
    assert [each.error_code for each in answer.results] == [Error.INVALID_REQUEST] * 2


def test_requests_without_a_field_that_their_version_needs_are_malformed_for_everyone(
    secured: InProcessBroker,
) -> None:
    sync = SyncGroupRequest(group_id="g", protocol_type=None, protocol_name="range")
    assert ask(secured, NOBODY, sync).error_code == Error.INCONSISTENT_GROUP_PROTOCOL
    share = ShareFetchRequest(group_id=None, member_id="")
    assert ask(secured, NOBODY, share).error_code == Error.INVALID_REQUEST


def test_controllers_describe_the_cluster_to_those_who_may_alter_it(
    secured: InProcessBroker,
) -> None:
    request = DescribeClusterRequest(endpoint_type=2)
    refused = ask(secured, NOBODY, request, listener="CONTROLLER")
    assert (refused.error_code, refused.error_message, refused.brokers) == (
        Error.CLUSTER_AUTHORIZATION_FAILED,
        "Request DescribeCluster needs ALTER permission.",
        [],
    )
    assert ask(secured, ADMIN, request, listener="CONTROLLER").error_code == Error.NONE
