"""Follows `__remote_log_metadata` and writes to it: the metadata of all remote segments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from wirekafka.broker import Broker
from wirekafka.codec.batch import CONTROL_BIT, Buffer, batches
from wirekafka.codec.record import Record, decode_records, encode_batch
from wirekafka.coordinator.groups.share.latest_offsets import LatestOffsets
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.promise import Promise
from wirekafka.server.tiering import metadata_requests
from wirekafka.server.tiering.metadata_requests import MetadataPartition
from wirekafka.server.tiering.settings import MetadataTopicOptions
from wirekafka.tiered.metadata_record import (
    REMOTE_LOG_METADATA_TOPIC,
    MalformedMetadata,
    MetadataRecord,
    decode,
    encode,
    metadata_partition,
)
from wirekafka.tiered.remote_segment import (
    PartitionDeletion,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)
from wirekafka.tiered.segment_states import SegmentStates

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_POLL_MS = 1_000
_RETRY_MS = 500
READ_BACK_MS = 30_000
"""How long a written record may take until it is committed and has been read."""
_Change = tuple[bytes, SegmentState]


class RemoteMetadata:
    """The segments of all partitions whose metadata this broker follows.

    It follows the metadata partitions of the tiered partitions that it has. All that such a
    metadata partition has is kept, so that a further tiered partition needs no second reading.
    """

    def __init__(self, broker: Broker, options: MetadataTopicOptions):
        self._broker = broker
        self._options = options
        self._wanted: dict[TieredPartition, None] = {}
        """In the order in which they came."""
        self._followed: dict[int, _Followed] = {}
        self.deleted: Callable[[bytes], None] = _ignore
        """Called with the id of each segment whose deletion has begun, on any broker."""
        self._ensuring: asyncio.Task[None] | None = None
        self._is_stopped = False

    def follow(self, partition: TieredPartition) -> None:
        """Follow a partition's metadata from now on."""
        self._wanted[partition] = None
        self._assign()

    def follow_led(self) -> None:
        """Follow the metadata partitions that this broker leads, whatever it has itself."""
        for index in range(self._broker.image.partition_count(REMOTE_LOG_METADATA_TOPIC)):
            topic = self._broker.partitions.get((REMOTE_LOG_METADATA_TOPIC, index))
            if topic is not None and topic.is_leader and index not in self._followed:
                self._followed[index] = _Followed(self._broker, index, self.deleted)

    @property
    def skipped(self) -> int:
        """Records that could not be decoded, or did not apply to the state of their segments."""
        return sum(followed.skipped for followed in self._followed.values())

    def unfollow(self, partition: TieredPartition) -> None:
        """A partition is no longer here; its metadata partition is followed all the same."""
        self._wanted.pop(partition, None)

    def states(self, partition: TieredPartition) -> SegmentStates | None:
        """The segments of a partition; None while older records are still being read."""
        followed = self._followed_of(partition)
        if followed is None or not followed.is_ready:
            return None
        return followed.states.get(partition) or SegmentStates()

    def led_here(self) -> Iterator[tuple[TieredPartition, SegmentStates]]:
        """All partitions whose metadata partition this broker leads."""
        for index, followed in self._followed.items():
            topic = self._broker.partitions.get((REMOTE_LOG_METADATA_TOPIC, index))
            if topic is not None and topic.is_leader and followed.is_ready:
                yield from followed.states.items()

    async def publish(self, record: RemoteSegment | SegmentUpdate) -> None:
        """Write a record, and wait until this broker has read it.

        KafkaError: as a Produce request's, REQUEST_TIMED_OUT, or INVALID_RECORD for a change that
        the segment's state does not allow (any more).
        """
        followed = self._followed_of(record.partition)
        if followed is None:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, "the metadata topic does not exist")
        self._check_transition(followed, record)
        value = encode(record)
        batch = encode_batch([Record(timestamp=self._broker.clock.now_ms(), value=value)])
        seen = followed.expect((record.id, record.state))
        try:
            await self._append(followed.index, batch)
            if await seen.within(self._broker.clock, READ_BACK_MS) is None:
                raise KafkaError(Error.REQUEST_TIMED_OUT, "the written metadata was not read back")
        finally:
            followed.expect_no_more((record.id, record.state), seen)

    async def catch_up(self, partition: TieredPartition) -> None:
        """Read all that the leader of a partition's metadata has now, committed or not yet.

        KafkaError: as a ListOffsets request's, or REQUEST_TIMED_OUT.
        """
        followed = self._followed_of(partition)
        if followed is None:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, "the metadata topic does not exist")
        reached = followed.reach(await self._end_offset(followed.index))
        if await reached.within(self._broker.clock, READ_BACK_MS) is None:
            raise KafkaError(Error.REQUEST_TIMED_OUT, "the metadata was not read to its end")

    def stop(self) -> None:
        """Stop following."""
        self._is_stopped = True
        if self._ensuring is not None:
            self._ensuring.cancel()
        for followed in self._followed.values():
            followed.stop()

    def _check_transition(self, followed: _Followed, record: RemoteSegment | SegmentUpdate) -> None:
        if isinstance(record, RemoteSegment):
            return
        states = followed.states.get(record.partition)
        known = None if states is None else states.get(record.id)
        if known is None or not known.state.may_become(record.state):
            raise KafkaError(Error.INVALID_RECORD, "the remote segment has been deleted meanwhile")

    async def _append(self, index: int, batch: bytes) -> None:
        broker = self._broker
        leader_id = broker.image.leader_of(REMOTE_LOG_METADATA_TOPIC, index)
        if leader_id == broker.node_id:
            broker.partition(REMOTE_LOG_METADATA_TOPIC, index).append(batch)
            return
        await metadata_requests.append(broker.routing, _led_elsewhere(broker, index), batch)

    async def _end_offset(self, index: int) -> int:
        """The end of a metadata partition's log at its leader."""
        broker = self._broker
        if broker.image.leader_of(REMOTE_LOG_METADATA_TOPIC, index) == broker.node_id:
            partition = broker.partition(REMOTE_LOG_METADATA_TOPIC, index)
            partition.leading()
            return partition.log.end_offset
        where = _led_elsewhere(broker, index)
        return await metadata_requests.end_offset(broker.routing, where)

    def _followed_of(self, partition: TieredPartition) -> _Followed | None:
        count = self._broker.image.partition_count(REMOTE_LOG_METADATA_TOPIC)
        return self._followed.get(metadata_partition(partition, count)) if count else None

    def _assign(self) -> None:
        """Follow the metadata partitions of all wanted partitions, once the topic exists."""
        if self._is_stopped:
            return
        count = self._broker.image.partition_count(REMOTE_LOG_METADATA_TOPIC)
        if not count:
            if self._ensuring is None:
                self._ensuring = asyncio.get_running_loop().create_task(self._ensure_topic())
            return
        for partition in self._wanted:
            index = metadata_partition(partition, count)
            if index not in self._followed:
                self._followed[index] = _Followed(self._broker, index, self.deleted)

    async def _ensure_topic(self) -> None:
        try:
            while not self._broker.image.partition_count(REMOTE_LOG_METADATA_TOPIC):
                try:
                    topic = self._options.topic(len(self._broker.image.live_brokers()))
                    await self._broker.auto_creation.create_with(topic)
                except KafkaError as error:
                    if error.error is not Error.TOPIC_ALREADY_EXISTS:
                        logger.warning(
                            "%s could not be created: %s", REMOTE_LOG_METADATA_TOPIC, error
                        )
                    await _pause(self._broker, _RETRY_MS)
        finally:
            self._ensuring = None
        self._assign()


class _Followed:
    """One partition of the metadata topic, and the states that its records lead to."""

    def __init__(self, broker: Broker, index: int, deleted: Callable[[bytes], None]):
        self._broker = broker
        self._deleted = deleted
        self.index = index
        self.states: dict[TieredPartition, SegmentStates] = {}
        self.skipped = 0
        """As `RemoteMetadata.skipped`."""
        self._offset = 0
        self._ready_at: int | None = None
        self._expected: dict[_Change, list[Promise[MetadataRecord]]] = {}
        self._to_reach: list[tuple[int, Promise[int]]] = []
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_ready(self) -> bool:
        """Whether all has been read that was there at the beginning."""
        return self._ready_at is not None and self._offset >= self._ready_at

    def expect(self, change: _Change) -> Promise[MetadataRecord]:
        """What is set once a change has been read."""
        promise = Promise[MetadataRecord]()
        self._expected.setdefault(change, []).append(promise)
        return promise

    def expect_no_more(self, change: _Change, promise: Promise[MetadataRecord]) -> None:
        """End an expectation."""
        waiting = self._expected.get(change, [])
        with suppress(ValueError):
            waiting.remove(promise)
        if not waiting:
            self._expected.pop(change, None)

    def reach(self, offset: int) -> Promise[int]:
        """What is set once all records below an offset have been read."""
        promise = Promise[int]()
        self._to_reach.append((offset, promise))
        self._advance(self._offset)
        return promise

    def stop(self) -> None:
        """Stop following."""
        self._task.cancel()

    def _advance(self, offset: int) -> None:
        """Continue at an offset, unless that is behind."""
        self._offset = max(self._offset, offset)
        if self._to_reach:
            for wanted, promise in self._to_reach:
                if wanted <= self._offset:
                    promise.set(self._offset)
            self._to_reach = [each for each in self._to_reach if not each[1].done]

    async def _run(self) -> None:
        failure = ""
        while True:
            try:
                if self._ready_at is None:
                    self._ready_at = await self._present_end()
                local = self._broker.partitions.get((REMOTE_LOG_METADATA_TOPIC, self.index))
                if local is not None:
                    await self._read_here()
                else:
                    await self._read_from_leader()
                failure = ""
            except KafkaError as error:
                if str(error) != failure:
                    failure = str(error)
                    logger.warning(
                        "%s-%d cannot be read: %s", REMOTE_LOG_METADATA_TOPIC, self.index, error
                    )
                await _pause(self._broker, _RETRY_MS)
            except Exception:
                # Without its metadata a partition would be neither read nor copied any more.
                logger.exception("%s-%d cannot be read", REMOTE_LOG_METADATA_TOPIC, self.index)
                await _pause(self._broker, _RETRY_MS)

    async def _present_end(self) -> int:
        where = REMOTE_LOG_METADATA_TOPIC, self.index
        offsets = LatestOffsets(self._broker.partition, self._broker.routing)
        found = (await offsets.of([where]))[where]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def _read_here(self) -> None:
        """Read from this broker's replica, up to the high watermark."""
        broker = self._broker
        partition = broker.partition(REMOTE_LOG_METADATA_TOPIC, self.index)
        log = partition.log
        self._advance(log.start_offset)
        end_offset = partition.high_watermark
        if self._offset >= end_offset:
            await broker.waiting.until(
                lambda _: partition.high_watermark > self._offset,
                [partition],
                broker.clock.now_ms() + _POLL_MS,
            )
            return
        data = log.load(log.read(self._offset, _READ_BYTES, end_offset=end_offset))
        if not self._fold(data):
            self._advance(end_offset)  # Nothing is left up to there.
        await asyncio.sleep(0)

    async def _read_from_leader(self) -> None:
        found = await metadata_requests.read(
            self._broker.routing,
            _led_elsewhere(self._broker, self.index),
            self._offset,
            max_bytes=_READ_BYTES,
            max_wait_ms=_POLL_MS,
        )
        self._advance(found.start_offset)
        self._fold(found.records)

    def _fold(self, data: Buffer) -> bool:
        """Replay complete batches; False if there are none."""
        view = memoryview(data)
        has_any = False
        for at, header in batches(view):
            if at + header.size_bytes > len(view):
                break
            has_any = True
            if not header.attributes & CONTROL_BIT:
                for record in decode_records(view[at : at + header.size_bytes], header):
                    if record.offset >= self._offset:
                        self._replay(record)
            self._advance(header.end_offset)
        return has_any

    def _replay(self, record: Record) -> None:
        try:
            change = decode(record.value)
        except MalformedMetadata as error:
            self._skip(record, str(error))
            return
        if isinstance(change, PartitionDeletion):
            return  # Apache Kafka never writes them: each segment has records of its own.
        states = self.states.setdefault(change.partition, SegmentStates())
        applies = states.add(change) if isinstance(change, RemoteSegment) else states.update(change)
        if not applies:
            self._skip(record, f"segment {change.id.hex()} cannot become {change.state.name}")
        elif not len(states):
            del self.states[change.partition]
        if change.state is SegmentState.DELETE_STARTED:
            self._deleted(change.id)
        for promise in self._expected.get((change.id, change.state), ()):
            promise.set(change)

    def _skip(self, record: Record, reason: str) -> None:
        self.skipped += 1
        logger.warning(
            "%s-%d: the record at offset %d is skipped: %s",
            REMOTE_LOG_METADATA_TOPIC,
            self.index,
            record.offset,
            reason,
        )


def _led_elsewhere(broker: Broker, index: int) -> MetadataPartition:
    """A partition of the metadata topic and its leader. Raises KafkaError."""
    leader_id = broker.image.leader_of(REMOTE_LOG_METADATA_TOPIC, index)
    if leader_id is None or leader_id < 0:
        raise KafkaError(Error.LEADER_NOT_AVAILABLE)
    topic_id = broker.image.topics[REMOTE_LOG_METADATA_TOPIC].id
    return MetadataPartition(leader_id, REMOTE_LOG_METADATA_TOPIC, topic_id, index)


def _ignore(segment_id: bytes) -> None:
    """The default of `RemoteMetadata.deleted`."""


async def _pause(broker: Broker, duration_ms: int) -> None:
    await Promise[None]().within(broker.clock, duration_ms)
