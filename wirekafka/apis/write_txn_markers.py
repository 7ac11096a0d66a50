"""WriteTxnMarkers: writes commit and abort markers on behalf of a coordinator (KIP-98);
v2: transaction version (KIP-1228).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)
from wirekafka.coordinator.markers import Ending, TopicPartition
from wirekafka.errors import Error, KafkaError
from wirekafka.log.control import Marker
from wirekafka.replication.machine import Producer
from wirekafka.replication.promise import Promise


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker]

    class WritableTxnMarker(Part):
        producer_id: Int64
        producer_epoch: Int16
        transaction_result: Bool
        topics: list[WritableTxnMarkerTopic]
        coordinator_epoch: Int32
        transaction_version: Int8 = field("2+")

        class WritableTxnMarkerTopic(Part):
            name: String
            partition_indexes: list[Int32]


class WriteTxnMarkersResponse(Response, answers=WriteTxnMarkersRequest):
    markers: list[WritableTxnMarkerResult]

    class WritableTxnMarkerResult(Part):
        producer_id: Int64
        topics: list[WritableTxnMarkerTopicResult]

        class WritableTxnMarkerTopicResult(Part):
            name: String
            partitions: list[WritableTxnMarkerPartitionResult]

            class WritableTxnMarkerPartitionResult(Part):
                partition_index: Int32
                error_code: Int16


_Written = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic = _Written.WritableTxnMarkerTopicResult


@api(WriteTxnMarkersRequest, WriteTxnMarkersResponse)
async def write_txn_markers(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    """Append each marker to its partitions; each has an error of its own.

    The answer is for markers that are committed: synced too where the topic asks for that.
    """
    written = [_write(told, call) for told in request.markers]
    settled = Promise()
    call.broker.markers.when_settled(
        {where for errors in written for where, error in errors.items() if error is Error.NONE},
        settled.set)
    for where in await settled:
        for errors in written:
            if errors.get(where) is Error.NONE:
                errors[where] = Error.NOT_LEADER_OR_FOLLOWER
    return WriteTxnMarkersResponse(markers=[
        _answer(told, errors) for told, errors in zip(request.markers, written, strict=True)])


def _write(told: WriteTxnMarkersRequest.WritableTxnMarker,
           call: Call) -> dict[TopicPartition, Error]:
    ending = Ending(
        Producer(told.producer_id, told.producer_epoch),
        Marker(told.transaction_result, told.coordinator_epoch, call.now_ms),
        told.transaction_version)
    return call.broker.markers.write(
        ending, [(topic.name, index) for topic in told.topics for index in topic.partition_indexes])


def _answer(told: WriteTxnMarkersRequest.WritableTxnMarker,
            errors: dict[TopicPartition, Error]) -> _Written:
    return _Written(producer_id=told.producer_id, topics=[
        _Topic(name=topic.name, partitions=[
            _Topic.WritableTxnMarkerPartitionResult(
                partition_index=index, error_code=errors[topic.name, index])
            for index in topic.partition_indexes])
        for topic in told.topics])


def write_txn_markers_failure(request: WriteTxnMarkersRequest, error: KafkaError,
                              call: Call) -> WriteTxnMarkersResponse:
    """Every partition fails alike."""
    return WriteTxnMarkersResponse(markers=[
        _Written(producer_id=marker.producer_id, topics=[
            _Topic(name=topic.name, partitions=[
                _Topic.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=error.error)
                for index in topic.partition_indexes])
            for topic in marker.topics])
        for marker in request.markers])
