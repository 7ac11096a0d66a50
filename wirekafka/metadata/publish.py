"""Brings a broker in line with the metadata as it commits: partitions, leadership, configs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from wirekafka.errors import KafkaError
from wirekafka.metadata import records as r
from wirekafka.metadata.image import BROKER, TOPIC, MetadataImage, PartitionImage, TopicImage

logger = logging.getLogger(__name__)


class Host(Protocol):
    """What a broker does about metadata that concerns it."""

    def place_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """A replica of this partition belongs here, led as the image says: make or change it."""

    def drop_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """The partition does not belong here any more: its topic is gone, or it moved away."""

    def configure_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """The topic's own configs are now these."""

    def configure_broker(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """The dynamic configs of all brokers, and of this one, are now these."""

    def topics_deleted(self, topics: Sequence[TopicImage]) -> None:
        """These topics are gone; whoever keeps anything about them may forget it."""


_Change = Callable[[TopicImage, PartitionImage], None]


class Publisher:
    """One broker's view of the metadata, and what follows from it.

    Until `start`, records only make up the image: a start looks at each partition once, however
    long its history.
    """

    def __init__(self, node_id: int, image: MetadataImage, host: Host):
        self._node_id = node_id
        self._image = image
        self._host = host
        self._started = False

    def apply(self, records: Sequence[Any]) -> None:
        """Fold committed records into the image and do what they ask of this broker."""
        gone = [
            self._image.topics_by_id[record.topic_id] for record in records
            if isinstance(record, r.RemoveTopicRecord)
            and record.topic_id in self._image.topics_by_id
        ] if self._started else []
        for record in records:
            self._image.replay(record)
        if self._started:
            self._follow(records, gone)

    def start(self) -> None:
        """Bring the broker in line with the whole image; from now on it follows the changes."""
        self._started = True
        self._configure_broker()
        for topic in self._image.topics.values():
            for partition in topic.partitions.values():
                self._place(topic, partition)

    def _follow(self, records: Sequence[Any], gone: Sequence[TopicImage]) -> None:
        partitions: dict[tuple[bytes, int], None] = {}
        resources: dict[tuple[int, str], None] = {}
        for record in records:
            match record:
                case r.PartitionRecord() | r.PartitionChangeRecord():
                    partitions[record.topic_id, record.partition_id] = None
                case r.ConfigRecord():
                    resources[record.resource_type, record.resource_name] = None
        for topic in gone:
            for partition in topic.partitions.values():
                self._try(self._host.drop_partition, topic, partition)
        if gone:
            self._host.topics_deleted(gone)
        for topic_id, index in partitions:
            found = self._image.topics_by_id.get(topic_id)
            if found is not None:
                self._place(found, found.partitions[index])
        for resource_type, name in resources:
            self._configure(resource_type, name)

    def _place(self, topic: TopicImage, partition: PartitionImage) -> None:
        is_here = self._node_id in partition.replicas
        self._try(self._host.place_partition if is_here else self._host.drop_partition,
                  topic, partition)

    def _try(self, change: _Change, topic: TopicImage, partition: PartitionImage) -> None:
        """One partition's broken disk must not keep the others from following."""
        try:
            change(topic, partition)
        except (KafkaError, OSError) as error:
            logger.error("%s-%d does not follow its metadata until a restart: %s",
                         topic.name, partition.index, error)

    def _configure(self, resource_type: int, name: str) -> None:
        if resource_type == TOPIC:
            self._host.configure_topic(name, self._image.config(TOPIC, name))
        elif resource_type == BROKER and name in ("", str(self._node_id)):
            self._configure_broker()

    def _configure_broker(self) -> None:
        self._host.configure_broker(
            self._image.config(BROKER, ""), self._image.config(BROKER, str(self._node_id)))
