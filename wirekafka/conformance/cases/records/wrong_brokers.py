"""Requests about partitions at a broker that does not lead them, and has no replica of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.case import Book, Need
from wirekafka.conformance.cases.records import (
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from wirekafka.conformance.cases.records.requests import delete_records as deletion
from wirekafka.conformance.cases.records.requests import fetch as reading
from wirekafka.conformance.cases.records.requests import fetch_all, part
from wirekafka.conformance.cases.records.requests import list_offsets as offsets
from wirekafka.conformance.stage import TIME_MS, Stage, batch
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest


def _elsewhere(stage: Stage) -> int:
    """A broker that leads none of the topics of cases."""
    return next(each for each in sorted(stage.target.nodes) if each != stage.target.home)


def _epoch_end(name: str) -> OffsetForLeaderEpochRequest:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    asked = topic.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[topic(topic=name, partitions=[asked])]
    )


def _producers(name: str) -> DescribeProducersRequest:
    topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(topics=[topic(name=name, partition_indexes=[0])])


def _two(stage: Stage) -> Request:
    return fetch_all(stage, [(stage.topic, [part(0)]), (stage.missing, [part(0)])])


_CASES: list[tuple[Book, str, Callable[[Stage], Any]]] = [
    (produce.BOOK, "at a broker that does not lead", lambda s: s.produce_request(s.topic, batch())),
    (
        produce.BOOK,
        "at a broker that does not lead with acks 1",
        lambda s: s.produce_request(s.topic, batch(), acks=1),
    ),
    (
        produce.BOOK,
        "of a missing partition at a broker that does not lead",
        lambda s: s.produce_request(s.topic, batch(), partition=9),
    ),
    (fetch.BOOK, "at a broker that does not lead", lambda s: reading(s, s.topic)),
    (
        fetch.BOOK,
        "in the leader's epoch at a broker that does not lead",
        lambda s: reading(s, s.topic, epoch=0),
    ),
    (fetch.BOOK, "beside a missing topic at a broker that does not lead", _two),
    (list_offsets.BOOK, "at a broker that does not lead", lambda s: offsets(s.topic, -1)),
    (
        list_offsets.BOOK,
        "by time at a broker that does not lead",
        lambda s: offsets(s.topic, TIME_MS),
    ),
    (
        list_offsets.BOOK,
        "a missing partition at a broker that does not lead",
        lambda s: offsets(s.topic, -1, partition=9),
    ),
    (offset_for_leader_epoch.BOOK, "at a broker that does not lead", lambda s: _epoch_end(s.topic)),
    (delete_records.BOOK, "at a broker that does not lead", lambda s: deletion(s.topic, 1)),
    (describe_producers.BOOK, "at a broker that does not lead", lambda s: _producers(s.topic)),
]
for _book, _title, _make in _CASES:

    @_book.play(_title, needs=[Need.THREE_BROKERS])
    def _wrong(stage: Stage, make: Callable[[Stage], Any] = _make) -> None:
        stage.ask(make(stage), at=_elsewhere(stage))


@produce.BOOK.play(
    "acks 0 at a broker that does not lead", versions="9", needs=[Need.THREE_BROKERS]
)
def _unanswered(stage: Stage) -> None:
    """The connection is closed, so that the client looks for the leader."""
    node = _elsewhere(stage)
    stage.send(stage.produce_request(stage.topic, batch(), acks=0), by="b", at=node)
    stage.ask(offsets(stage.topic, -1), 6, by="b", at=node)
