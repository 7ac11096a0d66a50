"""TxnOffsetCommit: commits offsets within a transaction;
v3: group fencing (KIP-447), v5: adds the partition itself (KIP-890).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String, field
from wirekafka.coordinator.group_commands import CommitTransactionOffsets, OffsetToCommit
from wirekafka.coordinator.groups import OFFSETS_TOPIC
from wirekafka.coordinator.transaction_commands import ProducerIdentity
from wirekafka.coordinator.transactions import Support, TransactionalWrite
from wirekafka.errors import Error, KafkaError


class TxnOffsetCommitRequest(Request, key=28, versions="0-5", flexible="3+"):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[Topic]

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("2+", default=-1)
            committed_metadata: String | None = field(default="")


class TxnOffsetCommitResponse(Response, answers=TxnOffsetCommitRequest):
    throttle_time_ms: Int32
    topics: list[Topic]

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            error_code: Int16


_NOT_AVAILABLE_BEFORE = 2
_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5


@api(TxnOffsetCommitRequest, TxnOffsetCommitResponse)
async def txn_offset_commit(
    request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse:
    """Commit offsets within a transaction; each partition has an error of its own."""
    kind = TxnOffsetCommitResponse.Topic
    topics, places, offsets = [], [], []
    for told in request.topics:
        known = call.broker.image.topics.get(told.name)
        answer = kind(name=told.name, partitions=[])
        topics.append(answer)
        for each in told.partitions:
            index = each.partition_index
            if known is not None and index in known.partitions:
                places.append(answer.partitions)
                offsets.append(OffsetToCommit(
                    told.name, index, each.committed_offset, each.committed_leader_epoch,
                    each.committed_metadata or "", known.id))
            else:
                answer.partitions.append(kind.Partition(
                    partition_index=index, error_code=Error.UNKNOWN_TOPIC_OR_PARTITION))
    errors = await _commit(request, offsets, call) if offsets else []
    for partitions, offset, error_code in zip(places, offsets, errors, strict=True):
        partitions.append(kind.Partition(
            partition_index=offset.partition, error_code=error_code))
    return TxnOffsetCommitResponse(topics=[topic for topic in topics if topic.partitions])


async def _commit(
    request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], call: Call
) -> list[Error]:
    try:
        await _confirm(request, call)
        errors: list[Error] = await call.broker.groups.submit(
            request.group_id, CommitTransactionOffsets(
                group_id=request.group_id,
                generation_id=request.generation_id,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                offsets=offsets,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
            ))
    except KafkaError as failure:
        error = failure.error
        if call.version < _NOT_AVAILABLE_BEFORE and error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            # Producers before 2.0 take loading for a fatal error.
            error = Error.COORDINATOR_NOT_AVAILABLE
        return [error] * len(offsets)
    return errors


async def _confirm(request: TxnOffsetCommitRequest, call: Call) -> None:
    """See that the group's offsets are part of the open transaction (KIP-890)."""
    if not request.group_id:
        raise KafkaError(Error.INVALID_GROUP_ID)
    where = OFFSETS_TOPIC, call.broker.groups.partition_for(request.group_id)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    log = call.broker.partition(*where).log
    if log.producers.has_open_transaction(*producer):
        return
    support = (Support.ADDS if call.version >= _ADDS_SINCE
               else Support.TELLS_ABORTABLE if call.version >= _ABORTABLE_SINCE
               else Support.EXPLICIT)
    refused = await call.broker.transactions.confirm(TransactionalWrite(
        request.transactional_id, producer, frozenset({where}), support))
    if where in refused:
        error = refused[where]
        if error.error is Error.NOT_ENOUGH_REPLICAS:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE)
        raise error


def txn_offset_commit_failure(request: TxnOffsetCommitRequest, error: KafkaError,
                              call: Call) -> TxnOffsetCommitResponse:
    """Every partition fails alike."""
    answered = TxnOffsetCommitResponse.Topic
    return TxnOffsetCommitResponse(topics=[
        answered(name=topic.name, partitions=[
            answered.Partition(partition_index=each.partition_index, error_code=error.error)
            for each in topic.partitions])
        for topic in request.topics])
