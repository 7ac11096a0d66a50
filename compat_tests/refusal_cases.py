"""Requests of each API, of which hostile variants are compared with Apache Kafka.

The user `nobody` has no permission, `narrow` all on what begins with `t`, `g` and `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from compat_tests import acl_cases
from compat_tests.acl_stage import Grant, Stage
from compat_tests.secured import ADMIN
from tests.in_process import batch
from wirekafka.apis.shared.registry import Api
from wirekafka.apis.shared.routes import Routes
from wirekafka.codec.message import Request
from wirekafka.conformance.hostile import filled
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.security.acl import Operation, PatternType, ResourceType

Case = Callable[[Stage], Request]
_ALLOW = 3
GRANTS = {
    "nobody": [],
    "narrow": [
        Grant(kind, Operation.ALL, _ALLOW, PatternType.PREFIXED)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    ],
}
USERS = (*GRANTS, ADMIN)
_FIRST = {"filled Metadata": 4, "metadata by name": 4}
"""Earlier versions create topics."""

_OFTEN_DIFFERENT = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})
"""APIs whose answers depend on when a client last asked."""
_OF_A_MEMBER = (
    *("join", "share heartbeat", "describe share groups", "share fetch", "share acknowledge"),
    *("streams heartbeat", "filled ShareFetch", "filled ShareAcknowledge"),
)
"""The beginnings of cases that change the state of members or sessions, if they are allowed."""
_FATAL = frozenset(
    {
        *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Envelope", "FetchSnapshot"),
        *("BrokerRegistration", "ControllerRegistration", "UnregisterBroker", "UpdateFeatures"),
        *("UnregisterController", "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"),
    }
)
"""APIs with which the administrator, but nobody else, could end the cluster."""


def cases(stage: Stage, routes: Routes) -> dict[str, Case]:
    """The requests for the listeners of brokers or controllers, by name."""
    served = [api for api in routes.served() if api.name not in _OFTEN_DIFFERENT]
    kinds = {api.request for api in served}
    found: dict[str, Case] = {f"filled {api.name}": partial(_filled, api) for api in served}
    for name, case in {**acl_cases.CASES, **_MORE}.items():
        if type(case(stage)) in kinds:
            found[name] = case
    return found


def write_a_record(stage: Stage) -> None:
    """Write a record to the topic `t`."""
    topic = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            topic(
                topic_id=stage.ids["t"],
                partition_data=[topic.PartitionProduceData(index=0, records=batch(b"v"))],
            )
        ],
    )
    answer = stage.users.ask(ADMIN, request, ProduceRequest.versions.last)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def users_of(case: str, api: Api) -> Iterator[str]:
    """The users who make the requests of a case."""
    for user in USERS:
        if user != "nobody" and case.startswith(_OF_A_MEMBER):
            continue
        if user == ADMIN and api.name in _FATAL:
            continue
        yield user


def first_version(case: str, request: type[Request]) -> int:
    """The first version that can make the request of a case."""
    return max(request.versions.first, {**acl_cases.FIRST, **_FIRST}.get(case, 0))


def _filled(api: Api, stage: Stage) -> Request:
    made: Request = filled(api.request, acks=-1)
    return made


def _changed_users(stage: Stage) -> Request:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )
    return AlterUserScramCredentialsRequest(upsertions=[upsertion])


def _changed_quotas(stage: Stage) -> Request:
    entry = AlterClientQuotasRequest.EntryData
    entity = [entry.EntityData(entity_type="user", entity_name="alice")]
    ops = [entry.OpData(key="producer_byte_rate", value=1.0)]
    return AlterClientQuotasRequest(entries=[entry(entity=entity, ops=ops)], validate_only=True)


def _quotas_of_a_user(stage: Stage) -> Request:
    component = DescribeClientQuotasRequest.ComponentData(
        entity_type="user", match_type=0, match="alice"
    )
    return DescribeClientQuotasRequest(components=[component])


def _share_offsets(group: str, *topics: str) -> Case:
    topic = DeleteShareGroupOffsetsRequest.Topic
    named = [topic(topic_name=name) for name in topics]
    return lambda stage: DeleteShareGroupOffsetsRequest(group_id=group, topics=named)


def _reassigned(stage: Stage) -> Request:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    partitions = [topic.ReassignablePartition(partition_index=0, replicas=[1])]
    return AlterPartitionReassignmentsRequest(topics=[topic(name="t", partitions=partitions)])


def _deleted_acls(stage: Stage) -> Request:
    nobodys = DeleteAclsRequest.Filter(
        resource_type_filter=2,
        resource_name_filter="t",
        principal_filter="User:of no ACL",
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return DeleteAclsRequest(filters=[nobodys])


def _registration(stage: Stage) -> Request:
    kind = BrokerRegistrationRequest
    return kind(
        broker_id=7,
        cluster_id="another cluster",
        incarnation_id=b"i" * 16,
        listeners=[kind.Listener(name="PLAINTEXT", host="h", port=9, security_protocol=0)],
        features=[
            kind.Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
        ],
        log_dirs=[b"d" * 16],
    )


_MORE: dict[str, Case] = {
    "change users": _changed_users,
    "change quotas": _changed_quotas,
    "quotas of a user": _quotas_of_a_user,
    "delete share offsets of an unknown group": _share_offsets("g-unknown", "t", "u"),
    "delete share offsets of a group with members": _share_offsets("shared", "u"),
    "reassign a partition": _reassigned,
    # In place of one that could delete the ACLs of the users.
    "delete acls": _deleted_acls,
    "register a broker": _registration,
}
