"""Applies committed metadata to a broker: its partitions, their leadership, and configs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from wirekafka.clock import Clock
from wirekafka.errors import KafkaError
from wirekafka.metadata.image.image import BROKER, TOPIC, MetadataImage, PartitionImage, TopicImage
from wirekafka.protocol.records import metadata as r
from wirekafka.runtime.observation import Committed
from wirekafka.runtime.promise import Promise, pause

logger = logging.getLogger(__name__)

_TURN_MS = 2
"""How long partitions are placed and dropped before yielding to the event loop."""
_RETRY_MS = 1_000
_DONE = object()
_MAY_REMOVE_TOPICS = (r.RemoveTopicRecord, r.EndTransactionRecord)


class MetadataHost(Protocol):
    """The operations by which a broker applies metadata that concerns it."""

    def place_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """Create or update the replica of a partition assigned to this broker."""

    def drop_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """Delete the replica of a partition whose topic was deleted or that was reassigned."""

    def configure_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Replace the dynamic configs of a topic by the given configs."""

    def configure_broker(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Replace the dynamic configs of all brokers and of this broker by the given configs."""

    def image_changed(self, committed: Committed, removed: Sequence[TopicImage]) -> None:
        """Note that a batch was replayed into the image, and which topics it has removed."""

    def topics_deleted(self, topics: Sequence[TopicImage]) -> None:
        """Discard the state of deleted topics, such as committed offsets."""


class Publisher:
    """One broker's metadata image, whose changes are applied to its host.

    Until `start`, records only build the image, so that a start processes each partition once,
    however long its history. If the host fails for one partition, the failure is logged and retried
    while other partitions proceed. `failed` is called if a retry fails unexpectedly.
    """

    def __init__(
        self, node_id: int, host: MetadataHost, clock: Clock, failed: Callable[[Exception], None]
    ):
        self.image = MetadataImage()
        self.end_offset = 0
        """The end offset of the image; the host may still be applying its last changes."""
        self._node_id = node_id
        self._host = host
        self._clock = clock
        self._failed = failed
        self._started = False
        self._current: Committed | None = None
        self._applied: Sequence[Any] = ()
        self._gone: Sequence[TopicImage] = ()
        self._fault: Exception | None = None
        self._is_retrying = False
        self._lagging: dict[tuple[bytes, int], tuple[TopicImage, PartitionImage]] = {}
        self._reported = 0
        """The number of lagging partitions that was logged last."""
        self._waiting: list[tuple[Callable[[MetadataImage], bool], Promise[None]]] = []

    def take(self, committed: Committed) -> Iterator[None]:
        """Replay a batch into the image and apply it to the host; an `Observer`.

        A batch that is delivered again because applying it failed is not replayed again.
        """
        if self._current is not committed:
            self._current = committed
            self._fold(committed)
        if self._fault is not None:
            raise self._fault
        if self._started:
            changes = self._following_all() if committed.is_snapshot else self._following()
            yield from self._in_turns(changes)

    async def start(self) -> None:
        """Apply the whole image to the host, and from now on every change."""
        self._started = True
        self.image.security.acl_index.is_loaded = True
        self._configure_broker()
        for _ in self._in_turns(self._placing_all()):
            await pause(self._clock, 0)

    @property
    def lagging(self) -> int:
        """The number of partitions to which metadata could not be applied yet."""
        return len(self._lagging)

    async def until(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Wait until a condition holds for the image; does not suspend if it does already."""
        if not holds(self.image):
            promise: Promise[None] = Promise()
            self._waiting.append((holds, promise))
            await promise

    def _fold(self, committed: Committed) -> None:
        try:
            if committed.is_snapshot:
                self._replace(committed.records)
            else:
                self._replay(committed.records)
        except Exception as error:
            self._fault = error  # Half of the batch is in the image: every retry must fail.
            return
        self.end_offset = committed.end_offset
        self._host.image_changed(committed._replace(records=self._applied), self._gone)
        for waiting in list(self._waiting):
            holds, promise = waiting
            if holds(self.image):
                self._waiting.remove(waiting)
                promise.set(None)

    def _replay(self, records: Sequence[Any]) -> None:
        """Replay records, and note the records that have taken effect and the removed topics."""
        before = self.image.topics_by_id
        if any(isinstance(record, _MAY_REMOVE_TOPICS) for record in records):
            before = dict(before)
        self._applied = [each for record in records for each in self.image.replay(record)]
        self._gone = [
            before[record.topic_id]
            for record in self._applied
            if isinstance(record, r.RemoveTopicRecord) and record.topic_id in before
        ]

    def _replace(self, records: Sequence[Any]) -> None:
        """Replace the image by a snapshot's image, and note the removed topics."""
        image = MetadataImage()
        self._applied = [each for record in records for each in image.replay(record)]
        self._gone = [
            topic for id, topic in self.image.topics_by_id.items() if id not in image.topics_by_id
        ]
        self.image.become(image)

    def _in_turns(self, changes: Iterable[Callable[[], None]]) -> Iterator[None]:
        """Make the changes, yielding after every `_TURN_MS`."""
        turn_ends_ms = self._clock.now_ms() + _TURN_MS
        for change in changes:
            change()
            if self._clock.now_ms() >= turn_ends_ms:
                yield
                turn_ends_ms = self._clock.now_ms() + _TURN_MS

    def _placing_all(self) -> Iterator[Callable[[], None]]:
        for topic in list(self.image.topics.values()):
            for index in list(topic.partitions):
                yield partial(self._place, topic.id, index)

    def _following(self) -> Iterator[Callable[[], None]]:
        """The host's changes for the records that have taken effect."""
        partitions: dict[tuple[bytes, int], None] = {}
        resources: dict[tuple[int, str], None] = {}
        for record in self._applied:
            match record:
                case r.PartitionRecord() | r.PartitionChangeRecord():
                    partitions[record.topic_id, record.partition_id] = None
                case r.ConfigRecord():
                    resources[record.resource_type, record.resource_name] = None
        yield from self._dropping()
        for topic_id, index in partitions:
            yield partial(self._place, topic_id, index)
        for resource_type, name in resources:
            yield partial(self._configure, resource_type, name)

    def _following_all(self) -> Iterator[Callable[[], None]]:
        """The host's changes after a snapshot: everything, since the differences are unknown."""
        yield from self._dropping()
        yield self._configure_broker
        yield from self._placing_all()
        for name in list(self.image.topics):
            yield partial(self._configure, TOPIC, name)

    def _dropping(self) -> Iterator[Callable[[], None]]:
        gone = self._gone
        for topic in gone:
            for partition in topic.partitions.values():
                yield partial(self._try, self._host.drop_partition, topic, partition)
        if gone:
            yield partial(self._host.topics_deleted, gone)

    def _place(self, topic_id: bytes, index: int) -> None:
        """Place or drop a partition according to the current image."""
        topic = self.image.topics_by_id.get(topic_id)
        partition = topic.partitions.get(index) if topic is not None else None
        if topic is None or partition is None:
            return
        is_here = self._node_id in partition.replicas
        self._try(
            self._host.place_partition if is_here else self._host.drop_partition, topic, partition
        )

    def _try(
        self,
        change: Callable[[TopicImage, PartitionImage], None],
        topic: TopicImage,
        partition: PartitionImage,
    ) -> None:
        """Apply a change; if it fails, log and retry it, so that other partitions proceed."""
        key = topic.id, partition.index
        try:
            change(topic, partition)
        except (KafkaError, OSError) as error:
            if not self._lagging:
                self._reported = 1
                logger.error(
                    "Applying metadata to %s-%d failed; it is retried: %s",
                    topic.name,
                    partition.index,
                    error.__cause__ or error,
                )
            self._lagging[key] = topic, partition
            if not self._is_retrying:
                self._is_retrying = True
                self._clock.call_later(_RETRY_MS, self._retry)
        else:
            if self._lagging.pop(key, None) is not None and not self._lagging:
                logger.info(
                    "Applying metadata to %s-%d succeeded: nothing is left to be retried",
                    topic.name,
                    partition.index,
                )

    def _retry(self) -> None:
        self._go_on(
            self._in_turns([partial(self._again, *each) for each in self._lagging.values()])
        )

    def _go_on(self, steps: Iterator[None]) -> None:
        try:
            is_done = next(steps, _DONE) is _DONE
        except Exception as error:
            logger.critical("Retrying to apply metadata failed unexpectedly", exc_info=error)
            self._failed(error)
            return
        if not is_done:
            self._clock.call_later(0, partial(self._go_on, steps))
        elif self._lagging:
            if len(self._lagging) != self._reported:
                self._reported = len(self._lagging)
                logger.error("Metadata is not applied to %d partitions yet", self._reported)
            self._clock.call_later(_RETRY_MS, self._retry)
        else:
            self._is_retrying = False

    def _again(self, topic: TopicImage, partition: PartitionImage) -> None:
        if topic.id in self.image.topics_by_id:
            self._place(topic.id, partition.index)
        else:
            self._try(self._host.drop_partition, topic, partition)

    def _configure(self, resource_type: int, name: str) -> None:
        if resource_type == TOPIC:
            self._host.configure_topic(name, self.image.config(TOPIC, name))
        elif resource_type == BROKER and name in ("", str(self._node_id)):
            self._configure_broker()

    def _configure_broker(self) -> None:
        self._host.configure_broker(
            self.image.config(BROKER, ""), self.image.config(BROKER, str(self._node_id))
        )
