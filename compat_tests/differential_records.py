"""Differential cases: valid and invalid Produce, Fetch, ListOffsets and related requests."""

import struct
from collections.abc import Callable
from typing import Any

from compat_tests.differential_admin import Case, delete_topics, since
from compat_tests.stage import TIME_MS, UNKNOWN_ID, Stage, batch, produce_request
from wirekafka.codec.batch import with_prefix
from wirekafka.codec.crc import crc32c
from wirekafka.codec.message import Request
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from wirekafka.protocol.produce import ProduceRequest

LAST_MS = TIME_MS + 2000
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def patched(records: bytes, at: int, layout: str, value: Any, *, fix_crc: bool = True) -> bytes:
    """A batch with one header field changed and, by default, its checksum updated."""
    changed = bytearray(records)
    struct.pack_into(layout, changed, at, value)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


BAD_BATCHES: dict[str, bytes] = {
    "a wrong checksum": patched(batch(), 17, ">I", 12345, fix_crc=False),
    "magic 0": patched(batch(), 16, ">b", 0, fix_crc=False),
    "magic 1": patched(batch(), 16, ">b", 1, fix_crc=False),
    "magic 3": patched(batch(), 16, ">b", 3, fix_crc=False),
    "two batches": batch() + batch(),
    "nothing": b"",
    "half a header": batch()[:30],
    "a batch cut short": batch()[:-5],
    "bytes after the batch": batch() + b"\0\0\0",
    "a length of 0": patched(batch(), 8, ">i", 0, fix_crc=False),
    "a count too high": patched(batch(), 57, ">i", 4),
    "a count too low": patched(batch(), 57, ">i", 2),
    "a negative count": patched(batch(), 57, ">i", -1),
    "a last offset delta too high": patched(batch(), 23, ">i", 5),
    "a negative last offset delta": patched(batch(), 23, ">i", -1),
    "a base offset": b"".join(bytes(part) for part in with_prefix(batch(), 7, 3)),
    "unknown compression": patched(batch(), 21, ">h", 7),
    "gzip that is none": patched(batch(), 21, ">h", GZIP),
    "a control batch": batch(is_control=True),
    "LogAppendTime": patched(batch(), 21, ">h", 8),
    "a producer id without sequence": batch(producer_id=5, producer_epoch=0),
    "a negative epoch": batch(producer_id=5, producer_epoch=-2, base_sequence=0),
    "an unused attribute bit": patched(batch(), 21, ">h", 0x80),
}


def produce_cases() -> list[Case]:
    makers: dict[str, Callable[[Stage], Request]] = {
        "to a missing topic": lambda s: produce_request(s, s.missing, batch()),
        "to a missing partition": lambda s: produce_request(s, s.topic, batch(), partition=9),
        "to a negative partition": lambda s: produce_request(s, s.topic, batch(), partition=-1),
        "with acks 2": lambda s: produce_request(s, s.topic, batch(), acks=2),
        "with acks -2": lambda s: produce_request(s, s.topic, batch(), acks=-2),
        "keyless to a compacted topic": lambda s: produce_request(s, s.compacted, batch(key=None)),
        "too much": lambda s: produce_request(
            s,
            s.topic,
            encode_batch([Record(0, TIME_MS, None, b"x" * 1_100_000, [])], options=BatchOptions()),
        ),
        "far in the future": lambda s: produce_request(
            s, s.topic, encode_batch([Record(0, 2**45, b"k", b"v", [])], options=BatchOptions())
        ),
        "to the offsets topic": lambda s: produce_request(s, "__cluster_metadata", batch()),
        "no topics": lambda _: ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]),
    }
    for what, records in BAD_BATCHES.items():
        makers[what] = lambda s, records=records: produce_request(s, s.topic, records, partition=1)
    zstd = batch(compression=ZSTD)
    makers["zstd"] = lambda s: produce_request(s, s.topic, zstd, partition=1)
    # Accepted batches move the log end, so these use a partition that no other case reads.
    return [(f"Produce {name}", ProduceRequest, make) for name, make in makers.items()]


def fetch(
    stage: Stage, name: str, offset: int = 0, partition: int = 0, **options: Any
) -> FetchRequest:
    """Options: epoch, isolation, most (bytes of the partition), session, session_epoch."""
    topics = FetchRequest.Topic
    data = topics.Partition(
        partition=partition,
        current_leader_epoch=options.get("epoch", -1),
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=options.get("most", 1 << 20),
    )
    topic_id = options.get("topic_id", stage.ids.get(name, UNKNOWN_ID))
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=options.get("most", 1 << 20),
        isolation_level=options.get("isolation", 0),
        session_id=options.get("session", 0),
        session_epoch=options.get("session_epoch", -1),
        topics=[topics(topic=name, topic_id=topic_id, partitions=[data])],
        forgotten_topics_data=[],
        rack_id="",
    )


def fetch_cases() -> list[Case]:
    makers: dict[str, Callable[[Stage], Request]] = {
        "from the start": lambda s: fetch(s, s.topic),
        "from within a batch": lambda s: fetch(s, s.topic, 1),
        "at the end": lambda s: fetch(s, s.topic, 3),
        "beyond the end": lambda s: fetch(s, s.topic, 4),
        "before the start": lambda s: fetch(s, s.topic, -1),
        "only committed": lambda s: fetch(s, s.topic, isolation=1),
        "with no room": lambda s: fetch(s, s.topic, most=0),
        "with room for one byte": lambda s: fetch(s, s.topic, most=1),
        "of a missing partition": lambda s: fetch(s, s.topic, partition=9),
        "of a missing topic": lambda s: fetch(s, s.missing),
        "of an older epoch": lambda s: fetch(s, s.topic, epoch=-1),
        "of a newer epoch": lambda s: fetch(s, s.topic, epoch=5),
        "of an unknown session": lambda s: fetch(s, s.topic, session=12345, session_epoch=1),
        "of a closed session": lambda s: fetch(s, s.topic, session=12345, session_epoch=-1),
        "of no session in its middle": lambda s: fetch(s, s.topic, session=0, session_epoch=3),
        "of a bad isolation level": lambda s: fetch(s, s.topic, isolation=7),
    }
    return [(f"Fetch {name}", FetchRequest, make) for name, make in makers.items()]


def list_offsets(
    name: str, timestamp: int, partition: int = 0, epoch: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    topics = ListOffsetsRequest.Topic
    data = topics.Partition(
        partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp
    )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[topics(name=name, partitions=[data])],
        timeout_ms=1000,
    )


def offset_cases() -> list[Case]:
    timestamps = (-1, -2, -3, -4, -5, -6, -7, 0, TIME_MS, TIME_MS + 1, LAST_MS, LAST_MS + 1)
    makers: dict[str, Callable[[Stage], Request]] = {
        f"at {timestamp}": lambda s, at=timestamp: list_offsets(s.topic, at)
        for timestamp in timestamps
    }
    makers |= {
        "of a compacted topic": lambda s: list_offsets(s.compacted, -3),
        "of a missing topic": lambda s: list_offsets(s.missing, -1),
        "of a missing partition": lambda s: list_offsets(s.topic, -1, 9),
        "of a newer epoch": lambda s: list_offsets(s.topic, -1, epoch=5),
        "only committed": lambda s: list_offsets(s.topic, -1, isolation=1),
        "of a bad isolation level": lambda s: list_offsets(s.topic, -1, isolation=7),
    }
    cases: list[Case] = [
        (f"ListOffsets {name}", ListOffsetsRequest, make) for name, make in makers.items()
    ]

    def epoch_end(name: str, epoch: int, current: int = -1, partition: int = 0) -> Request:
        topics = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        asked = topics.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        return OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[topics(topic=name, partitions=[asked])]
        )

    ends: dict[str, Callable[[Stage], Request]] = {
        "0": lambda s: epoch_end(s.topic, 0),
        "5": lambda s: epoch_end(s.topic, 5),
        "-1": lambda s: epoch_end(s.topic, -1),
        "of a newer leader": lambda s: epoch_end(s.topic, 0, 5),
        "of a missing topic": lambda s: epoch_end(s.missing, 0),
        "of a missing partition": lambda s: epoch_end(s.topic, 0, partition=9),
    }
    return cases + [
        (f"OffsetForLeaderEpoch {name}", OffsetForLeaderEpochRequest, make)
        for name, make in ends.items()
    ]


def other_cases() -> list[Case]:
    def delete(name: str, offset: int, partition: int = 0) -> Request:
        topics = DeleteRecordsRequest.Topic
        asked = topics.Partition(partition_index=partition, offset=offset)
        return DeleteRecordsRequest(topics=[topics(name=name, partitions=[asked])], timeout_ms=5000)

    def producers(name: str, partition: int = 0) -> Request:
        asked = DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[partition])
        return DescribeProducersRequest(topics=[asked])

    def init(
        producer_id: int = -1, epoch: int = -1, name: str | None = None, ms: int = 1000
    ) -> Request:
        return InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    later = since(InitProducerIdRequest, 3)
    return [
        ("DeleteRecords beyond the end", DeleteRecordsRequest, lambda s: delete(s.topic, 4)),
        ("DeleteRecords to 0", DeleteRecordsRequest, lambda s: delete(s.topic, 0)),
        ("DeleteRecords to -2", DeleteRecordsRequest, lambda s: delete(s.topic, -2)),
        ("DeleteRecords of a missing topic", DeleteRecordsRequest, lambda s: delete(s.missing, 0)),
        ("DeleteRecords of a missing part", DeleteRecordsRequest, lambda s: delete(s.topic, 0, 9)),
        ("DeleteRecords compacted", DeleteRecordsRequest, lambda s: delete(s.compacted, 0)),
        ("DescribeProducers", DescribeProducersRequest, lambda s: producers(s.topic)),
        ("DescribeProducers nowhere", DescribeProducersRequest, lambda s: producers(s.missing)),
        ("DescribeProducers no part", DescribeProducersRequest, lambda s: producers(s.topic, 9)),
        ("InitProducerId", InitProducerIdRequest, lambda _: init()),
        ("InitProducerId again", later, lambda _: init(123, 4)),
        ("InitProducerId without epoch", later, lambda _: init(123, -1)),
        ("InitProducerId without id", later, lambda _: init(-1, 4)),
        ("InitProducerId of an empty name", InitProducerIdRequest, lambda _: init(name="")),
    ]


def a_producer_and_its_sequences(stage: Stage) -> Any:
    """Sequences: in order, repeated, with a gap, after an epoch's bump, of an older epoch."""
    name = f"{stage.topic}-sequences"
    if name not in stage.ids:
        stage.create(name)

    def send(sequence: int, epoch: int = 0, count: int = 3, producer_id: int = 4242) -> Any:
        records = batch(
            count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        answer = stage.produce(name, records)
        part = answer.responses[0].partition_responses[0]
        return part.error_code, part.base_offset

    story = [send(0), send(3), send(6), send(3), send(0), send(9), send(12), send(15)]
    # By now the first batch is no longer among the five that are remembered.
    story += [send(0), send(20), send(18), send(4, epoch=1), send(0, epoch=1)]
    story += [send(21), send(3, epoch=1), send(3, epoch=1, count=2), send(1, epoch=1)]
    story += [
        send(7, producer_id=4343),
        send(10, producer_id=4343),
        send(2**31 - 3, producer_id=44),
    ]
    story += [send(0, producer_id=44), send(3, producer_id=44)]
    return story


def a_fetch_session(stage: Stage) -> Any:
    """A session: opened, unchanged, after an append, with a wrong epoch, closed."""
    name = f"{stage.topic}-session"
    if name not in stage.ids:
        stage.create(name, 2)

    def ask(**options: Any) -> Any:
        request = fetch(stage, name, **options)
        answer = stage.wire.ask(request, 12)
        parts = [
            (part.partition_index, part.error_code, part.high_watermark, bytes(part.records or b""))
            for topic in answer.responses
            for part in topic.partitions
        ]
        return answer.session_id, (answer.error_code, answer.session_id != 0, parts)

    session, opened = ask(session_epoch=0)
    story = [opened, ask(session=session, session_epoch=1)[1]]
    stage.produce(name, batch())
    story += [ask(session=session, session_epoch=2)[1], ask(session=session, session_epoch=9)[1]]
    story.append(ask(session=session, session_epoch=3, offset=3)[1])
    story.append(ask(session=session, session_epoch=-1)[1])
    story.append(ask(session=session, session_epoch=4)[1])
    return story


def records_deleted_and_offsets_after(stage: Stage) -> Any:
    """DeleteRecords to the middle and to the high watermark, then ListOffsets and Fetch."""
    name = f"{stage.topic}-deleted"
    if name not in stage.ids:
        stage.create(name)
    for _ in range(3):
        stage.produce(name, batch())
    story = []
    topics = DeleteRecordsRequest.Topic
    for offset in (4, 2, -1):
        asked = topics.Partition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(
            topics=[topics(name=name, partitions=[asked])], timeout_ms=5000
        )
        story.append(stage.ask(request, 2))
        for at in (-1, -2, -3, -4, 0):
            story.append(stage.ask(list_offsets(name, at), 8))
        for start in (0, 3, 4, 5, 9):
            story.append(stage.ask(fetch(stage, name, start), 12))
    return story


def zstd_to_old_clients(stage: Stage) -> Any:
    """Produce below version 7 does not support zstd; Fetch does in every version (KIP-110)."""
    story = []
    for name, options in (
        (f"{stage.topic}-zstd", {}),
        (f"{stage.topic}-always-zstd", {"compression_type": "zstd"}),
    ):
        if name not in stage.ids:
            stage.create(name, **options)
        zstd = batch(compression=ZSTD)
        story += [stage.ask(produce_request(stage, name, zstd), version) for version in (3, 6, 7)]
        story += [stage.ask(fetch(stage, name), version) for version in (4, 9, 10, 12)]
    return story


def log_append_time(stage: Stage) -> Any:
    """A LogAppendTime topic stamps batches: the bit is set and the checksum fits."""
    name = f"{stage.topic}-appendtime"
    if name not in stage.ids:
        stage.create(name, message_timestamp_type="LogAppendTime")
    story = []
    for codec in (0, GZIP):
        answer = stage.produce(name, batch(compression=codec))
        part = answer.responses[0].partition_responses[0]
        story.append((part.error_code, part.base_offset, part.log_append_time_ms > TIME_MS))
    fetched = stage.wire.ask(fetch(stage, name), 12)
    records = bytes(fetched.responses[0].partitions[0].records)
    story.append((len(records), records[21:23], crc32c(records[21 : 12 + records[11]])))
    return [*story[:2], story[2][:2]]


def a_recreated_topic_has_another_id(stage: Stage) -> Any:
    """Fetch and Produce by the id of a topic that was deleted and created again."""
    name = f"{stage.topic}-recreated"
    stage.create(name)
    old = stage.ids[name]
    story = [stage.ask(delete_topics(name), 5)]
    stage.create(name)
    story.append(stage.ids[name] != old)
    story.append(stage.ask(fetch(stage, name, topic_id=old), 13)["responses"])
    return repr(story).replace(repr(old), "the old id")


PLAYS = [
    a_producer_and_its_sequences,
    a_fetch_session,
    records_deleted_and_offsets_after,
    zstd_to_old_clients,
    log_append_time,
    a_recreated_topic_has_another_id,
]

CASES: list[Case] = [*fetch_cases(), *offset_cases(), *other_cases(), *produce_cases()]
