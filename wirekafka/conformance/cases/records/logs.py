"""Topics with records that cases read, and what is found in a log afterwards."""

from __future__ import annotations

import time

from wirekafka.codec.batch import batches
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.conformance.cases.records.requests import delete_records, fetch, list_offsets
from wirekafka.conformance.stage import TIME_MS, PreparationFailed, Stage, batch
from wirekafka.errors import Error
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest

TIMES = (
    (0, 1000, 2000),
    (10_000, 10_000, 10_000),
    (10_000, 10_000, 20_000),
    (5000, 15_000, 4000),
    (30_000, 40_000, 30_000),
    (40_000, 40_000, 1),
)
"""The timestamps of the batches of `timed`, in ms after TIME_MS: 18 records."""
BATCH_BYTES = len(batch())
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def at(*after_ms: int, key: bytes | None = b"key", compression: int = Codec.NONE) -> bytes:
    """A batch of records at times after TIME_MS."""
    records = [
        Record(timestamp=TIME_MS + each, key=key, value=b"value %d" % number)
        for number, each in enumerate(after_ms)
    ]
    return encode_batch(records, options=BatchOptions(compression=compression))


def timed(stage: Stage) -> str:
    """A topic whose partition 0 has batches with the timestamps of TIMES; partition 1 is empty."""
    return stage.shared("timed", _fill_timed, 2)


def _fill_timed(stage: Stage, name: str) -> None:
    for each in TIMES:
        stage.produce(name, at(*each))


def several(stage: Stage) -> str:
    """A topic with batches of three equal sizes in partitions 0 to 2; partition 3 is empty."""
    return stage.shared("several", _fill_several, 4)


def _fill_several(stage: Stage, name: str) -> None:
    for partition in range(3):
        for _ in range(3):
            stage.produce(name, batch(), partition)


def compressed(stage: Stage) -> str:
    """A topic with a batch of five records in each codec: gzip, snappy, lz4, zstd."""
    return stage.shared("compressed", _fill_compressed)


def _fill_compressed(stage: Stage, name: str) -> None:
    for number, codec in enumerate(CODECS):
        first = number * 100_000
        stage.produce(name, at(*range(first, first + 5000, 1000), compression=codec))


def trimmed(stage: Stage) -> str:
    """A topic whose nine records are deleted up to offset 4, in the middle of a batch."""
    return stage.shared("trimmed", _fill_trimmed)


def _fill_trimmed(stage: Stage, name: str) -> None:
    for number in range(3):
        stage.produce(name, at(*range(number * 10_000, number * 10_000 + 3000, 1000)))
    trim(stage, name, 4)


def emptied(stage: Stage) -> str:
    """A topic whose three records are all deleted."""
    return stage.shared("emptied", _fill_emptied)


def _fill_emptied(stage: Stage, name: str) -> None:
    stage.produce(name, batch())
    trim(stage, name, -1)


def stamped(stage: Stage) -> str:
    """A LogAppendTime topic with two batches, the second of them compressed."""
    return stage.shared("stamped", _fill_stamped, message_timestamp_type="LogAppendTime")


def _fill_stamped(stage: Stage, name: str) -> None:
    stage.produce(name, batch())
    # The broker's clock has to go on, or both batches have the largest timestamp.
    later_s = time.monotonic() + 0.01
    stage.until(lambda: time.monotonic() > later_s, "a later time")
    stage.produce(name, batch(compression=Codec.GZIP))


def rolled(stage: Stage) -> str:
    """A topic with six records an hour apart, each in a segment of its own."""
    return stage.shared("rolled", _fill_rolled, segment_ms="60000")


def _fill_rolled(stage: Stage, name: str) -> None:
    for number in range(6):
        stage.produce(name, at(number * 3_600_000))


def settled(stage: Stage) -> str:
    """A topic after transactions.

    Committed at 0 to 2, marker 3; without a transaction 4 to 6; aborted at 7 to 9, marker 10;
    another producer's aborted 11 to 13, marker 14; committed 15 to 17, marker 18.
    """
    return stage.shared("settled", _fill_settled)


def _fill_settled(stage: Stage, name: str) -> None:
    first, second = OpenTransaction(stage, name, "a"), OpenTransaction(stage, name, "b")
    first.write()
    first.end(committed=True)
    stage.produce(name, batch())
    first.write()
    first.end(committed=False)
    second.write()
    second.end(committed=False)
    first.write()
    first.end(committed=True)


def trim(stage: Stage, name: str, offset: int) -> None:
    """Delete the records of partition 0 below an offset. Raises PreparationFailed."""
    answer = stage.do(delete_records(name, offset), 2)
    error = answer.topics[0].partitions[0].error_code
    if error:
        raise PreparationFailed(f"DeleteRecords: {Error.of(error).name}")


class OpenTransaction:
    """A producer of transactions on partition 0 of one topic."""

    def __init__(self, stage: Stage, topic: str, text: str = "transaction") -> None:
        self.stage, self.topic = stage, topic
        self.id = stage.name(text)
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000)
        answer = stage.until(
            lambda: _unless_busy(stage.do(request, 4)), f"a producer id of {self.id}"
        )
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequence, self._is_open = 0, False

    def begin(self) -> None:
        """Add the partition to a new transaction."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[Topic(name=self.topic, partitions=[0])],
        )

        def is_added() -> bool:
            topic = self.stage.do(request, 3).results_by_topic_v3_and_below[0]
            return bool(topic.results_by_partition[0].partition_error_code == Error.NONE)

        self.stage.until(is_added, f"{self.topic} in a transaction")
        self._is_open = True

    def write(self, count: int = 3) -> None:
        """Append records of the transaction, which is begun if none is open."""
        if not self._is_open:
            self.begin()
        request = self.stage.produce_request(
            self.topic, self.records(count), transactional_id=self.id
        )
        answer = self.stage.do(request, 9)
        error = answer.responses[0].partition_responses[0].error_code
        if error:
            raise PreparationFailed(f"Produce: {Error.of(error).name}")

    def records(self, count: int = 3) -> bytes:
        """The next batch of the producer."""
        self._sequence += count
        return batch(
            count,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequence - count,
            is_transactional=True,
        )

    def end(self, *, committed: bool) -> None:
        """Commit or abort, and wait until the marker is in the log."""
        before = _end(self.stage, self.topic)
        self.ask_for_end(committed=committed)
        self.stage.until(lambda: _end(self.stage, self.topic) > before, "a marker")
        self._is_open = False

    def ask_for_end(self, *, committed: bool) -> None:
        """Commit or abort without waiting for the marker. Raises PreparationFailed."""
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        self.stage.until(lambda: _unless_busy(self.stage.do(request, 3)), "the end of it")


def _unless_busy(answer: object) -> object:
    error = getattr(answer, "error_code", 0)
    if error in (Error.NONE,):
        return answer
    if error in (
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
    ):
        return None
    raise PreparationFailed(f"{type(answer).__name__}: {Error.of(error).name}")


def _end(stage: Stage, name: str) -> int:
    answer = stage.do(list_offsets(name, -1), 6)
    return int(answer.topics[0].partitions[0].offset)


def note_log(stage: Stage, name: str, partition: int = 0) -> None:
    """Compare all records of a partition with their offsets, times and headers."""
    lines: list[str] = []
    offset = _start(stage, name, partition)
    while data := _read(stage, name, partition, offset):
        for place, header in batches(data):
            lines += [
                f"{each.offset} {_time(each.timestamp)} {each.key!r} {each.value!r} {each.headers}"
                for each in decode_records(data[place : place + header.size_bytes])
                if not header.is_control and each.offset >= offset
            ]
            offset = header.end_offset
    stage.note("log", lines)


def _time(timestamp: int) -> str:
    after_ms = timestamp - TIME_MS
    if 0 <= after_ms < 1_000_000_000:
        return f"T+{after_ms}"
    return "now" if after_ms > 1_000_000_000 else str(timestamp)


def _start(stage: Stage, name: str, partition: int) -> int:
    answer = stage.do(list_offsets(name, -2, partition=partition), 6)
    return int(answer.topics[0].partitions[0].offset)


def _read(stage: Stage, name: str, partition: int, offset: int) -> bytes:
    answer = stage.do(fetch(stage, name, offset, partition), 12)
    return bytes(answer.responses[0].partitions[0].records or b"")
