"""A request of each API for the comparison of responses under ACLs.

On the topic `t`, the group `g` and the transactional id `x` users have permissions, on others none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compat_tests import acl_group_cases
from compat_tests.acl_stage import Grant, Stage, acl, create_topics
from tests.in_process import batch
from wirekafka.codec.message import Request
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import Topic as AddedTopic
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.list_config_resources import ListConfigResourcesRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest
from wirekafka.protocol.list_transactions import ListTransactionsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.push_telemetry import PushTelemetryRequest
from wirekafka.protocol.sync_group import SyncGroupRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest
from wirekafka.security.acl import Operation, ResourceType

_ALLOW = 3
_TX = {"transactional_id": "x", "producer_id": 77, "producer_epoch": 0}
_MEMBER = {"group_id": "g", "member_id": "nobody", "generation_id": 1}


def _produce(stage: Stage, transactional: bool = False) -> Request:
    kind = ProduceRequest.TopicProduceData
    options = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    data = kind.PartitionProduceData(
        index=9, records=batch(b"v", **(options if transactional else {}))
    )
    return ProduceRequest(
        transactional_id="x" if transactional else None,
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            kind(name=name, topic_id=stage.ids[name], partition_data=[data]) for name in "tu"
        ],
    )


def _fetch(stage: Stage, replica: int = -1) -> Request:
    kind = FetchRequest.Topic
    part = kind.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        replica_id=replica,
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            kind(topic=name, topic_id=id, partitions=[part])
            for name, id in [*stage.ids.items(), ("missing", b"m" * 16)]
        ],
    )


def _commit(stage: Stage, request: type[Any], **fields: Any) -> Request:
    kind = request.Topic
    part = kind.Partition(partition_index=0, committed_offset=5, committed_metadata="")
    topics = [
        kind(name=name, topic_id=id, partitions=[part])
        for name, id in [*stage.ids.items(), ("missing", b"m" * 16)]
    ]
    made: Request = request(
        group_id="g", member_id="nobody", generation_id_or_member_epoch=1, topics=topics, **fields
    )
    return made


def _offset_fetch(stage: Stage, all_topics: bool = False) -> Request:
    kind = OffsetFetchRequest.Group
    names = [*stage.ids.items(), ("missing", b"m" * 16)]
    return OffsetFetchRequest(
        group_id="g",
        topics=None
        if all_topics
        else [OffsetFetchRequest.Topic(name=name, partition_indexes=[0]) for name, _ in names],
        groups=[
            kind(
                group_id="g",
                topics=None
                if all_topics
                else [
                    kind.Topics(name=name, topic_id=id, partition_indexes=[0]) for name, id in names
                ],
            )
        ],
    )


def _metadata(*names: str, **options: Any) -> Request:
    topic = MetadataRequest.Topic
    return MetadataRequest(
        topics=[topic(name=name) for name in names] if names else None,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
        **options,
    )


def _list_offsets(stage: Stage) -> Request:
    kind = ListOffsetsRequest.Topic
    part = kind.Partition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[kind(name=name, partitions=[part]) for name in ("t", "u", "missing")]
    )


def _epochs(stage: Stage) -> Request:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[kind(topic=name, partitions=[part]) for name in ("t", "u", "nope")]
    )


def _add_partitions(stage: Stage) -> Request:
    kind = AddPartitionsToTxnRequest.Transaction
    topics = [AddedTopic(name=name, partitions=[0]) for name in ("t", "u")]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=77,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
        transactions=[kind(**_TX, verify_only=True, topics=topics)],
    )


def _configs(request: type[Any], part: str, **fields: Any) -> Request:
    kind = getattr(request, part)
    made: Request = request(
        resources=[
            kind(resource_type=number, resource_name=name, **fields)
            for number, name in ((2, "t"), (2, "u"), (4, "1"), (8, "1"), (16, "m"), (32, "g"))
            if fields.get("configs") is None or number not in (4, 8)
        ]
    )
    return made


CASES: dict[str, Callable[[Stage], Request]] = {
    "produce": _produce,
    "transactional produce": lambda stage: _produce(stage, transactional=True),
    "fetch": _fetch,
    "list offsets": _list_offsets,
    "metadata of all": lambda _: _metadata(),
    "metadata by name": lambda _: _metadata("t", "u", "nope", allow_auto_topic_creation=False),
    "metadata by id": lambda stage: MetadataRequest(
        topics=[
            MetadataRequest.Topic(name=None, topic_id=id) for id in [*stage.ids.values(), b"m" * 16]
        ]
    ),
    "offset commit": lambda stage: _commit(stage, OffsetCommitRequest),
    "offset fetch": _offset_fetch,
    "offset fetch of all": lambda stage: _offset_fetch(stage, all_topics=True),
    "find a group": lambda _: FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"]),
    "find a transaction": lambda _: FindCoordinatorRequest(
        key="x", key_type=1, coordinator_keys=["x", "y"]
    ),
    "join": lambda _: JoinGroupRequest(
        group_id="g",
        member_id="nobody",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    ),
    "heartbeat": lambda _: HeartbeatRequest(**_MEMBER),
    "leave": lambda _: LeaveGroupRequest(
        group_id="g",
        member_id="nobody",
        members=[LeaveGroupRequest.MemberIdentity(member_id="nobody")],
    ),
    "sync": lambda _: SyncGroupRequest(**_MEMBER, protocol_type="consumer", protocol_name="range"),
    "describe groups": lambda _: DescribeGroupsRequest(
        groups=["g", "h"], include_authorized_operations=True
    ),
    "list groups": lambda _: ListGroupsRequest(),
    "delete groups": lambda _: DeleteGroupsRequest(groups_names=["g", "h"]),
    "create topics": lambda _: create_topics("t", "new", validate_only=True),
    "delete topics": lambda _: DeleteTopicsRequest(
        topic_names=["nope", "nope2"],
        topics=[
            DeleteTopicsRequest.DeleteTopicState(name="nope"),
            DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=b"m" * 16),
        ],
        timeout_ms=5000,
    ),
    "delete records": lambda _: DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.Topic(
                name=name,
                partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)],
            )
            for name in ("t", "u", "nope")
        ],
        timeout_ms=5000,
    ),
    "init producer id": lambda _: InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000
    ),
    "init a transaction": lambda _: InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=-1
    ),
    "epoch ends": _epochs,
    "add partitions": _add_partitions,
    "add offsets": lambda _: AddOffsetsToTxnRequest(**_TX, group_id="g"),
    "end transaction": lambda _: EndTxnRequest(**_TX, committed=True),
    "markers": lambda _: WriteTxnMarkersRequest(markers=[]),
    "transactional commit": lambda stage: _commit(stage, TxnOffsetCommitRequest, **_TX),
    "describe acls": lambda _: DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter="t",
        principal_filter="User:TOPIC_READ",
        host_filter=None,
        operation=1,
        permission_type=1,
    ),
    "create acls": lambda _: CreateAclsRequest(
        creations=[acl("TOPIC_READ", Grant(ResourceType.TOPIC, Operation.READ, _ALLOW), "t")]
    ),
    "delete acls": lambda _: DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.Filter(
                resource_type_filter=2,
                resource_name_filter="nothing",
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    ),
    "describe configs": lambda _: _configs(
        DescribeConfigsRequest, "Resource", configuration_keys=["retention.ms"]
    ),
    "alter configs": lambda _: AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.Resource(resource_type=kind, resource_name=name)
            for kind, name in ((2, "t"), (2, "u"), (4, ""))
        ],
        validate_only=True,
    ),
    "alter configs incrementally": lambda _: IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind, resource_name=name
            )
            for kind, name in ((2, "t"), (2, "u"), (4, ""), (8, "1"), (32, "g"), (16, "m"))
        ],
        validate_only=True,
    ),
    "describe log dirs": lambda _: DescribeLogDirsRequest(topics=[]),
    "alter log dirs": lambda _: AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path="/nowhere",
                topics=[
                    AlterReplicaLogDirsRequest.AlterReplicaLogDir.AlterReplicaLogDirTopic(
                        name="t", partitions=[0]
                    )
                ],
            )
        ]
    ),
    "create partitions": lambda _: CreatePartitionsRequest(
        topics=[
            CreatePartitionsRequest.Topic(name=name, count=3, assignments=None)
            for name in ("t", "u", "nope")
        ],
        timeout_ms=5000,
        validate_only=True,
    ),
    "elect leaders": lambda _: ElectLeadersRequest(
        election_type=0,
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])],
        timeout_ms=5000,
    ),
    "reassign": lambda _: AlterPartitionReassignmentsRequest(topics=[], timeout_ms=5000),
    "list reassignments": lambda _: ListPartitionReassignmentsRequest(topics=None, timeout_ms=5000),
    "delete offsets": lambda _: OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequest.Topic(
                name=name, partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=0)]
            )
            for name in ("t", "u", "nope")
        ],
    ),
    "describe quotas": lambda _: DescribeClientQuotasRequest(),
    "alter quotas": lambda _: AlterClientQuotasRequest(entries=[], validate_only=True),
    "describe users": lambda _: DescribeUserScramCredentialsRequest(users=[]),
    "alter users": lambda _: AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="nobody", mechanism=1)
        ]
    ),
    "describe quorum": lambda _: DescribeQuorumRequest(topics=[]),
    "update features": lambda _: UpdateFeaturesRequest(
        feature_updates=[], timeout_ms=5000, validate_only=True
    ),
    "describe cluster": lambda _: DescribeClusterRequest(
        include_cluster_authorized_operations=True
    ),
    "describe producers": lambda _: DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[0])
            for name in ("t", "u", "nope")
        ]
    ),
    "unregister a broker": lambda _: UnregisterBrokerRequest(broker_id=99),
    "describe transactions": lambda _: DescribeTransactionsRequest(transactional_ids=["x", "y"]),
    "list transactions": lambda _: ListTransactionsRequest(),
    "consumer heartbeat": lambda _: ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="nobody", member_epoch=1, subscribed_topic_names=["t"]
    ),
    "describe consumer groups": lambda _: ConsumerGroupDescribeRequest(
        group_ids=["g", "h"], include_authorized_operations=True
    ),
    # Without an ACL, as in Kafka: after the first, its other clients ask too soon.
    "telemetry subscriptions": lambda _: GetTelemetrySubscriptionsRequest(
        client_instance_id=bytes(range(16))
    ),
    "push telemetry": lambda _: PushTelemetryRequest(client_instance_id=bytes(16)),
    "list config resources": lambda _: ListConfigResourcesRequest(resource_types=[2]),
    "describe topic partitions": lambda _: DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in ("t", "u", "no")]
    ),
    "describe all topics": lambda _: DescribeTopicPartitionsRequest(topics=[]),
    **acl_group_cases.CASES,
}


FIRST = {"metadata of all": 1, "metadata by id": 12, "offset fetch of all": 2}
"""The first version that can make the request."""
