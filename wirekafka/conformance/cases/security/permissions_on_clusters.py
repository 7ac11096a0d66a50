"""What users with few permissions may do with clusters: ACLs, quotas, users, features, brokers."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.cases.security.permission_cases import USER, PermittedRequest, books_of
from wirekafka.conformance.cases.security.users import Deletion, acl, acl_filter
from wirekafka.conformance.stage import Stage
from wirekafka.errors import Error
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wirekafka.protocol.list_config_resources import ListConfigResourcesRequest
from wirekafka.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest
from wirekafka.protocol.push_telemetry import PushTelemetryRequest
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest
from wirekafka.security.acl import READ, TOPIC

_NO_BROKER = 99


def _describe_acls(stage: Stage) -> Request:
    return acl_filter(principal=f"User:{stage.name(USER)}", kind=TOPIC)


def _create_acls(stage: Stage) -> Request:
    principal = f"User:{stage.name('nobody')}"
    return CreateAclsRequest(creations=[acl(principal, TOPIC, stage.name("t"), READ)])


def _delete_acls(stage: Stage) -> Request:
    kind = DeleteAclsRequest.Filter
    found = kind(
        resource_type_filter=TOPIC,
        resource_name_filter=stage.missing,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return DeleteAclsRequest(filters=[found])


def _describe_quotas(stage: Stage) -> Request:
    kind = DescribeClientQuotasRequest.ComponentData
    user = kind(entity_type="user", match_type=0, match=stage.name("nobody"))
    return DescribeClientQuotasRequest(components=[user], strict=True)


def _describe_users(stage: Stage) -> Request:
    kind = DescribeUserScramCredentialsRequest.UserName
    return DescribeUserScramCredentialsRequest(users=[kind(name=stage.name("nobody"))])


def _alter_users(stage: Stage) -> Request:
    deletions = [Deletion(name=stage.name("nobody"), mechanism=1)]
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[])


def _alter_directories(stage: Stage) -> Request:
    kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topics = [kind.AlterReplicaLogDirTopic(name=stage.topic, partitions=[0])]
    return AlterReplicaLogDirsRequest(dirs=[kind(path="/nowhere", topics=topics)])


def _list_reassignments(stage: Stage) -> Request:
    kind = ListPartitionReassignmentsRequest.Topics
    topics = [kind(name=stage.missing, partition_indexes=[0])]
    return ListPartitionReassignmentsRequest(topics=topics, timeout_ms=5000)


def _code(stage: Stage, answer: Any) -> object:
    return Error.of(answer.error_code).name


def _operations(stage: Stage, answer: Any) -> object:
    return {
        "error": Error.of(answer.error_code).name,
        "operations": answer.cluster_authorized_operations,
    }


def _directories(stage: Stage, answer: Any) -> object:
    return {"error": Error.of(answer.error_code).name, "has directories": bool(answer.results)}


BOOKS = books_of(
    [
        PermittedRequest(
            "",
            DescribeAclsRequest,
            _describe_acls,
            "cluster DESCRIBE, cluster ALTER, cluster DESCRIBE_CONFIGS, -cluster DESCRIBE",
        ),
        PermittedRequest(
            "", CreateAclsRequest, _create_acls, "cluster ALTER, cluster CREATE, -cluster ALTER"
        ),
        PermittedRequest(
            "", DeleteAclsRequest, _delete_acls, "cluster ALTER, cluster DELETE, -cluster ALTER"
        ),
        PermittedRequest(
            "",
            DescribeClientQuotasRequest,
            _describe_quotas,
            "cluster DESCRIBE_CONFIGS, cluster ALTER_CONFIGS, cluster DESCRIBE",
        ),
        PermittedRequest(
            "",
            AlterClientQuotasRequest,
            lambda _: AlterClientQuotasRequest(entries=[], validate_only=True),
            "cluster ALTER_CONFIGS, cluster ALTER",
        ),
        PermittedRequest(
            "",
            DescribeUserScramCredentialsRequest,
            _describe_users,
            "cluster DESCRIBE, cluster ALTER, cluster DESCRIBE_CONFIGS",
        ),
        PermittedRequest(
            "",
            AlterUserScramCredentialsRequest,
            _alter_users,
            "cluster ALTER, cluster ALTER_CONFIGS, -cluster ALTER",
        ),
        PermittedRequest(
            "",
            DescribeLogDirsRequest,
            lambda _: DescribeLogDirsRequest(topics=[]),
            "cluster DESCRIBE, cluster ALTER, topic DESCRIBE",
            show=_directories,
        ),
        PermittedRequest(
            "",
            AlterReplicaLogDirsRequest,
            _alter_directories,
            "cluster ALTER, cluster CLUSTER_ACTION, -cluster ALTER",
        ),
        PermittedRequest(
            "",
            AlterPartitionReassignmentsRequest,
            lambda _: AlterPartitionReassignmentsRequest(topics=[], timeout_ms=5000),
            "cluster ALTER, topic ALTER, -cluster ALTER",
        ),
        PermittedRequest(
            "",
            ListPartitionReassignmentsRequest,
            _list_reassignments,
            "cluster DESCRIBE, topic DESCRIBE, -cluster DESCRIBE",
        ),
        PermittedRequest(
            "",
            DescribeQuorumRequest,
            lambda _: DescribeQuorumRequest(topics=[]),
            "cluster DESCRIBE, cluster CLUSTER_ACTION, -cluster DESCRIBE",
            show=_code,
        ),
        PermittedRequest(
            "",
            UpdateFeaturesRequest,
            lambda _: UpdateFeaturesRequest(
                feature_updates=[], timeout_ms=5000, validate_only=True
            ),
            "cluster ALTER, cluster ALTER_CONFIGS",
        ),
        PermittedRequest(
            "",
            DescribeClusterRequest,
            lambda _: DescribeClusterRequest(include_cluster_authorized_operations=True),
            "cluster DESCRIBE, cluster ALTER, cluster IDEMPOTENT_WRITE, -cluster DESCRIBE",
            show=_operations,
        ),
        PermittedRequest(
            "",
            UnregisterBrokerRequest,
            lambda _: UnregisterBrokerRequest(broker_id=_NO_BROKER),
            "cluster ALTER, cluster CLUSTER_ACTION",
        ),
        PermittedRequest(
            "metrics of clients",
            ListConfigResourcesRequest,
            lambda _: ListConfigResourcesRequest(resource_types=[16]),
            "cluster DESCRIBE_CONFIGS, cluster ALTER_CONFIGS, cluster DESCRIBE",
            show=_code,
        ),
        PermittedRequest(
            "without an id",
            PushTelemetryRequest,
            lambda _: PushTelemetryRequest(client_instance_id=bytes(16)),
            "",
        ),
    ]
)
