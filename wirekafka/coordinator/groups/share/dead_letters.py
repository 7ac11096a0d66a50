"""Writes records that a share group no longer delivers to its dead-letter topic (KIP-1191)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wirekafka.clock import Clock
from wirekafka.codec.batch import HEADER_BYTES, BatchHeader, batches
from wirekafka.codec.record import Record, decode_records, encode_batch, encode_record
from wirekafka.coordinator.groups.share.counts import DeadLetterCounts
from wirekafka.coordinator.groups.share.leader_requests import OutgoingBatch, append
from wirekafka.coordinator.groups.share.reading_options import DEAD_LETTER_TOPIC
from wirekafka.coordinator.routing import Routing
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Checked
from wirekafka.log.validate import check_ahead
from wirekafka.metadata.broker.auto_creation import AutoCreation
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.metadata.image.image import GROUP, MetadataImage
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange, ReadResult
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.replication.partition.schema_refusal import RunApart, SchemaRefusal
from wirekafka.replication.partition.waiting import Waiting, Watched
from wirekafka.replication.share.in_flight import DeadLetters
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.promise import Pauses

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig, TopicConfig

_COPY_RECORD = "errors.deadletterqueue.copy.record.enable"

_ATTEMPTS = 5
_BACKOFF = Backoff(first_ms=1_000, longest_ms=8_000)
_PRODUCE_TIMEOUT_MS = 30_000
_MOST_READ_BYTES = 1 << 20
_MOST_RECORDS = 500
"""The most records in one batch; more would block the event loop for too long."""

_CREATION_RETRIED = frozenset(
    {
        Error.TOPIC_ALREADY_EXISTS,
        Error.THROTTLING_QUOTA_EXCEEDED,
        Error.NETWORK_EXCEPTION,
        Error.REQUEST_TIMED_OUT,
    }
)
_PRODUCE_RETRIED = frozenset(
    {Error.NOT_LEADER_OR_FOLLOWER, Error.NETWORK_EXCEPTION, Error.BROKER_NOT_AVAILABLE}
)

_Content = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


class UnusableTopic(Exception):
    """A group's dead-letter topic cannot be used; the message, Kafka's, has the reason."""


class DeadLetterHost(Protocol):
    """The parts of the broker that dead letters need."""

    clock: Clock
    config: BrokerConfig
    image: MetadataImage
    waiting: Waiting
    check_apart: RunApart
    auto_creation: AutoCreation
    routing: Routing

    def partition(self, topic: str, index: int) -> Partition:
        """Look up a partition with a replica on this broker. Raises KafkaError."""

    def topic_config(self, topic: str) -> TopicConfig:
        """The effective configuration of a topic."""

    @property
    def schema_refusal(self) -> SchemaRefusal:
        """Finds the error of a batch with records whose schemas are not registered."""


class DeadLetterWriter:
    """Writes the dead letters of all groups, here or to the brokers that lead the partitions."""

    def __init__(self, host: DeadLetterHost, counts: Mapping[str, DeadLetterCounts]):
        """`counts` has the counters of each group."""
        self._host = host
        self._counts = counts
        self._pauses = Pauses(host.clock)

    async def write(self, group_id: str, source: Partition, letters: DeadLetters) -> None:
        """Append one record for each dead letter of a partition, and wait until all are committed.

        A record has Kafka's headers. It has the original's key and value if the group is configured
        to copy them, the log still has the original, and the original, or its compressed batch, is
        not beyond the topic's max.message.bytes. Temporary errors are retried. Raises
        UnusableTopic, KafkaError.
        """
        topic = self._topic(group_id)
        if topic not in self._host.image.topics:
            await self._retry(partial(self._create, topic), _CREATION_RETRIED)
        batch = _Batch(group_id, source, letters)
        counts = self._counts[group_id]
        offset = letters.first
        while offset <= letters.last:
            first = offset
            last = letters.last
            contents = dict[int, _Content]()
            most_bytes = self._host.topic_config(topic).max_message_bytes
            if self._host.image.config(GROUP, group_id).get(_COPY_RECORD, "").lower() == "true":
                last, contents = await _originals(source, range(offset, last + 1), most_bytes)
            encoded, offset = batch.encode(
                range(offset, last + 1), contents, self._host.clock.now_ms(), most_bytes
            )
            attempt = partial(self._append_counted, topic, source.index, encoded, counts)
            await self._retry(attempt, _PRODUCE_RETRIED)
            counts.records += offset - first
            if offset <= letters.last:
                await self._pauses.wait(0)

    def stop(self) -> None:
        """End all delays; each write gets one more attempt, without a retry."""
        self._pauses.end()

    def _topic(self, group_id: str) -> str:
        """Return the name of a group's dead-letter topic, which exists or may be created.

        Raises UnusableTopic.
        """
        host = self._host
        name = host.image.config(GROUP, group_id).get(DEAD_LETTER_TOPIC, "")
        if not name:
            raise UnusableTopic(f"Configured DLQ topic name in share group: {group_id} is empty.")
        where = f"share group: {group_id}"
        if name.startswith("__"):
            raise UnusableTopic(
                f"Configured DLQ topic name in {where} cannot start with __, topic: {name}."
            )
        if name in host.image.topics:
            topic_config = host.topic_config(name)
            if not topic_config.errors_deadletterqueue_group_enable:
                raise UnusableTopic(
                    f"DLQ is not enabled on configured DLQ topic for {where}, topic: {name}."
                )
        elif not host.config.errors_deadletterqueue_auto_create_topics_enable:
            raise UnusableTopic(
                "DLQ topic does not exist and auto create is disabled on cluster for "
                f"{where}, topic: {name}."
            )
        prefix = host.config.errors_deadletterqueue_topic_name_prefix
        if not name.startswith(prefix):
            raise UnusableTopic(
                "Configured DLQ topic name does not comply with the DLQ topic prefix in "
                f"{where}, topic: {name}, prefix: {prefix}."
            )
        return name

    async def _create(self, name: str) -> None:
        if name in self._host.image.topics:
            return
        configs = {
            "errors.deadletterqueue.group.enable": "true",
            "message.timestamp.type": "CreateTime",
        }
        await self._host.auto_creation.create_with(NewTopic(name=name, configs=configs))

    async def _append_counted(
        self, topic: str, source_index: int, batch: bytes, counts: DeadLetterCounts
    ) -> None:
        counts.batches += 1
        try:
            await self._append(topic, source_index, batch)
        except BaseException:
            counts.failures += 1
            raise

    async def _append(self, topic: str, source_index: int, batch: bytes) -> None:
        """Append a batch to the partition that Kafka chooses for the original's partition index."""
        host = self._host
        found = host.image.topics.get(topic)
        if found is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        index = source_index % len(found.partitions)
        leader_id = host.routing.leader_of(topic, index)
        if leader_id not in (None, NO_LEADER, host.routing.node_id):
            outgoing = OutgoingBatch(topic, found.id, index, batch)
            await append(host.routing, leader_id, outgoing)
            return
        partition = host.partition(topic, index)
        now_ms = host.clock.now_ms()
        ahead = await self._checked(partition, batch, now_ms)
        appended = partition.leading().append_from_client(batch, -1, now_ms, ahead=ahead)
        end_offset = appended.end_offset

        def is_settled(_: Watched) -> bool:
            return (
                partition.high_watermark >= end_offset
                or not partition.is_leader
                or partition.log.has_failed
            )

        if not is_settled(partition):
            await host.waiting.until(is_settled, (partition,), now_ms + _PRODUCE_TIMEOUT_MS)
        if partition.high_watermark < end_offset:
            partition.leading()
            raise KafkaError(
                Error.KAFKA_STORAGE_ERROR if partition.log.has_failed else Error.REQUEST_TIMED_OUT
            )

    async def _checked(self, partition: Partition, batch: bytes, now_ms: int) -> Checked | None:
        """The batch if the topic validates schemas, as of any producer; else None."""
        host, log = self._host, partition.log
        config = log.config
        if not config.validates_schemas:
            return None
        refusal = await host.schema_refusal(batch, log.topic, config, host.check_apart)
        checked = refusal or check_ahead(batch, now_ms, config, log.name)
        if isinstance(checked, KafkaError):
            raise checked
        return checked

    async def _retry(
        self, attempt: Callable[[], Awaitable[None]], retried: frozenset[Error]
    ) -> None:
        for number in range(1, _ATTEMPTS + 1):
            try:
                await attempt()
            except KafkaError as error:
                if error.error not in retried or number == _ATTEMPTS or self._pauses.has_ended:
                    raise
            else:
                return
            await self._pauses.wait(_BACKOFF.delay_ms(number - 1))


class _Batch(NamedTuple):
    """Encodes the records that are written for dead letters."""

    group_id: str
    source: Partition
    letters: DeadLetters

    def encode(
        self, offsets: range, contents: dict[int, _Content], now_ms: int, most_bytes: int
    ) -> tuple[bytes, int]:
        """Encode a batch for as many of these offsets as fit, but at least one.

        The limits are `most_bytes` and `_MOST_RECORDS`. Returns the batch, and the offset after
        its last dead letter.
        """
        records: list[Record] = []
        size_bytes = HEADER_BYTES
        before, count, after = self._headers()
        for offset in offsets[:_MOST_RECORDS]:
            key, value = contents.get(offset, (None, None))
            headers = (*before, (count, b"%d" % offset), *after)
            record = Record(len(records), now_ms, key, value, headers)
            size_bytes += len(encode_record(record, len(records), 0))
            if records and size_bytes > most_bytes:
                break
            records.append(record)
        return encode_batch(records), offsets.start + len(records)

    def _headers(self) -> tuple[Sequence[tuple[str, bytes]], str, Sequence[tuple[str, bytes]]]:
        """The headers before the offset's header, the name of that header, the headers after it."""
        source, letters = self.source, self.letters
        return (
            (
                ("__dlq.errors.topic", source.topic.encode()),
                ("__dlq.errors.partition", b"%d" % source.index),
            ),
            "__dlq.errors.offset",
            (
                ("__dlq.errors.group", self.group_id.encode()),
                ("__dlq.errors.delivery.count", b"%d" % letters.deliveries),
                ("__dlq.errors.message", letters.reason.encode()),
            ),
        )


async def _originals(
    source: Partition, offsets: range, most_bytes: int
) -> tuple[int, dict[int, _Content]]:
    """Read the records at these offsets, or as many as one read returns.

    Returns the last offset that was read, and the contents by offset. Records that cannot be read
    are left out, as in Kafka: their dead letters have headers only. Records of more than
    `most_bytes`, and compressed batches of more, are left out, too. Reading ends with the batch
    that makes the contents as large as `most_bytes`.
    """
    first, last = offsets[0], offsets[-1]
    contents: dict[int, _Content] = {}
    try:
        found = source.read(ReadRange(offset=first, max_bytes=_MOST_READ_BYTES))
        result = found if isinstance(found, ReadResult) else await found
        data = b"" if result.records is None else b"".join(result.records.buffers())
        end, size_bytes = first, 0
        for position, header in batches(data):
            end = header.end_offset
            for record in _copied(memoryview(data)[position:], header, most_bytes):
                if first <= record.offset <= last:
                    contents[record.offset] = record.key, record.value
                    size_bytes += len(record.key or b"") + len(record.value or b"")
            if size_bytes >= most_bytes:
                break
    except KafkaError:
        return last, {}
    return (min(end - 1, last) if end > first else last), contents


def _copied(batch: memoryview, header: BatchHeader, most_bytes: int) -> list[Record]:
    """The copied records of a batch; none if the batch is broken or too large."""
    if header.is_control:
        return []
    try:
        if header.compression:
            return decode_records(batch, header, limit_bytes=most_bytes)
        records = decode_records(batch, header)
    except KafkaError:
        return []
    if header.size_bytes <= most_bytes:
        return records
    return [each for each in records if _size_bytes(each, header) <= most_bytes]


def _size_bytes(record: Record, header: BatchHeader) -> int:
    offset_delta = record.offset - header.base_offset
    return len(encode_record(record, offset_delta, record.timestamp - header.base_timestamp))
