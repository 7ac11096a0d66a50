"""TxnOffsetCommit: commits the offsets of a group within a transaction (KIP-98).

v3: group fencing (KIP-447), v4: TRANSACTION_ABORTABLE, v5: adds the partition to the transaction
(both KIP-890), v6: topic ids (KIP-1319).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.topic_access import topics_by_id, topics_by_name
from wirekafka.coordinator.groups.commands import CommitTransactionOffsets, OffsetToCommit
from wirekafka.coordinator.transactions.commands import ProducerIdentity
from wirekafka.coordinator.transactions.confirmation import Support, TransactionalWrite
from wirekafka.errors import Error, KafkaError
from wirekafka.log.verification import CoordinatorWrite
from wirekafka.metadata.image.image import TopicImage
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.security.acl import GROUP, READ, TRANSACTIONAL_ID, WRITE

_NOT_AVAILABLE_BEFORE = 2
_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5
_TOPIC_IDS_SINCE = 6


@api(TxnOffsetCommitRequest, TxnOffsetCommitResponse)
async def txn_offset_commit(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    """Commit offsets within a transaction; each partition has an error of its own."""
    call.authorize(WRITE, TRANSACTIONAL_ID, request.transactional_id)
    call.authorize(READ, GROUP, request.group_id)
    kind = TxnOffsetCommitResponse.Topic
    topics, places, offsets = [], [], []
    by_id = call.version >= _TOPIC_IDS_SINCE
    found = (topics_by_id if by_id else topics_by_name)(request.topics, READ, call)
    for topic, known in zip(request.topics, found, strict=True):
        result = kind(name=topic.name, topic_id=topic.topic_id, partitions=[])
        topics.append(result)
        for each in topic.partitions:
            index = each.partition_index
            if isinstance(known, TopicImage) and index in known.partitions:
                places.append(result.partitions)
                offsets.append(
                    OffsetToCommit(
                        known.name,
                        index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata or "",
                        known.id,
                    )
                )
            else:
                missing = Error.UNKNOWN_TOPIC_OR_PARTITION
                result.partitions.append(
                    kind.Partition(
                        partition_index=index,
                        error_code=known if isinstance(known, Error) else missing,
                    )
                )
    errors = await _commit(request, offsets, call) if offsets else []
    for partitions, offset, error_code in zip(places, offsets, errors, strict=True):
        partitions.append(kind.Partition(partition_index=offset.partition, error_code=error_code))
    return TxnOffsetCommitResponse(topics=[each for each in topics if each.partitions])


async def _commit(
    request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], call: Call
) -> list[Error]:
    try:
        await _confirm(request, call)
        errors: list[Error] = await call.broker.groups.submit(
            request.group_id,
            CommitTransactionOffsets(
                group_id=request.group_id,
                generation_id=request.generation_id_or_member_epoch,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                offsets=offsets,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                version=call.version,
            ),
        )
    except KafkaError as failure:
        error = failure.error
        if call.version < _NOT_AVAILABLE_BEFORE and error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            # Producers before 2.0 treat COORDINATOR_LOAD_IN_PROGRESS as fatal.
            error = Error.COORDINATOR_NOT_AVAILABLE
        return [error] * len(offsets)
    return errors


async def _confirm(request: TxnOffsetCommitRequest, call: Call) -> None:
    """Verify that the group's partition is part of the transaction, or add it (KIP-890)."""
    if not request.group_id:
        raise KafkaError(Error.INVALID_GROUP_ID)
    groups = call.broker.groups
    groups.shard_for(request.group_id)
    where = OFFSETS_TOPIC, groups.partition_for(request.group_id)
    partition = call.broker.partition(*where)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    support = (
        Support.ADDS
        if call.version >= _ADDS_SINCE
        else Support.KNOWS_ABORTABLE
        if call.version >= _ABORTABLE_SINCE
        else Support.EXPLICIT
    )
    guard = partition.leading().begin_verification(
        CoordinatorWrite(*producer), supports_epoch_bump=support is Support.ADDS
    )
    if guard is None:
        return
    refused = await call.broker.transactions.confirmations.confirm(
        TransactionalWrite(request.transactional_id, producer, frozenset({where}), support)
    )
    if where in refused:
        error = refused[where]
        if error.error is Error.NOT_ENOUGH_REPLICAS:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE)
        raise error
    groups.shard_for(request.group_id)  # Leadership may have moved meanwhile.
    if not partition.leading().is_verified(producer.producer_id, guard):
        # A marker was written after the coordinator's response: the transaction has ended.
        raise KafkaError(Error.INVALID_TXN_STATE)


@failure_of(txn_offset_commit)
def txn_offset_commit_failure(
    request: TxnOffsetCommitRequest, error: KafkaError, call: Call
) -> TxnOffsetCommitResponse:
    """Report the error for every partition of the request."""
    kind = TxnOffsetCommitResponse.Topic
    return TxnOffsetCommitResponse(
        topics=[
            kind(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    kind.Partition(partition_index=each.partition_index, error_code=error.error)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
