"""A consumer's fetches: its positions, and the records that read_committed leaves out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from tests.histories.history import Place, Read
from tests.memory_transport import Address
from tests.simulation.wire import Leader, Lost, Refused, Wire
from wirekafka.codec.batch import batches
from wirekafka.codec.record import decode_records
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchRequest

_BY_NAME, _BY_ID = 12, 17
_ABORT = 0


class Reader:
    """Positions in some partitions, and the polls that move them."""

    def __init__(self, wire: Wire, topic_ids: dict[str, bytes], *, committed: bool, by_id: bool):
        self._wire = wire
        self._topic_ids = topic_ids
        self._committed = committed
        self._version = _BY_ID if by_id else _BY_NAME
        self.positions: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        """The end offsets in the last responses."""
        self._is_fresh = True

    def seek(self, positions: dict[Place, int]) -> None:
        """Set positions."""
        self.positions = dict(positions)
        self.ends.clear()
        self._is_fresh = True

    async def poll(self, max_wait_ms: int = 200) -> Read:
        """Send one fetch to every leader; returns the records. Raises Lost, Refused.

        After an error the positions are those before, since the records that arrived are dropped.
        """
        positions = dict(self.positions)
        try:
            return await self._poll(max_wait_ms)
        except (Lost, Refused):
            self.positions = positions
            raise

    async def _poll(self, max_wait_ms: int) -> Read:
        # What is known now, as the responses below may change it.
        by_leader: dict[Address, dict[Place, int]] = {}
        for place in self.positions:
            leader = Leader(*place)
            address = await self._wire.find(leader)
            by_leader.setdefault(address, {})[place] = self._wire.leader_epoch(leader)
        read = Read(self._committed, [], self._is_fresh)
        names = {each: name for name, each in self._topic_ids.items()}
        for address, epochs in by_leader.items():
            request = self._request(epochs, max_wait_ms)
            answer = await self._wire.ask(request, self._version, address, 5)
            if answer.error_code:
                raise Refused(answer.error_code, "fetch")
            for topic in answer.responses:
                name = topic.topic or names[topic.topic_id]
                for partition in topic.partitions:
                    self._take((name, partition.partition_index), partition, read)
        if read.records:
            self._is_fresh = False
        return read

    def is_at_end(self) -> bool:
        """Whether all positions are at the end offsets of the last responses."""
        return all(
            place in self.ends and position >= self.ends[place]
            for place, position in self.positions.items()
        )

    def _request(self, epochs: dict[Place, int], max_wait_ms: int) -> FetchRequest:
        by_topic: dict[str, list[Any]] = {}
        for (name, index), epoch in epochs.items():
            offset = self.positions[name, index]
            by_topic.setdefault(name, []).append(
                FetchRequest.Topic.Partition(
                    partition=index,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=2_000,
                )
            )
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=10_000,
            isolation_level=int(self._committed),
            topics=[
                FetchRequest.Topic(topic=name, topic_id=self._topic_ids[name], partitions=each)
                for name, each in by_topic.items()
            ],
        )

    def _take(self, place: Place, partition: Any, read: Read) -> None:
        if partition.error_code:
            if Error(partition.error_code) in self._wire.retried:
                self._wire.forget()
                return
            raise Refused(partition.error_code, f"fetch of {place} at {self.positions[place]}")
        self.ends[place] = (
            partition.last_stable_offset if self._committed else partition.high_watermark
        )
        records, self.positions[place] = visible(partition, self.positions[place])
        read.records += [(place, offset, value) for offset, value in records]


def visible(partition: Any, position: int) -> tuple[list[tuple[int, int]], int]:
    """The offsets and values that a consumer at `position` gets, and its new position."""
    aborted = sorted(
        (each.first_offset, each.producer_id) for each in partition.aborted_transactions or ()
    )
    open_aborted: set[int] = set()
    found: list[tuple[int, int]] = []
    data = memoryview(bytes(partition.records or b""))
    start = position
    for at, header in batches(data):
        if at + header.size_bytes > len(data):
            break
        while aborted and aborted[0][0] < header.end_offset:
            open_aborted.add(aborted.pop(0)[1])
        records = decode_records(data[at : at + header.size_bytes])
        if header.is_control:
            if _is_abort(records[0].key):
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            found += [
                (record.offset, int(bytes(record.value or b"")))
                for record in records
                if record.offset >= start
            ]
        position = max(position, header.end_offset)
    return found, position


def _is_abort(key: Any) -> bool:
    return int.from_bytes(bytes(key)[2:4], "big") == _ABORT


async def read_to_end(reader: Reader, places: Iterable[Place]) -> list[tuple[Place, int, int]]:
    """Every record from the start on, up to the end that the isolation level allows."""
    reader.seek(dict.fromkeys(places, 0))
    found: list[tuple[Place, int, int]] = []
    while not reader.is_at_end():
        with contextlib.suppress(Lost):
            found += (await reader.poll(100)).records
        if not reader.is_at_end():
            await asyncio.sleep(0.1)
    return found
