"""DeleteRecords: deletes records by advancing the log start offset of partitions (KIP-107)."""

from __future__ import annotations

from functools import partial

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from wirekafka.replication.partition.partition import Partition as LocalPartition
from wirekafka.replication.partition.waiting import Watched
from wirekafka.security.acl import DELETE, TOPIC

_TopicResult = DeleteRecordsResponse.TopicResult
_PartitionResult = _TopicResult.PartitionResult


@api(DeleteRecordsRequest, DeleteRecordsResponse)
async def delete_records(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    """Advance log start offsets; respond when every live replica has deleted the records."""
    turns = Turns()
    names = (topic.name for topic in request.topics)
    may_delete = await turns.authorized(call, DELETE, TOPIC, names)
    deleting: list[_Deleting] = []
    response = DeleteRecordsResponse()
    by_topic: dict[str, dict[int, DeleteRecordsRequest.Topic.Partition]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            by_topic.setdefault(topic.name, {})[each.partition_index] = each
        await turns.step()
    for name, requested in by_topic.items():
        delete = _delete if name in may_delete else _refuse
        partitions = await turns.map(partial(delete, name, call, deleting), requested.values())
        response.topics.append(_TopicResult(name=name, partitions=partitions))
        await turns.step()
    waiting = [each for each in deleting if not each.settle()]
    return await _delete_everywhere(request, response, waiting, call) if waiting else response


class _Deleting:
    """A partition that deleted its records on the leader, perhaps not yet on the followers."""

    def __init__(self, partition: LocalPartition, before_offset: int, result: _PartitionResult):
        self.partition = partition
        self._before_offset = before_offset
        self._result = result

    def settle(self) -> bool:
        """Update the result; return whether it is final."""
        leader, result = self.partition.leader, self._result
        if leader is None:
            result.low_watermark, result.error_code = -1, Error.NOT_LEADER_OR_FOLLOWER
            return True
        result.low_watermark = min(leader.low_watermark, self.partition.start_offset)
        is_done = result.low_watermark >= self._before_offset
        result.error_code = Error.NONE if is_done else Error.REQUEST_TIMED_OUT
        return is_done


async def _delete_everywhere(
    request: DeleteRecordsRequest,
    response: DeleteRecordsResponse,
    waiting: list[_Deleting],
    call: Call,
) -> DeleteRecordsResponse:
    def is_done(_: Watched) -> bool:
        waiting[:] = [each for each in waiting if not each.settle()]
        return not waiting

    await call.broker.waiting.until(
        is_done, [each.partition for each in waiting], call.now_ms + request.timeout_ms
    )
    return response


def _refuse(
    topic: str,
    call: Call,
    deleting: list[_Deleting],
    requested: DeleteRecordsRequest.Topic.Partition,
) -> _PartitionResult:
    return _PartitionResult(
        partition_index=requested.partition_index,
        low_watermark=-1,
        error_code=Error.TOPIC_AUTHORIZATION_FAILED,
    )


def _delete(
    topic: str,
    call: Call,
    deleting: list[_Deleting],
    requested: DeleteRecordsRequest.Topic.Partition,
) -> _PartitionResult:
    index = requested.partition_index
    try:
        partition = call.broker.partition(topic, index)
        if partition.is_internal:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION)
        if not partition.log.config.is_deleted:
            raise KafkaError(Error.POLICY_VIOLATION)
        before_offset = partition.delete_records(requested.offset)
    except KafkaError as error:
        return _PartitionResult(partition_index=index, low_watermark=-1, error_code=error.error)
    result = _PartitionResult(partition_index=index, low_watermark=-1, error_code=0)
    deleting.append(_Deleting(partition, before_offset, result))
    return result


@failure_of(delete_records)
def delete_records_failure(
    request: DeleteRecordsRequest, error: KafkaError, call: Call
) -> DeleteRecordsResponse:
    """Report the error for every partition of the request."""
    return DeleteRecordsResponse(
        topics=[
            _TopicResult(
                name=topic.name,
                partitions=[
                    _PartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=-1,
                        error_code=error.error,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
