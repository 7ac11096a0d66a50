"""WriteTxnMarkers: appends commit and abort markers for a transaction coordinator (KIP-98).

v2: transaction versions (KIP-1228).
"""

from __future__ import annotations

from collections.abc import Iterable

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.coordinator.transactions.markers import Ending
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.control import Marker
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from wirekafka.runtime.machine import Producer
from wirekafka.runtime.promise import Promise
from wirekafka.security.acl import ALTER, CLUSTER, CLUSTER_ACTION

_Written = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic = _Written.WritableTxnMarkerTopicResult


@api(WriteTxnMarkersRequest, WriteTxnMarkersResponse)
async def write_txn_markers(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    """Append each marker to its partitions; each has an error of its own.

    Responds once the markers are committed, and synced where the topic requires that, or with
    REQUEST_TIMED_OUT after `request.timeout.ms`: the coordinator then sends them again.
    """
    if not call.may(ALTER, CLUSTER):
        call.authorize(CLUSTER_ACTION, CLUSTER)
    written = [_write(marker, call) for marker in request.markers]
    # The partitions whose marker was lost; None after a timeout.
    settled: Promise[frozenset[tuple[str, int]]] = Promise()
    call.broker.markers.when_settled(
        {where for errors in written for where, error in errors.items() if error is Error.NONE},
        settled.set,
    )
    lost = await settled.within(call.broker.clock, call.broker.config.request_timeout_ms)
    for errors in written:
        for where, error in errors.items():
            if error is Error.NONE and lost is None:
                errors[where] = Error.REQUEST_TIMED_OUT
            elif error is Error.NONE and lost is not None and where in lost:
                errors[where] = Error.NOT_LEADER_OR_FOLLOWER
    return _response(request, written)


def _write(
    marker: WriteTxnMarkersRequest.WritableTxnMarker, call: Call
) -> dict[TopicPartition, Error]:
    ending = Ending(
        Producer(marker.producer_id, marker.producer_epoch),
        Marker(marker.transaction_result, marker.coordinator_epoch, call.now_ms),
        marker.transaction_version,
    )
    return call.broker.markers.write(
        ending,
        [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes],
    )


def _response(
    request: WriteTxnMarkersRequest, written: Iterable[dict[TopicPartition, Error]]
) -> WriteTxnMarkersResponse:
    """One result for each producer, as in Kafka; none without partitions."""
    producers: dict[int, dict[str, dict[int, Error]]] = {}
    for marker, errors in zip(request.markers, written, strict=True):
        for topic in marker.topics:
            for index in topic.partition_indexes:
                topics = producers.setdefault(marker.producer_id, {})
                topics.setdefault(topic.name, {})[index] = errors[topic.name, index]
    return WriteTxnMarkersResponse(
        markers=[
            _Written(
                producer_id=producer_id,
                topics=[_topic_result(name, errors) for name, errors in topics.items()],
            )
            for producer_id, topics in producers.items()
        ]
    )


def _topic_result(name: str, errors: dict[int, Error]) -> _Topic:
    kind = _Topic.WritableTxnMarkerPartitionResult
    return _Topic(
        name=name,
        partitions=[
            kind(partition_index=index, error_code=error) for index, error in errors.items()
        ],
    )


@failure_of(write_txn_markers)
def write_txn_markers_failure(
    request: WriteTxnMarkersRequest, error: KafkaError, call: Call
) -> WriteTxnMarkersResponse:
    """Report the error for every partition of the request."""
    failed = [
        {
            (topic.name, index): error.error
            for topic in marker.topics
            for index in topic.partition_indexes
        }
        for marker in request.markers
    ]
    return _response(request, failed)
