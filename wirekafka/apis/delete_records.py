"""DeleteRecords: moves the start of partitions forward, dropping what is before it (KIP-107)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String
from wirekafka.errors import Error, KafkaError


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[Topic]
    timeout_ms: Int32

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            offset: Int64


class DeleteRecordsResponse(Response, answers=DeleteRecordsRequest):
    throttle_time_ms: Int32
    topics: list[TopicResult]

    class TopicResult(Part):
        name: String
        partitions: list[PartitionResult]

        class PartitionResult(Part):
            partition_index: Int32
            low_watermark: Int64
            error_code: Int16


_TopicResult = DeleteRecordsResponse.TopicResult
_PartitionResult = _TopicResult.PartitionResult


@api(DeleteRecordsRequest, DeleteRecordsResponse)
def delete_records(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    """Move the start of logs up, giving up the records before it."""
    return DeleteRecordsResponse(topics=[
        _TopicResult(name=topic.name, partitions=[
            _delete(topic.name, asked, call)
            for asked in {each.partition_index: each for each in topic.partitions}.values()])
        for topic in request.topics])


def _delete(topic: str, asked: DeleteRecordsRequest.Topic.Partition,
            call: Call) -> _PartitionResult:
    index = asked.partition_index
    try:
        partition = call.broker.partition(topic, index)
        if partition.is_internal:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION)
        if not partition.log.config.is_deleted:
            raise KafkaError(Error.POLICY_VIOLATION)
        low_watermark = partition.delete_records(asked.offset)
    except KafkaError as error:
        return _PartitionResult(partition_index=index, low_watermark=-1, error_code=error.error)
    return _PartitionResult(partition_index=index, low_watermark=low_watermark, error_code=0)


def delete_records_failure(request: DeleteRecordsRequest, error: KafkaError,
                           call: Call) -> DeleteRecordsResponse:
    """Every partition fails alike."""
    return DeleteRecordsResponse(topics=[
        _TopicResult(name=topic.name, partitions=[
            _PartitionResult(partition_index=asked.partition_index, low_watermark=-1,
                             error_code=error.error)
            for asked in topic.partitions])
        for topic in request.topics])
