"""Requests of the APIs that brokers serve to clients, of which one value at a time is replaced.

Names and ids stand for names of the run, which `values` puts in their place. None of the requests,
nor any variant that is sent, changes what others have: topics and groups do not exist, or a request
is to be validated only, or refers to a partition that the shared topic does not have.
"""

from __future__ import annotations

from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.hostile import filled
from wirekafka.conformance.stage import UNKNOWN_ID, batch
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
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
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.sync_group import SyncGroupRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

TOPIC = "t"
"""Stands for the shared topic."""
TOPIC_ID = b"t" * 16
"""Stands for the id of the shared topic."""
_NO_ID = bytes(16)
_MEMBER = "6ZGGfVUxQGmvg2Hc4gKGXw"
_OF_TOPICS = 2
"""The type of configurations."""
_NUMBERED: dict[str, Any] = {"resource_type": _OF_TOPICS, "resource_name": TOPIC}
_RETENTION: dict[str, Any] = {"name": "retention.ms", "value": "1000"}
_PROTOCOL: dict[str, Any] = {
    "protocol_type": "consumer",
    "group_instance_id": None,
    "session_timeout_ms": 30_000,
}
_ON_JOINING: dict[str, Any] = {
    "member_id": _MEMBER,
    "instance_id": None,
    "rack_id": None,
    "server_assignor": None,
    "subscribed_topic_regex": None,
}

_VALUES: dict[type[Request], dict[str, Any]] = {
    AddOffsetsToTxnRequest: {},
    AddPartitionsToTxnRequest: {"name": TOPIC, "verify_only": True},
    AlterClientQuotasRequest: {"entity_type": "user", "key": "producer_byte_rate", "value": 1.0},
    AlterConfigsRequest: {**_NUMBERED, **_RETENTION},
    AlterPartitionReassignmentsRequest: {},
    AlterReplicaLogDirsRequest: {"path": "/nowhere"},
    # Too few iterations: no user is made.
    AlterUserScramCredentialsRequest: {"mechanism": 1, "iterations": 4095, "deletions": []}
    | {"salt": b"salt", "salted_password": b"p" * 32},
    ConsumerGroupDescribeRequest: {},
    ConsumerGroupHeartbeatRequest: {
        **_ON_JOINING,
        "topic_partitions": [],
        "rebalance_timeout_ms": 60_000,
    },
    CreatePartitionsRequest: {"name": TOPIC, "count": 3, "assignments": None},
    CreateTopicsRequest: {"num_partitions": 0, "replication_factor": 1}
    | {"assignments": [], "configs": []},
    DeleteGroupsRequest: {},
    DeleteRecordsRequest: {},
    DeleteShareGroupOffsetsRequest: {"topic_name": TOPIC},
    DeleteTopicsRequest: {"topic_id": _NO_ID},
    DescribeClientQuotasRequest: {"entity_type": "user"},
    DescribeClusterRequest: {},
    DescribeConfigsRequest: {**_NUMBERED, "configuration_keys": ["retention.ms"]},
    DescribeGroupsRequest: {},
    DescribeLogDirsRequest: {},
    DescribeProducersRequest: {"name": TOPIC},
    DescribeQuorumRequest: {},
    DescribeShareGroupOffsetsRequest: {},
    DescribeTopicPartitionsRequest: {"name": TOPIC, "topic_name": TOPIC},
    DescribeTransactionsRequest: {},
    DescribeUserScramCredentialsRequest: {},
    ElectLeadersRequest: {},
    EndTxnRequest: {},
    FetchRequest: {
        "topic_id": TOPIC_ID,
        "partition_max_bytes": 1000,
        "max_wait_ms": 0,
        "forgotten_topics_data": [],
    },
    FindCoordinatorRequest: {},
    HeartbeatRequest: {"group_instance_id": None},
    IncrementalAlterConfigsRequest: {**_NUMBERED, **_RETENTION},
    InitProducerIdRequest: {"transactional_id": None, "transaction_timeout_ms": 1000},
    JoinGroupRequest: _PROTOCOL,
    LeaveGroupRequest: {"group_instance_id": None},
    ListGroupsRequest: {},
    ListOffsetsRequest: {"name": TOPIC, "timestamp": -1},
    ListPartitionReassignmentsRequest: {},
    ListTransactionsRequest: {},
    MetadataRequest: {"topic_id": _NO_ID, "name": TOPIC},
    OffsetCommitRequest: {"topic_id": TOPIC_ID, "name": TOPIC},
    OffsetDeleteRequest: {"name": TOPIC},
    OffsetFetchRequest: {"topic_id": TOPIC_ID, "name": TOPIC, "member_id": None},
    OffsetForLeaderEpochRequest: {"topic": TOPIC, "current_leader_epoch": -1},
    ProduceRequest: {
        "transactional_id": None,
        "acks": -1,
        "topic_id": TOPIC_ID,
        "name": TOPIC,
        "index": 9,
        "records": batch(),
    },
    ShareAcknowledgeRequest: {"topic_id": TOPIC_ID, "member_id": _MEMBER, "share_session_epoch": 1},
    ShareFetchRequest: {"topic_id": TOPIC_ID, "member_id": _MEMBER, "share_session_epoch": 1},
    ShareGroupDescribeRequest: {},
    ShareGroupHeartbeatRequest: _ON_JOINING,
    StreamsGroupDescribeRequest: {},
    StreamsGroupHeartbeatRequest: {
        **_ON_JOINING,
        "rebalance_timeout_ms": 60_000,
        "topology": None,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "task_offsets": [],
        "task_end_offsets": [],
        "member_epoch": 1,
    },
    SyncGroupRequest: _PROTOCOL,
    TxnOffsetCommitRequest: {"topic_id": TOPIC_ID, "name": TOPIC, "group_instance_id": None},
}

REQUESTS: tuple[Request, ...] = tuple(
    filled(kind, **values) if "topic_id" in values else filled(kind, topic_id=UNKNOWN_ID, **values)
    for kind, values in _VALUES.items()
)
"""A request of each API, before anything in it is replaced."""

_NEWEST_OF_3_9 = {
    "Produce": 11,
    "Fetch": 17,
    "ListOffsets": 9,
    "Metadata": 12,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "DescribeGroups": 5,
    "EndTxn": 4,
    "TxnOffsetCommit": 4,
    "DescribeLogDirs": 4,
    "DeleteGroups": 2,
    "AlterPartitionReassignments": 0,
    "DescribeCluster": 1,
    "ListTransactions": 1,
    "ConsumerGroupDescribe": 0,
    "StreamsGroupHeartbeat": 0,
    "StreamsGroupDescribe": 0,
}
"""The newest versions that Kafka 3.9 or else 4.3 knows, where Kafka 4.4 has a newer one."""


def versions_of(kind: type[Request]) -> str:
    """The versions in which the requests of an API are sent."""
    newest = str(kind.versions.last)
    older = _NEWEST_OF_3_9.get(kind.__name__.removesuffix("Request"))
    return newest if older is None else f"{older},{newest}"
