"""What users with few permissions may do with groups and transactions."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.cases.security.permission_cases import (
    PermittedRequest,
    books_of,
    granted_group,
    granted_transaction,
    other_group,
)
from wirekafka.conformance.cases.security.permissions_on_topics import topics_of
from wirekafka.conformance.stage import GROUP, TRANSACTION, PreparationFailed, Stage
from wirekafka.errors import Error
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import Topic as AddedTopic
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.list_transactions import ListTransactionsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.sync_group import SyncGroupRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest

_NOBODY = "nobody"
_TIMEOUT_MS = 60_000


def _ids(stage: Stage) -> list[tuple[str, bytes]]:
    return [(name, stage.id_of(name)) for name in topics_of(stage)]


def _commit(stage: Stage, request: type[Any], **fields: Any) -> Request:
    kind = request.Topic
    part = kind.Partition(partition_index=0, committed_offset=5, committed_metadata="")
    topics = [kind(name=name, topic_id=id, partitions=[part]) for name, id in _ids(stage)]
    made: Request = request(
        group_id=granted_group(stage),
        member_id=_NOBODY,
        generation_id_or_member_epoch=1,
        topics=topics,
        **fields,
    )
    return made


def _without_topic_id(stage: Stage) -> Request:
    kind = TxnOffsetCommitRequest.Topic
    part = kind.Partition(partition_index=0, committed_offset=5, committed_metadata="")
    return TxnOffsetCommitRequest(
        **_transaction(stage),
        group_id=granted_group(stage),
        member_id=_NOBODY,
        generation_id_or_member_epoch=1,
        topics=[kind(name=name, topic_id=id, partitions=[part]) for name, id in _ids(stage)],
    )


def _commit_offsets(stage: Stage) -> None:
    """Offsets of a group without members, so that the group exists."""
    kind = OffsetCommitRequest.Topic
    part = kind.Partition(partition_index=0, committed_offset=2, committed_metadata="")
    topics = [kind(name=name, partitions=[part]) for name in topics_of(stage, missing=False)]
    request = OffsetCommitRequest(
        group_id=granted_group(stage), generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    answer = stage.do(request, 8)
    for topic in answer.topics:
        if topic.partitions[0].error_code:
            raise PreparationFailed(f"OffsetCommit: {topic.partitions[0].error_code}")


def _offset_fetch(stage: Stage, *, all_topics: bool = False) -> Request:
    kind = OffsetFetchRequest.Group
    single, several = OffsetFetchRequest.Topic, kind.Topics
    names = _ids(stage)
    return OffsetFetchRequest(
        group_id=granted_group(stage),
        topics=None
        if all_topics
        else [single(name=name, partition_indexes=[0]) for name, _ in names],
        groups=[
            kind(
                group_id=granted_group(stage),
                topics=None
                if all_topics
                else [several(name=name, topic_id=id, partition_indexes=[0]) for name, id in names],
            )
        ],
    )


def _member(stage: Stage) -> dict[str, Any]:
    return {"group_id": granted_group(stage), "member_id": _NOBODY, "generation_id": 1}


def _join(stage: Stage) -> Request:
    return JoinGroupRequest(
        group_id=granted_group(stage),
        member_id=_NOBODY,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )


def _leave(stage: Stage) -> Request:
    kind = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=granted_group(stage), member_id=_NOBODY, members=[kind(member_id=_NOBODY)]
    )


def _groups(stage: Stage) -> list[str]:
    return [granted_group(stage), other_group(stage)]


def _own_groups(stage: Stage, answer: Any) -> object:
    """Whether the case's group is listed: the groups of other cases come and go."""
    listed = [each.group_id for each in answer.groups]
    return {"error": Error.of(answer.error_code).name, "listed": granted_group(stage) in listed}


def _delete_offsets(stage: Stage) -> Request:
    kind = OffsetDeleteRequest.Topic
    part = kind.Partition(partition_index=0)
    topics = [kind(name=name, partitions=[part]) for name in topics_of(stage)]
    return OffsetDeleteRequest(group_id=granted_group(stage), topics=topics)


def _coordinators(stage: Stage, answer: Any) -> object:
    found = getattr(answer, "coordinators", None) or [answer]
    return [Error.of(each.error_code).name for each in found]


def _find(stage: Stage, kind: int, *keys: str) -> Request:
    return FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=list(keys))


def _transaction(stage: Stage) -> dict[str, Any]:
    return {"transactional_id": granted_transaction(stage), "producer_id": 77, "producer_epoch": 0}


def _begin(stage: Stage) -> None:
    """The transactional id, so that there is something to list and to describe."""
    request = InitProducerIdRequest(
        transactional_id=granted_transaction(stage), transaction_timeout_ms=_TIMEOUT_MS
    )
    answer = stage.do(request, 4)
    if answer.error_code:
        raise PreparationFailed(f"InitProducerId: {Error.of(answer.error_code).name}")


def _add_partitions(stage: Stage) -> Request:
    kind = AddPartitionsToTxnRequest.Transaction
    topics = [AddedTopic(name=name, partitions=[0]) for name in topics_of(stage, missing=False)]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=granted_transaction(stage),
        v3_and_below_producer_id=77,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
        transactions=[kind(**_transaction(stage), verify_only=True, topics=topics)],
    )


def _own_transactions(stage: Stage, answer: Any) -> object:
    listed = [each.transactional_id for each in answer.transaction_states]
    return {
        "error": Error.of(answer.error_code).name,
        "listed": granted_transaction(stage) in listed,
    }


def _of_transactions(stage: Stage) -> int:
    return stage.coordinator(TRANSACTION, granted_transaction(stage))


def _of_groups(stage: Stage) -> int:
    return stage.coordinator(GROUP, granted_group(stage))


_READ_GROUP = "group READ, group DESCRIBE, -group READ"
_OFFSETS = "group READ, topic READ, -group READ, -topic READ"

BOOKS = books_of(
    [
        PermittedRequest(
            "", OffsetCommitRequest, lambda s: _commit(s, OffsetCommitRequest), _OFFSETS
        ),
        PermittedRequest(
            "",
            OffsetFetchRequest,
            _offset_fetch,
            "group DESCRIBE, topic DESCRIBE, group READ, -group DESCRIBE, -topic DESCRIBE",
            prepare=_commit_offsets,
        ),
        PermittedRequest(
            "of all topics",
            OffsetFetchRequest,
            lambda stage: _offset_fetch(stage, all_topics=True),
            "group DESCRIBE, -group DESCRIBE, -topic DESCRIBE",
            first=2,
            prepare=_commit_offsets,
        ),
        PermittedRequest(
            "of groups",
            FindCoordinatorRequest,
            lambda stage: _find(stage, 0, *_groups(stage)),
            "group DESCRIBE, group READ, group DELETE, -group DESCRIBE",
            show=_coordinators,
        ),
        PermittedRequest(
            "of transactions",
            FindCoordinatorRequest,
            lambda stage: _find(stage, 1, granted_transaction(stage), stage.name("y")),
            "transaction DESCRIBE, transaction WRITE, -transaction DESCRIBE",
            first=1,
            show=_coordinators,
        ),
        PermittedRequest("", JoinGroupRequest, _join, _READ_GROUP),
        PermittedRequest(
            "", HeartbeatRequest, lambda s: HeartbeatRequest(**_member(s)), "group READ"
        ),
        PermittedRequest("", LeaveGroupRequest, _leave, "group READ, group DELETE, -group READ"),
        PermittedRequest(
            "",
            SyncGroupRequest,
            lambda s: SyncGroupRequest(
                **_member(s), protocol_type="consumer", protocol_name="range"
            ),
            _READ_GROUP,
        ),
        PermittedRequest(
            "",
            DescribeGroupsRequest,
            lambda s: DescribeGroupsRequest(groups=_groups(s), include_authorized_operations=True),
            "group DESCRIBE, group READ, group DELETE, cluster DESCRIBE, -group DESCRIBE",
            prepare=_commit_offsets,
        ),
        PermittedRequest(
            "",
            ListGroupsRequest,
            lambda _: ListGroupsRequest(),
            "group DESCRIBE, group READ, cluster DESCRIBE, -cluster DESCRIBE",
            prepare=_commit_offsets,
            at=_of_groups,
            show=_own_groups,
        ),
        PermittedRequest(
            "",
            DeleteGroupsRequest,
            lambda stage: DeleteGroupsRequest(groups_names=_groups(stage)),
            "group DELETE, group READ, -group DELETE",
            prepare=_commit_offsets,
        ),
        PermittedRequest(
            "",
            OffsetDeleteRequest,
            _delete_offsets,
            "group DELETE, topic READ, -group DELETE, -topic READ",
            prepare=_commit_offsets,
        ),
        PermittedRequest(
            "",
            ConsumerGroupHeartbeatRequest,
            lambda stage: ConsumerGroupHeartbeatRequest(
                group_id=granted_group(stage),
                member_id=_NOBODY,
                member_epoch=1,
                subscribed_topic_names=[stage.topic],
            ),
            "group READ, topic DESCRIBE, -topic DESCRIBE",
        ),
        PermittedRequest(
            "to another topic",
            ConsumerGroupHeartbeatRequest,
            lambda stage: ConsumerGroupHeartbeatRequest(
                group_id=granted_group(stage),
                member_id=_NOBODY,
                member_epoch=1,
                subscribed_topic_names=topics_of(stage),
            ),
            "group READ",
        ),
        PermittedRequest(
            "",
            ConsumerGroupDescribeRequest,
            lambda s: ConsumerGroupDescribeRequest(
                group_ids=_groups(s), include_authorized_operations=True
            ),
            "group DESCRIBE, group READ, -group DESCRIBE",
        ),
        PermittedRequest(
            "without a transaction",
            InitProducerIdRequest,
            lambda _: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
            "cluster IDEMPOTENT_WRITE, topic WRITE, topic READ, -cluster IDEMPOTENT_WRITE, "
            "-topic WRITE",
        ),
        PermittedRequest(
            "with a transaction",
            InitProducerIdRequest,
            lambda stage: InitProducerIdRequest(
                transactional_id=granted_transaction(stage), transaction_timeout_ms=-1
            ),
            "transaction WRITE, transaction DESCRIBE, cluster IDEMPOTENT_WRITE, -transaction WRITE",
        ),
        PermittedRequest(
            "",
            AddPartitionsToTxnRequest,
            _add_partitions,
            "transaction WRITE, topic WRITE, cluster CLUSTER_ACTION, -transaction WRITE, "
            "-topic WRITE, -cluster CLUSTER_ACTION",
        ),
        PermittedRequest(
            "",
            AddOffsetsToTxnRequest,
            lambda s: AddOffsetsToTxnRequest(**_transaction(s), group_id=granted_group(s)),
            "transaction WRITE, group READ, -transaction WRITE, -group READ",
        ),
        PermittedRequest(
            "",
            EndTxnRequest,
            lambda stage: EndTxnRequest(**_transaction(stage), committed=True),
            "transaction WRITE, transaction DESCRIBE, -transaction WRITE",
        ),
        PermittedRequest(
            "",
            WriteTxnMarkersRequest,
            lambda _: WriteTxnMarkersRequest(markers=[]),
            "cluster CLUSTER_ACTION, cluster ALTER, -cluster CLUSTER_ACTION",
        ),
        PermittedRequest(
            "",
            TxnOffsetCommitRequest,
            _without_topic_id,
            "transaction WRITE, group READ, topic READ, -transaction WRITE, -group READ, "
            "-topic READ",
        ),
        PermittedRequest(
            "",
            DescribeTransactionsRequest,
            lambda s: DescribeTransactionsRequest(transactional_ids=[granted_transaction(s)]),
            "transaction DESCRIBE, transaction WRITE, -transaction DESCRIBE",
            prepare=_begin,
        ),
        PermittedRequest(
            "",
            ListTransactionsRequest,
            lambda _: ListTransactionsRequest(),
            "transaction DESCRIBE, cluster DESCRIBE, -transaction DESCRIBE",
            prepare=_begin,
            at=_of_transactions,
            show=_own_transactions,
        ),
    ]
)
