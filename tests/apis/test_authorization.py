"""Requests that a broker with an authorizer allows, and refuses once ACLs have changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apis.test_fetch import fetch_request, only
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.message import Request
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.replication.partition.replica import Leadership

_ADMIN, _ALICE = "User:admin", "User:alice"
_WRITE = 4


class SecuredBroker(InProcessBroker):
    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(
            "/data",
            ManualClock(),
            disk=disk,
            **{"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": _ADMIN},
        )

    def ask(self, principal: str, request: Request, version: int) -> Any:
        return self.begin(request, version, "test", principal=principal).response

    def produce(self, name: str = "t") -> Any:
        kind = ProduceRequest.TopicProduceData
        data = kind.PartitionProduceData(index=0, records=batch(b"v"))
        request = ProduceRequest(
            acks=1, timeout_ms=100, topic_data=[kind(name=name, partition_data=[data])]
        )
        answer = self.ask(_ALICE, request, 9)
        return Error(answer.responses[0].partition_responses[0].error_code)

    def allow_writes(self, host: str = "*", name: str = "t") -> None:
        acl = CreateAclsRequest.AclCreation(
            resource_type=2,
            resource_name=name,
            principal=_ALICE,
            host=host,
            operation=_WRITE,
            permission_type=3,
        )
        answer = self.ask(_ADMIN, CreateAclsRequest(creations=[acl, acl]), 3)
        assert [each.error_code for each in answer.results] == [0, 0]

    def acls(self) -> list[Any]:
        request = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        return [
            (resource.resource_name, acl.principal, acl.operation)
            for resource in self.ask(_ADMIN, request, 3).resources
            for acl in resource.acls
        ]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def kafka(disk: SimulatedDisk) -> Iterator[SecuredBroker]:
    made = SecuredBroker(disk)
    made.create("t")
    yield made
    made.stop()


def test_a_repeated_produce_is_refused_as_soon_as_its_acl_is_deleted(kafka: SecuredBroker) -> None:
    assert kafka.produce() is Error.TOPIC_AUTHORIZATION_FAILED
    kafka.allow_writes()
    assert [kafka.produce() for _ in range(3)] == [Error.NONE] * 3
    everything = DeleteAclsRequest.Filter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    [deleted] = kafka.ask(_ADMIN, DeleteAclsRequest(filters=[everything]), 3).filter_results
    assert [each.principal for each in deleted.matching_acls] == [_ALICE]
    assert kafka.produce() is Error.TOPIC_AUTHORIZATION_FAILED
    assert kafka.partition("t").log.end_offset == 3


def test_existing_and_missing_topics_get_the_same_error_without_describe_permission(
    kafka: SecuredBroker,
) -> None:
    topics = [MetadataRequest.Topic(name=name) for name in ("t", "missing")]
    answer = kafka.ask(_ALICE, MetadataRequest(topics=topics), 12)
    assert {(each.error_code, each.topic_id) for each in answer.topics} == {
        (Error.TOPIC_AUTHORIZATION_FAILED, bytes(16))
    }
    assert kafka.ask(_ALICE, MetadataRequest(topics=None), 12).topics == []


def test_the_audit_log_counts_how_often_a_request_names_a_topic(
    kafka: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kafka.allow_writes(name="missing")  # which allows to describe the topic as well
    topics = [MetadataRequest.Topic(name=name) for name in ("t", "missing")]
    kafka.ask(_ALICE, MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    denials = [line.split(" based on ")[0] for line in caplog.messages if " is Denied " in line]
    assert [line.partition(" is Denied operation = ")[2] for line in denials] == [
        f"{operation} from host = {kafka.net.client_host} on resource = Topic:LITERAL:{name} "
        "for request = Metadata with resourceRefCount = 1"
        for operation, name in (("DESCRIBE", "t"), ("CREATE", "missing"))
    ]


def test_acls_name_ipv6_hosts_as_java_writes_them(
    kafka: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kafka.net.client_host = "::1"
    kafka.allow_writes("::1")
    assert kafka.produce() is Error.TOPIC_AUTHORIZATION_FAILED, "as in Kafka, other text"
    assert "from host = 0:0:0:0:0:0:0:1 on resource" in caplog.text
    kafka.allow_writes("0:0:0:0:0:0:0:1")
    assert kafka.produce() is Error.NONE


def test_acls_outlive_a_restart(kafka: SecuredBroker, disk: SimulatedDisk) -> None:
    kafka.allow_writes()
    before = kafka.acls()
    assert before == [("t", _ALICE, _WRITE)]
    kafka.stop()
    again = SecuredBroker(disk)
    assert again.acls() == before
    assert again.produce() is Error.NONE
    again.stop()


def test_clients_without_permission_cannot_create_acls(kafka: SecuredBroker) -> None:
    acl = CreateAclsRequest.AclCreation(
        resource_type=2,
        resource_name="t",
        principal=_ALICE,
        host="*",
        operation=2,
        permission_type=3,
    )
    [refused] = kafka.ask(_ALICE, CreateAclsRequest(creations=[acl]), 3).results
    assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
    assert kafka.acls() == []


def test_idle_partitions_of_a_follower_are_refused_once_it_may_not_follow(
    kafka: SecuredBroker,
) -> None:
    partition = kafka.partition("t")
    partition.lead(Leadership(leader_id=1, leader_epoch=1, isr=(1, 2), replicas=(1, 2)))
    opened = kafka.ask(_ADMIN, follower_fetch((partition.topic_id, 0, 0, 1)), 17)
    session = {"session_id": opened.session_id}
    for epoch in (1, 2):
        answer = kafka.ask(_ADMIN, follower_fetch(**session, session_epoch=epoch), 17)
        assert answer.responses == []
    kafka.clock.advance(1_000)
    refused = kafka.ask(_ALICE, follower_fetch(**session, session_epoch=3), 17)
    assert only(refused).error_code == Error.TOPIC_AUTHORIZATION_FAILED
    assert partition.leading().followers[2].caught_up_ms < kafka.clock.now_ms()


def follower_fetch(*wanted: tuple[Any, ...], **options: int) -> FetchRequest:
    """A request of broker 2, which opens a session unless there is one among the options."""
    replica = FetchRequest.ReplicaState(replica_id=2)
    return fetch_request(*wanted, replica_state=replica, **{"session_epoch": 0, **options})
