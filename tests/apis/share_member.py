"""A member of a share group in tests: it sends ShareFetch and ShareAcknowledge requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.in_process import Exchange, InProcessBroker
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest

Range = tuple[int, int, Sequence[int]]
"""First and last offset, and acknowledge types."""

Partitions = dict[tuple[bytes, int], Sequence[Range]]
"""Acknowledgements by topic id and partition."""


def share_fetch_request(partitions: Partitions, **options: Any) -> ShareFetchRequest:
    """A request for these partitions, with the settings of KafkaShareConsumer."""
    values: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m1",
        "share_session_epoch": 0,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        **options,
    }
    request = ShareFetchRequest(**values)
    request.topics = _topics(ShareFetchRequest.FetchTopic, "FetchPartition", partitions)
    return request


def share_acknowledge_request(partitions: Partitions, **options: Any) -> ShareAcknowledgeRequest:
    """A request that acknowledges these ranges."""
    request = ShareAcknowledgeRequest(**{"group_id": "g", "member_id": "m1", **options})
    request.topics = _topics(
        ShareAcknowledgeRequest.AcknowledgeTopic, "AcknowledgePartition", partitions
    )
    return request


def _topics(topic_class: Any, partition_name: str, partitions: Partitions) -> list[Any]:
    partition_class = getattr(topic_class, partition_name)
    topics: dict[bytes, Any] = {}
    for (topic_id, index), ranges in partitions.items():
        topic = topics.setdefault(topic_id, topic_class(topic_id=topic_id, partitions=[]))
        topic.partitions.append(
            partition_class(
                partition_index=index,
                acknowledgement_batches=[
                    partition_class.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=list(types)
                    )
                    for first, last, types in ranges
                ],
            )
        )
    return list(topics.values())


class ShareMember:
    """A member with its session at a broker without sockets; counts the session's epoch."""

    def __init__(self, kafka: InProcessBroker, name: str = "m1", group: str = "g"):
        self._kafka = kafka
        self._names = {"member_id": name, "group_id": group}
        self.epoch = 0

    def begin(self, partitions: Partitions | None = None, **options: Any) -> Exchange:
        """Send a ShareFetch."""
        options = {"share_session_epoch": self.epoch, **self._names, **options}
        self.epoch += 1
        return self._kafka.begin(share_fetch_request(partitions or {}, **options), 2)

    def fetch(self, partitions: Partitions | None = None, **options: Any) -> Any:
        """The response to a ShareFetch that need not wait."""
        exchange = self.begin(partitions, **options)
        assert exchange.is_done, "the request waits"
        return exchange.response

    def acknowledge(self, partitions: Partitions, **options: Any) -> Any:
        """The response to a ShareAcknowledge."""
        options = {"share_session_epoch": self.epoch, **self._names, **options}
        self.epoch += 1
        return self._kafka.call(share_acknowledge_request(partitions, **options), 2)


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """First offset, last offset and delivery count of all acquired records in a response."""
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for run in partition.acquired_records
    ]


def errors(response: Any) -> list[tuple[int, int]]:
    """The fetch error and the acknowledgement error of each partition of a response."""
    return [
        (partition.error_code, partition.acknowledge_error_code)
        for topic in response.responses
        for partition in topic.partitions
    ]
