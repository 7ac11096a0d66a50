"""WriteTxnMarkers: the shape of answers as Kafka 4.4.0 gave them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.in_process import InProcessBroker
from wirekafka.errors import Error
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest

_Marker = WriteTxnMarkersRequest.WritableTxnMarker


def marker(producer_id: int, topics: dict[str, list[int]]) -> Any:
    kind = _Marker.WritableTxnMarkerTopic
    listed = [kind(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    return _Marker(
        producer_id=producer_id, producer_epoch=0, transaction_result=False, topics=listed
    )


def written(kafka: InProcessBroker, *markers: Any) -> list[tuple[int, dict[str, dict[int, int]]]]:
    """The error codes by producer, in the order of the answer, by topic and partition."""
    answer = kafka.call(WriteTxnMarkersRequest(markers=[*markers]), 2)
    return [
        (
            each.producer_id,
            {
                topic.name: {part.partition_index: part.error_code for part in topic.partitions}
                for topic in each.topics
            },
        )
        for each in answer.markers
    ]


def test_markers_of_one_producer_have_one_result(kafka: InProcessBroker) -> None:
    kafka.create("t", 2)
    assert written(kafka, marker(7, {"t": [0]}), marker(8, {"t": [0]}), marker(7, {"t": [1]})) == [
        (7, {"t": {0: 0, 1: 0}}),
        (8, {"t": {0: 0}}),
    ]


@pytest.mark.parametrize("topics", [{}, {"t": []}])
def test_a_marker_without_partitions_has_no_result(
    kafka: InProcessBroker, topics: dict[str, list[int]]
) -> None:
    kafka.create("t")
    assert written(kafka, marker(7, topics)) == []
    assert written(kafka, marker(7, {"u": [0], "t": []})) == [
        (7, {"u": {0: Error.UNKNOWN_TOPIC_OR_PARTITION}})
    ]
