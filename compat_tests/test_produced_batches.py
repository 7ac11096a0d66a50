"""Batches from a bare socket: this broker and Apache Kafka accept, refuse and store the same."""

import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.conftest import RunningBroker
from tests.eventually import eventually
from tests.log.test_validate import ACCEPTED, COMPRESSED, REFUSED, batch_at, forged, with_magic
from tests.raw_client import RawClient
from wirekafka.codec.batch import read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.produce import ProduceRequest

# Kafka returns -1 (a defect) instead of INVALID_RECORD for these.
UNLIKE = {"a varint of seven bytes"}
FIRST_BYTES = 17
"""The fields that the broker sets or that do not vary: base offset, length, epoch, magic."""

KEY_BYTES = 79
"""The value that makes a batch of one record 150 bytes long."""

NOW = int(time.time() * 1000)
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "narrow": {"message.timestamp.before.max.ms": "86400000"},
    "small": {"max.message.bytes": "150"},
    **{name: {"compression.type": name} for name in ("uncompressed", "gzip", "snappy")},
    **{name: {"compression.type": name} for name in ("lz4", "zstd")},
}


class Answer(NamedTuple):
    """A Produce response, without values that differ between two brokers."""

    error: Error
    is_placed: bool
    is_stamped: bool
    record_errors: list[tuple[int, str]]
    message: str | None


class Side:
    """One of the two brokers, with topics of its own."""

    def __init__(self, broker: RunningBroker, unique: str):
        self.client = RawClient(broker.address[1])
        self._prefix = unique
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        made = admin.create_topics(
            [NewTopic(self.topic(name), 1, 1, config=config) for name, config in TOPICS.items()]
        )
        for future in made.values():
            future.result(30)
        eventually(lambda: all(self._is_ready(name) for name in TOPICS))

    def topic(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _is_ready(self, name: str) -> bool:
        return self.produce(name, GOOD)[0].error is Error.NONE

    def produce(self, name: str, batch: bytes) -> tuple[Answer, int]:
        """The answer, and the offset the batch went to."""
        topic = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[topic(
                name=self.topic(name), partition_data=[
                    topic.PartitionProduceData(index=0, records=batch)],
            )],
        )  # fmt: skip
        result = self.client.call(request, 9).responses[0].partition_responses[0]
        errors = [(e.batch_index, e.batch_index_error_message) for e in result.record_errors]
        answer = Answer(
            Error(result.error_code), result.base_offset >= 0, result.log_append_time_ms >= 0,
            errors,
            result.error_message and result.error_message.replace(self._prefix, ""),
        )  # fmt: skip
        return answer, result.base_offset

    def stored(self, name: str, offset: int) -> bytes:
        """The batch at an offset, as consumers get it."""
        topic = FetchRequest.Topic
        partition = topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=1_000, min_bytes=1, max_bytes=1 << 20,
            topics=[topic(topic=self.topic(name), partitions=[partition])],
        )  # fmt: skip
        records = bytes(self.client.call(request, 11).responses[0].partitions[0].records)
        return records[: read_header(records).size_bytes]


GOOD = encode_batch([Record(timestamp=NOW + n, key=b"k", value=b"v%d" % n) for n in range(3)])


@pytest.fixture(scope="module")
def sides(
    broker: RunningBroker, apache_kafka: RunningBroker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Side, Side]:
    unique = f"batches-{random.SystemRandom().randrange(1 << 32):08x}"
    return Side(broker, unique), Side(apache_kafka, unique)


Both = Callable[[str, bytes], tuple[Answer, list[int]]]


@pytest.fixture
def both(sides: tuple[Side, Side]) -> Both:
    def ask(name: str, batch: bytes) -> tuple[Answer, list[int]]:
        (ours, our_offset), (theirs, their_offset) = (side.produce(name, batch) for side in sides)
        assert ours == theirs
        return ours, [our_offset, their_offset]

    return ask


@pytest.mark.parametrize("case", ACCEPTED)
def test_batches_that_kafka_accepts_are_accepted_and_stored_alike(
    case: str, both: Both, sides: tuple[Side, Side]
) -> None:
    answer, offsets = both("plain", ACCEPTED[case])
    assert answer.error is Error.NONE
    ours, theirs = (side.stored("plain", at) for side, at in zip(sides, offsets, strict=True))
    assert ours[FIRST_BYTES:] == theirs[FIRST_BYTES:]


@pytest.mark.parametrize("case", [case for case in REFUSED if case not in UNLIKE])
def test_batches_that_kafka_refuses_are_refused_with_the_same_error(case: str, both: Both) -> None:
    batch, error = REFUSED[case]
    answer, _ = both("plain", batch)
    assert answer.error is error


TOO_LARGE = batch_at(NOW, key=b"k" * (KEY_BYTES + 1))
AGAINST_TOPICS = {
    "a timestamp two hours ahead": ("plain", batch_at(NOW, NOW + 7_200_000)),
    "a hidden late timestamp": (
        "plain", forged(batch_at(NOW, NOW + 7_200_000), max_timestamp=NOW)),
    "a timestamp of long ago": ("narrow", batch_at(NOW, 5, -1)),
    "an old timestamp, compressed": ("narrow", batch_at(5, NOW, compression=Codec.ZSTD)),
    "no timestamp": ("narrow", batch_at(-1)),
    "one without a key": ("compacted", batch_at(NOW, key=None)),
    "five without keys": ("compacted", batch_at(*[NOW] * 5, key=None, compression=Codec.LZ4)),
    "keys": ("compacted", GOOD),
    "neither key nor time": ("compacted", batch_at(NOW + 10**8, key=None)),
    "a careless maximum": ("plain", forged(GOOD, max_timestamp=-1)),
    "append time claimed": ("plain", forged(GOOD, attributes=8, max_timestamp=NOW + 7)),
    "exactly large enough": ("small", batch_at(NOW, key=b"k" * KEY_BYTES)),
    "one byte too large": ("small", TOO_LARGE),
    "too large and corrupt": ("small", forged(TOO_LARGE, crc=1)),
    "too large and misplaced": ("small", forged(TOO_LARGE, base_offset=1)),
    "an older magic, and large": ("small", with_magic(1)),
}  # fmt: skip


@pytest.mark.parametrize("case", AGAINST_TOPICS)
def test_batches_under_topic_configs_get_the_same_response_and_are_stored_alike(
    case: str, both: Both, sides: tuple[Side, Side]
) -> None:
    name, batch = AGAINST_TOPICS[case]
    try:
        answer, offsets = both(name, batch)
    except AssertionError as error:
        if "out of range" not in str(error):
            raise
        # Each message names bounds that depend on the broker's clock.
        answers = [side.produce(name, batch)[0] for side in sides]
        assert answers[0]._replace(record_errors=[]) == answers[1]._replace(record_errors=[])
        first, second = ([at for at, _ in answer.record_errors] for answer in answers)
        assert first == second
        return
    if answer.is_placed:
        ours, theirs = (side.stored(name, at) for side, at in zip(sides, offsets, strict=True))
        assert ours[FIRST_BYTES:] == theirs[FIRST_BYTES:]


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "append-time"])
@pytest.mark.parametrize("sent_as", [Codec.NONE, *COMPRESSED], ids=lambda codec: codec.name)
def test_batches_are_rewritten_alike(
    name: str, sent_as: Codec, both: Both, sides: tuple[Side, Side]
) -> None:
    records = [Record(timestamp=NOW + n % 7, key=b"%d" % n, value=b"text" * n) for n in range(90)]
    answer, offsets = both(name, encode_batch(records, options=BatchOptions(compression=sent_as)))
    assert answer.error is Error.NONE
    ours, theirs = (side.stored(name, at) for side, at in zip(sides, offsets, strict=True))
    assert _comparable(ours) == _comparable(theirs)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_order_of_sequences_and_epochs_gets_the_same_responses(
    seed: int, both: Both, sides: tuple[Side, Side]
) -> None:
    choice = random.Random(seed)
    first_id = choice.randrange(1 << 40, 1 << 41)
    after: dict[int, tuple[int, int]] = {}
    sent: list[bytes] = []
    placed: set[Error] = set()
    for _ in range(150):
        producer = first_id + choice.randrange(4)
        epoch, sequence = after.get(producer, (0, choice.choice([0, 7, (1 << 31) - 3])))
        count = choice.choice([1, 1, 2, 5])
        match choice.randrange(10):
            case 0 | 1 if sent:
                both("plain", choice.choice(sent[-12:]))
                continue
            case 2:
                sequence = sequence + choice.choice([1, 2, -1]) & 0x7FFFFFFF
            case 3:
                epoch, sequence = epoch + 1, choice.choice([0, 0, 3])
            case 4:
                epoch = max(epoch - 1, 0)
            case _:
                pass
        batch = encode_batch(
            [Record(timestamp=NOW, key=b"k")] * count,
            options=BatchOptions(
                producer_id=producer, producer_epoch=epoch, base_sequence=sequence
            ),
        )
        answer, _ = both("plain", batch)
        placed.add(answer.error)
        if answer.error is Error.NONE:
            after[producer] = epoch, sequence + count & 0x7FFFFFFF
            sent.append(batch)
    assert placed == {Error.NONE, Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.INVALID_PRODUCER_EPOCH}


def _comparable(batch: bytes) -> Any:
    """All but the compressor's own choices and the clock: header fields and records."""
    header = read_header(batch)
    stamped = {"max_timestamp": 0} if header.timestamp_type else {}
    records = [
        record._replace(offset=record.offset - header.base_offset, timestamp=0)
        if stamped
        else record._replace(offset=record.offset - header.base_offset)
        for record in decode_records(batch)
    ]
    return header._replace(base_offset=0, length=0, leader_epoch=0, crc=0, **stamped), records
