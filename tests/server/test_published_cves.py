"""The published vulnerabilities of Apache Kafka that a broker of today could share, replayed.

Tested here:

| CVE | What an attacker did | The test |
|---|---|---|
| 2018-1288 | a client fetched as a replica and interfered with replication | `as_a_replica` |
| 2018-17196 | wrote in transactions and idempotently past the ACLs | `past_the_acls` |
| 2022-34917 | announced large requests before any authentication | `announced_but_not_sent` |
| 2023-34453, 34454, 34455 | snappy sizes that overflow or lie | `snappy` |
| 2026-111108 | array counts far beyond the bytes of the request | `array_counts` |
| 2026-111115 | millions of tagged fields, in the request header too | `tagged_fields` |

Tested where the mechanisms are:

| CVE | What an attacker did | The test |
|---|---|---|
| 2017-12610 | logged in and named another user | `tests/security/test_plain.py`, `test_scram.py` |
| 2021-38153 | measured comparisons of secrets | `tests/security/test_plain.py`, `test_scram.py` |
| 2022-34917 | sent large SASL messages | `tests/server/test_logins.py` |
| 2024-56128 | finished SCRAM with another nonce | `tests/security/test_scram.py` |
| 2025-27819 | configured a login module with JNDI | `tests/server/test_logins.py` |
| 2026-111073 | pushed metrics that inflate without bound | `tests/telemetry/test_telemetry.py` |
| 2026-33557 | sent a token with a wrong signature | `tests/security/test_bearer_tokens.py` |
| 2026-110985 | sent a token of any issuer or audience | `tests/security/test_bearer_tokens.py` |

No CVE of their own, the same kind of attack: compressed batches that inflate without bound, record
varints that lie. Kafka 4.4 limits a record by max.decompressed.message.bytes.

No concern of a broker written in Python:

| CVE | Reason |
|---|---|
| 2024-27309 | ACLs lost in a migration from ZooKeeper, which does not exist here |
| 2019-12399, 2023-25194, 2025-27818 | Kafka Connect: secrets of its REST API, JNDI in its clients |
| 2024-31141, 2025-27817 | the Java clients read files and URLs that a config names |
| 2026-33558, 2026-35554 | the Java clients: secrets in the log, a producer's buffers |
| 2026-111496 | Kafka Streams |
| 2021-4104, 44228, 45046, 2022-23302, 23305, 23307 | log4j |
"""

from __future__ import annotations

import socket
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.codec.messages import message_classes
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.raw_client import RawClient, frame
from wirekafka.apis.shared import registry
from wirekafka.codec.batch import CRC_AT, CRC_COVERS_FROM, HEADER_BYTES, LENGTH_AT
from wirekafka.codec.compression import Codec, compress
from wirekafka.codec.crc import crc32c
from wirekafka.codec.message import MalformedMessage, Message, Request
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.codec.varint import encode_uvarint, encode_varint
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.log import validate
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.testing import Broker

MOST_BYTES = 2 << 20
"""How many bytes refusing an attack may allocate."""

_SOFTWARE = {"client_software_name": "x", "client_software_version": "1"}


class Allocations:
    """The peak memory of Python objects within a `with` block, in bytes."""

    def __enter__(self) -> Allocations:
        tracemalloc.start()
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *_: object) -> None:
        self.peak_bytes = tracemalloc.get_traced_memory()[1] - self._before
        tracemalloc.stop()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A broker in a thread of this process, whose allocations can be seen."""
    with Broker() as broker:
        yield int(broker.bootstrap_servers.rpartition(":")[2])


def assert_serves(port: int) -> None:
    with RawClient(port) as client:
        assert client.call(ApiVersionsRequest(**_SOFTWARE), 4).error_code == 0


# CVE-2026-111108: array counts.

REQUESTS: list[type[Message]] = [cls for cls in message_classes() if issubclass(cls, Request)]


def _inflated_counts(cls: type[Any], version: int) -> Iterator[tuple[str, bytes]]:
    """The request with the count of each of its top-level arrays raised, and the field's name."""
    plain = bytes(cls(**{f.name: [] for f in cls.fields if f.is_array}).encode(version))
    flexible = version in cls.flexible
    for field in cls.fields:
        if not field.is_array or version not in field.versions or field.tag is not None:
            continue
        arrays: dict[str, Any] = {f.name: [] for f in cls.fields if f.is_array}
        at = _count_position(cls, version, arrays, field.name)
        if at is None:
            continue
        count = (
            b"\xff\xff\xff\xff\x07"
            if flexible and version in field.flexible
            else b"\x7f\xff\xff\xff"
        )
        start = at if flexible and version in field.flexible else at - 3
        yield field.name, plain[:start] + count + plain[at + 1 :]


def _count_position(cls: type[Any], version: int, arrays: dict[str, Any], name: str) -> int | None:
    """Where the last byte of an array's count is: null and empty differ, or empty and one."""
    empty = bytes(cls(**arrays).encode(version))
    field = next(f for f in cls.fields if f.name == name)
    one = (
        field.part()
        if field.part is not None
        else {"string": "", "bytes": b"", "16s": bytes(16)}.get(str(field.kind), 0)
    )
    more = bytes(cls(**{**arrays, name: [one]}).encode(version))
    return next((at for at, (a, b) in enumerate(zip(empty, more, strict=False)) if a != b), None)


def test_every_request_with_an_array_is_attacked() -> None:
    attacked = {cls.__name__ for cls in REQUESTS if list(_inflated_counts(cls, cls.versions.last))}
    assert {
        "MetadataRequest",
        "FetchRequest",
        "ProduceRequest",
        "CreateTopicsRequest",
        "OffsetFetchRequest",
        "DeleteGroupsRequest",
    } <= attacked
    assert len(attacked) > 30


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
def test_array_counts_beyond_the_request_are_refused_before_anything_is_allocated(
    cls: type[Message],
) -> None:
    """CVE-2026-111108."""
    for version in range(cls.versions.first, cls.versions.last + 1):
        for name, body in _inflated_counts(cls, version):
            cls.decoder(version)
            with Allocations() as allocations, pytest.raises(MalformedMessage, match=name):
                cls.decode(body, version)
            assert allocations.peak_bytes < MOST_BYTES


@pytest.mark.parametrize("version", [0, 1, 8, 9, 13])
def test_array_counts_that_only_bytes_of_another_kind_could_fill_are_refused(version: int) -> None:
    """CVE-2026-111108: a count is bounded by the smallest size of its elements, not by 1."""
    if version in MetadataRequest.flexible:
        body = encode_uvarint((1 << 20) + 1) + bytes(1 << 20)
    else:
        body = struct.pack(">i", 1 << 20) + bytes(1 << 20)
    MetadataRequest.decoder(version)
    with Allocations() as allocations, pytest.raises(MalformedMessage, match=r"elements|null"):
        MetadataRequest.decode(body, version)
    assert allocations.peak_bytes < MOST_BYTES


def test_array_counts_from_a_socket_cost_the_connection_alone(port: int) -> None:
    """CVE-2026-111108, as a client sends it."""
    with RawClient(port) as client:
        client.send_frame(frame(MetadataRequest(topics=[]), 8)[:-6] + b"\x7f\xff\xff\xff\0\0")
        assert client.is_closed()
    assert_serves(port)


# CVE-2026-111115: tagged fields.


def _with_tagged_fields(tags: bytes) -> tuple[bytes, bytes]:
    """An ApiVersions request with these tagged fields in its header, and one in its body."""
    header = struct.pack(">hhih", 18, 3, 1, -1)
    body = b"\2x\2\x31"
    return header + tags + body + b"\0", header + b"\0" + body + tags


MANY = 100_000
TAGGED = {
    "a count of 20 million": encode_uvarint(20_000_000),
    "a count beyond 32 bits": b"\xff\xff\xff\xff\xff\x7f",
    "unknown fields of no bytes": encode_uvarint(MANY)
    + b"".join(encode_uvarint(tag) + b"\0" for tag in range(MANY)),
    "the same field again and again": encode_uvarint(100) + b"\0\0" * 100,
    "more than 128 KiB": b"\1\7" + encode_uvarint((128 << 10) + 1) + bytes((128 << 10) + 1),
    "a size beyond the request": b"\1\7" + encode_uvarint(1 << 30),
}


@pytest.mark.parametrize("tags", TAGGED.values(), ids=TAGGED)
@pytest.mark.parametrize("place", [0, 1], ids=["header", "body"])
def test_tagged_fields_without_bound_cost_the_connection_alone(
    port: int, tags: bytes, place: int
) -> None:
    """CVE-2026-111115."""
    payload = _with_tagged_fields(tags)[place]
    with RawClient(port) as client, Allocations() as allocations:
        client.send_frame(payload)
        assert client.is_closed()
    assert allocations.peak_bytes < MOST_BYTES + 2 * len(payload)
    assert_serves(port)


@pytest.mark.parametrize("place", [0, 1], ids=["header", "body"])
def test_unknown_tagged_fields_within_bounds_are_skipped(port: int, place: int) -> None:
    tags = b"\x02\x07" + encode_uvarint(128 << 10) + bytes(128 << 10) + b"\x09\0"
    with RawClient(port) as client:
        client.send_frame(_with_tagged_fields(tags)[place])
        assert struct.unpack_from(">ih", client.receive_frame()) == (1, 0)


# CVE-2022-34917: memory before authentication.


def test_requests_announced_but_not_sent_take_no_memory(port: int) -> None:
    """CVE-2022-34917: 40 connections announce 100 MB each and send a few bytes."""
    with ExitStack() as open_sockets, Allocations() as allocations:
        for _ in range(40):
            sent = open_sockets.enter_context(
                closing(socket.create_connection(("127.0.0.1", port), timeout=10))
            )
            sent.sendall(struct.pack(">i", 104_857_600) + b"\0\x12\0\3")
        assert_serves(port)
    assert allocations.peak_bytes < MOST_BYTES


@pytest.mark.parametrize("size", [104_857_601, 0x7FFFFFFF, -1, -0x80000000])
def test_sizes_above_the_limit_and_below_zero_close_the_connection(port: int, size: int) -> None:
    """CVE-2022-34917."""
    with RawClient(port) as client:
        client.socket.sendall(struct.pack(">i", size))
        assert client.is_closed()
    assert_serves(port)


# Records.


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[InProcessBroker]:
    registry.load()
    broker = InProcessBroker(tmp_path / "data", ManualClock())
    broker.create("t")
    yield broker
    broker.stop()


def _batch(body: bytes, codec: Codec, count: int = 1) -> bytes:
    """A batch with a true header and checksum around any bytes of records."""
    batch = bytearray(
        encode_batch(
            [Record(index, 0, None, b"", ()) for index in range(count)],
            options=BatchOptions(compression=codec),
        )[:HEADER_BYTES]
    )
    batch += body
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)
    struct.pack_into(">I", batch, CRC_AT, crc32c(batch[CRC_COVERS_FROM:]))
    return bytes(batch)


def _produce(kafka: InProcessBroker, batch: bytes, topic: str = "t") -> Error:
    kind = ProduceRequest.TopicProduceData
    partition = kind.PartitionProduceData(index=0, records=batch)
    answer = kafka.call(
        ProduceRequest(
            acks=1, timeout_ms=1000, topic_data=[kind(name=topic, partition_data=[partition])]
        ),
        9,
    )
    return Error(answer.responses[0].partition_responses[0].error_code)


_SNAPPY = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
LYING_SNAPPY = {
    "2023-34455, a chunk of 2 GiB": _SNAPPY + b"\x7f\xff\xff\xff",
    "2023-34455, a chunk of negative size": _SNAPPY + b"\xff\xff\xff\xff" + bytes(8),
    "2023-34455, a size cut short": _SNAPPY + b"\0\0",
    "2023-34453, a raw length of 4 GiB": b"\xff\xff\xff\xff\x0f" + bytes(8),
    "2023-34454, a raw length that overflows 32 bits": b"\xff\xff\xff\xff\xff\xff\x7f" + bytes(8),
    "an empty block": _SNAPPY + bytes(4),
}


@pytest.mark.parametrize("body", LYING_SNAPPY.values(), ids=LYING_SNAPPY)
def test_snappy_that_lies_about_sizes_is_refused(kafka: InProcessBroker, body: bytes) -> None:
    """CVE-2023-34453, CVE-2023-34454, CVE-2023-34455."""
    with Allocations() as allocations:
        error = _produce(kafka, _batch(body, Codec.SNAPPY))
    assert error in (Error.UNKNOWN_SERVER_ERROR, Error.INVALID_RECORD, Error.CORRUPT_MESSAGE)
    assert allocations.peak_bytes < MOST_BYTES
    assert kafka.partition("t").log.end_offset == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_inflates_without_bound_is_refused(
    kafka: InProcessBroker, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate, "MOST_INFLATED_BYTES", 1 << 18)
    bomb = compress(codec, bytes(16 << 20))
    with Allocations() as allocations:
        assert _produce(kafka, _batch(bomb, codec)) is Error.INVALID_RECORD
    assert allocations.peak_bytes < MOST_BYTES + 4 * len(bomb)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_the_largest_record_within_a_compressed_batch_is_bounded(
    kafka: InProcessBroker, codec: Codec
) -> None:
    """Kafka 4.4's max.decompressed.message.bytes; plain batches have max.message.bytes."""
    kafka.create("small", max_decompressed_message_bytes="1000")
    options = BatchOptions(compression=codec)
    many = encode_batch(
        [Record(index, 0, None, bytes(900), ()) for index in range(5)], options=options
    )
    assert _produce(kafka, many, "small") is Error.NONE
    large = encode_batch(
        [Record(0, 0, None, bytes(10), ()), Record(1, 0, None, bytes(1001), ())], options=options
    )
    expected = Error.NONE if codec is Codec.NONE else Error.INVALID_RECORD
    assert _produce(kafka, large, "small") is expected


LYING_RECORDS = {
    "a size of 2 GiB": encode_varint((1 << 31) - 1),
    "a negative size": encode_varint(-7) + bytes(8),
    "a varint without end": b"\xff" * 40,
    "2 billion headers": b"\x12\0\0\0\1\0" + encode_varint((1 << 31) - 1)[:3],
    "a key of 2 GiB": encode_varint(10) + b"\0\0\0" + encode_varint((1 << 31) - 1) + bytes(2),
    "nothing": b"",
}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.name)
@pytest.mark.parametrize("body", LYING_RECORDS.values(), ids=LYING_RECORDS)
def test_records_that_lie_about_sizes_are_refused(
    kafka: InProcessBroker, body: bytes, codec: Codec
) -> None:
    with Allocations() as allocations:
        error = _produce(kafka, _batch(compress(codec, body), codec))
    assert error is Error.INVALID_RECORD
    assert allocations.peak_bytes < MOST_BYTES
    assert kafka.partition("t").log.end_offset == 0


# CVE-2018-1288: clients that fetch as a replica.


@pytest.mark.parametrize("replica_id", [1, 2])
def test_a_client_that_fetches_as_a_replica_changes_nothing(
    kafka: InProcessBroker, replica_id: int
) -> None:
    """CVE-2018-1288."""
    assert _produce(kafka, encode_batch([Record(0, 0, b"k", b"v", ())])) is Error.NONE
    partition = kafka.partition("t")
    before = partition.high_watermark, partition.log.end_offset, partition.leader_epoch
    kind = FetchRequest.Topic
    for offset in (0, 1, 1_000_000):
        wanted = kind(
            topic="t",
            partitions=[
                kind.Partition(
                    partition=0,
                    fetch_offset=offset,
                    log_start_offset=offset,
                    partition_max_bytes=1 << 20,
                )
            ],
        )
        kafka.call(FetchRequest(replica_id=replica_id, max_bytes=1 << 20, topics=[wanted]), 12)
    assert (partition.high_watermark, partition.log.end_offset, partition.leader_epoch) == before
    image = kafka.broker.image.partition("t", 0)
    assert image is not None and image.isr == [1]


# CVE-2018-17196: transactional and idempotent writes past the ACLs.


@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_no_producer_writes_past_the_acls(tmp_path: Path, transactional_id: str | None) -> None:
    """CVE-2018-17196: only the super user writes, whatever the kind of the batch."""
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    broker = InProcessBroker(tmp_path / "data", ManualClock(), **settings)
    try:
        broker.create("t")
        kind = ProduceRequest.TopicProduceData
        options = BatchOptions(
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=transactional_id is not None,
        )
        batch = encode_batch([Record(0, 0, None, b"v", ())], options=options)
        wanted = kind(name="t", partition_data=[kind.PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(
            transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=[wanted]
        )
        answer = broker.begin(request, 9, "mallory", principal="User:mallory").response
        assert answer is not None
        refused = (
            Error.TOPIC_AUTHORIZATION_FAILED
            if transactional_id is None
            else Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        assert answer.responses[0].partition_responses[0].error_code == refused
        assert broker.partition("t").log.end_offset == 0
    finally:
        broker.stop()
