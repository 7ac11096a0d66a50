"""Records as tests produce and read them, without a Kafka client."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wirekafka.codec.batch import BatchHeader, batches
from wirekafka.codec.record import BatchOptions, decode_records, encode_batch
from wirekafka.codec.record import Record as WireRecord
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.testing.engine import Engine

Data: TypeAlias = bytes | str | None
"""A key or value; text is encoded as UTF-8."""
Headers: TypeAlias = Mapping[str, Data] | Iterable[tuple[str, Data]]
"""Names with values, as {"trace": b"1"}, or pairs where names repeat, as [("trace", b"1")]."""

_PRODUCE_VERSION = 12
_TIMEOUT_MS = 30_000
_BATCH_RECORDS = 5_000
_BATCH_BYTES = 1 << 19
_ELECTED_S = 10.0
_RETRY_S = 0.005


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce.

    Without a partition, the CRC-32 of the key chooses it; without a key too, each in turn.
    `timestamp_ms` is since the epoch; None is the broker's present time.
    """

    value: Data
    key: Data = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A stored record of a topic.

    `transaction` is "open", "committed", "aborted", or None outside of a transaction. A producer
    id of -1 means none. `timestamp_ms` is since the epoch, -1 for none.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction: str | None


Recordlike: TypeAlias = Record | bytes | str | tuple[Data, Data]
"""A record, its value alone, or a (key, value) pair."""


def produce(engine: Engine, topic: str, records: Iterable[Recordlike]) -> list[int]:
    """Append records as a producer with acks=all; returns their offsets. Raises KafkaError."""
    count = engine.topics()[topic]
    offsets: list[int] = []
    now_ms = engine.now_ms()
    sizes: dict[int, int] = {}
    pending: dict[int, list[tuple[int, WireRecord]]] = {}
    for number, given in enumerate(records):
        record = _record(given)
        partition = _partition(record, number, count)
        timestamp = now_ms if record.timestamp_ms is None else record.timestamp_ms
        offsets.append(-1)
        placed = pending.setdefault(partition, [])
        placed.append(
            (
                number,
                WireRecord(
                    len(placed),
                    timestamp,
                    _data(record.key),
                    _data(record.value),
                    _headers(record.headers),
                ),
            )
        )
        sizes[partition] = (
            sizes.get(partition, 0)
            + len(placed[-1][1].value or b"")
            + len(placed[-1][1].key or b"")
        )
        if len(placed) >= _BATCH_RECORDS or sizes[partition] >= _BATCH_BYTES:
            _append(engine, topic, partition, placed, offsets)
            del pending[partition], sizes[partition]
    for partition, placed in pending.items():
        _append(engine, topic, partition, placed, offsets)
    return offsets


def stored(engine: Engine, topic: str, partition: int) -> Iterator[StoredRecord]:
    """Yield the records of a partition up to the high watermark, oldest first."""
    leader, data, stable_offset = _read(engine, topic, partition)
    aborted = leader.aborted(topic, partition)
    view = memoryview(data)
    for position, header in batches(view):
        if header.is_control:
            continue
        state = _transaction(header, stable_offset, aborted)
        for record in decode_records(view[position : position + header.size_bytes]):
            at = record.offset - header.base_offset
            yield StoredRecord(
                topic,
                partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                record.headers,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence + at if header.base_sequence >= 0 else -1,
                state,
            )


def _read(engine: Engine, topic: str, partition: int) -> tuple[Engine, bytes, int]:
    """Read a partition at its leader; a new leader knows the high watermark a little later."""
    give_up_s = time.monotonic() + _ELECTED_S
    while True:
        leader = engine.leader(topic, partition)
        try:
            return leader, *leader.batches(topic, partition)
        except KafkaError as error:
            if error.error is not Error.OFFSET_NOT_AVAILABLE or time.monotonic() >= give_up_s:
                raise
        time.sleep(_RETRY_S)


def _record(given: Any) -> Record:
    if isinstance(given, Record):
        return given
    if isinstance(given, bytes | str):
        return Record(given)
    if isinstance(given, tuple) and len(given) == 2:
        return Record(key=given[0], value=given[1])
    raise TypeError(
        f"{given!r} is no record: give a Record, its value as bytes or str, or a (key, value) pair"
    )


def _data(given: Data) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


def _headers(given: Headers) -> tuple[tuple[str, bytes | None], ...]:
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple((name, _data(value)) for name, value in pairs)


def _partition(record: Record, number: int, count: int) -> int:
    if record.partition is not None:
        return record.partition
    key = _data(record.key)
    return number % count if key is None else zlib.crc32(key) % count


def _append(
    engine: Engine,
    topic: str,
    partition: int,
    placed: list[tuple[int, WireRecord]],
    offsets: list[int],
) -> None:
    kind = ProduceRequest.TopicProduceData
    batch = encode_batch([record for _, record in placed], options=BatchOptions())
    request = ProduceRequest(
        acks=-1,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            kind(
                name=topic,
                partition_data=[kind.PartitionProduceData(index=partition, records=batch)],
            )
        ],
    )
    response: Any = engine.leader(topic, partition).ask(request, _PRODUCE_VERSION)
    outcome = response.responses[0].partition_responses[0]
    if outcome.error_code:
        raise KafkaError(
            Error(outcome.error_code),
            f"{topic}-{partition}: {outcome.error_message}"
            if outcome.error_message
            else f"{topic}-{partition}",
        )
    for at, (number, _) in enumerate(placed):
        offsets[number] = outcome.base_offset + at


def _transaction(
    header: BatchHeader, stable_offset: int, aborted: list[tuple[int, int, int]]
) -> str | None:
    if not header.is_transactional:
        return None
    if any(
        producer == header.producer_id and first <= header.base_offset <= last
        for producer, first, last in aborted
    ):
        return "aborted"
    # From the first open transaction on, readers see all transactions as open.
    return "open" if header.base_offset >= stable_offset else "committed"
