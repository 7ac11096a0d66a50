"""Reading a partition's batches to its end, by raw requests to any broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wirekafka.codec.batch import batches
from wirekafka.codec.message import Request
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest

Ask = Callable[[Request, int], Any]
"""Sends a request in a version to a broker and returns the response."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_LATEST = -1
_READ_BYTES = 16 << 20
_PATIENCE_S = 30


@dataclass
class WholeLog:
    """The records up to the end that the isolation level allows."""

    end_offset: int
    data: bytearray = field(default_factory=bytearray)
    """Complete batches, one after the other."""
    aborted: set[tuple[int, int]] = field(default_factory=set)
    """Producer ids and first offsets, of aborted transactions, as in read_committed responses."""


def read_log(ask: Ask, topic: str, partition: int, isolation: int = READ_UNCOMMITTED) -> WholeLog:
    """Fetch until the end that there is now: no fetch brings more than one segment's batches."""
    log = WholeLog(end_offset(ask, topic, partition, isolation))
    offset, deadline = 0, time.monotonic() + _PATIENCE_S
    while offset < log.end_offset:
        assert time.monotonic() < deadline, f"{topic}-{partition}: {offset} of {log.end_offset}"
        response = _fetched(ask, (topic, partition, offset), isolation)
        log.aborted |= {
            (each.producer_id, each.first_offset) for each in response.aborted_transactions or ()
        }
        data = bytes(response.records or b"")
        for position, header in batches(data):
            log.data += data[position : position + header.size_bytes]
            offset = header.end_offset
    return log


def end_offset(ask: Ask, topic: str, partition: int, isolation: int = READ_UNCOMMITTED) -> int:
    """The end offset for a reader. Raises AssertionError if the partition has no leader."""
    kind = ListOffsetsRequest.Topic
    asked = kind(
        name=topic, partitions=[kind.Partition(partition_index=partition, timestamp=_LATEST)]
    )
    answer = ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[asked]), 6)
    (response,) = answer.topics[0].partitions
    assert not response.error_code, response
    offset: int = response.offset
    return offset


def _fetched(ask: Ask, where: tuple[str, int, int], isolation: int) -> Any:
    topic, partition, offset = where
    kind = FetchRequest.Topic
    asked = kind.Partition(
        partition=partition, fetch_offset=offset, partition_max_bytes=_READ_BYTES
    )
    # The records exist, so an empty response means that the fetch waited at the broker.
    answer = ask(
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_READ_BYTES,
            isolation_level=isolation,
            session_id=0,
            session_epoch=-1,
            topics=[kind(topic=topic, partitions=[asked])],
            forgotten_topics_data=[],
            rack_id="",
        ),
        12,
    )
    (response,) = answer.responses[0].partitions
    assert not response.error_code, response
    return response
