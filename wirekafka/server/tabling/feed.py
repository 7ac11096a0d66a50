"""What the worker of tables is sent: the partitions led here of topics that are tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wirekafka.broker import Broker
from wirekafka.config.options import TOPIC as OPTIONS
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metadata.image.image import TOPIC, TopicImage
from wirekafka.metrics.table_status import DeletableTable, DeletionMark
from wirekafka.replication.partition.partition import Partition

_MOST_DELETED = 1_000
_MODE = OPTIONS["wirekafka.table.mode"]


@dataclass(frozen=True, slots=True)
class TableTopic:
    """A topic that is a table, as the metadata has it."""

    image: TopicImage
    id: str
    """The topic id in base64."""
    config: TopicConfig
    deletion_mark: DeletionMark | None = None
    """Whether its table goes with the topic, since some metadata offset."""

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.image.name


def table_topics(broker: Broker) -> Iterator[TableTopic]:
    """The topics of the cluster that are tables."""
    image = broker.image
    for (kind, name), values in list(image.configs.items()):
        # Most topics have no such option: that is found without parsing the others.
        if kind == TOPIC and _MODE.name in values and name in image.topics:
            config = broker.topic_config(name)
            if config.is_table:
                topic = image.topics[name]
                mark = None
                if config.wirekafka_table_delete:
                    mark = DeletionMark(broker.cluster_id, broker.metadata_offset)
                yield TableTopic(topic, uuid_text(topic.id), config, mark)


class TableFeed:
    """The partitions to write to tables, read when they are asked for."""

    def __init__(self, broker: Broker, tier: str | None):
        """`tier` is the URL of tiered storage; None without, or if the broker has it by a class."""
        self._broker = broker
        self._tier = tier
        self._generation = -1
        self._config: object = None
        self._topics: list[TableTopic] = []
        self._marks: dict[str, DeletionMark] = {}
        """What each table that goes with its topic is marked with, by topic id."""
        self._doubtful: dict[str, tuple[DeletableTable, DeletionMark]] = {}
        """Tables, by topic id, whose topics may be gone: newer metadata will say."""
        self.deleted: dict[str, str] = {}
        """The names of topics led here that were deleted, with their tables, by their ids."""
        self.led: list[tuple[TableTopic, list[Partition]]] = []
        """The topics with partitions led here, as of the last `refresh`."""

    def refresh(self) -> None:
        """Find the topics that are tables, after a change of the metadata, and what is led here."""
        broker = self._broker
        generation, config = broker.image.generation, broker.config
        if generation != self._generation or config is not self._config:
            self._generation, self._config = generation, config
            self._topics = list(table_topics(broker))
            self._note_deletions()
            present = {topic.id for topic in self._topics}
            self._marks = {id: mark for id, mark in self._marks.items() if id in present}
            self._decide()
        self.led = [
            (topic, partitions) for topic in self._topics if (partitions := self._led_of(topic))
        ]

    def found(self, table: DeletableTable) -> None:
        """Take over that a table goes with its topic, which may have gone unnoticed.

        Raises ValueError for a mark that is none.
        """
        mark = DeletionMark.parse(table.mark)
        if mark.cluster_id == self._broker.cluster_id and len(self._doubtful) < _MOST_DELETED:
            self._doubtful[table.topic_id] = table, mark
            self._decide()

    def unreadable(self) -> list[TableTopic]:
        """The topics led here whose oldest records the worker cannot read: they are not sent."""
        return [topic for topic, _ in self.led if self._is_unreadable(topic)]

    def topics(self) -> list[dict[str, Any]]:
        """The entries of the worker's message, one for each topic."""
        return [
            {
                "topic": topic.name,
                "id": topic.id,
                "options": _options(topic.config),
                "partitions": {
                    str(each.index): [each.start_offset, each.last_stable_offset, each.leader_epoch]
                    for each in partitions
                },
                **self._marked(topic),
            }
            for topic, partitions in self.led
            if not self._is_unreadable(topic)
        ]

    def _marked(self, topic: TableTopic) -> dict[str, str]:
        """The mark of a table that goes with its topic, the same as long as this broker runs."""
        if topic.deletion_mark is None:
            return {}
        return {"deletion_mark": str(self._marks.setdefault(topic.id, topic.deletion_mark))}

    def _is_unreadable(self, topic: TableTopic) -> bool:
        return self._tier is None and topic.config.is_tiered

    def _led_of(self, topic: TableTopic) -> list[Partition]:
        partitions, name, id = self._broker.partitions, topic.name, topic.image.id
        return [
            found
            for index in sorted(topic.image.partitions)
            if (found := partitions.get((name, index))) is not None
            and found.is_leader
            and found.topic_id == id
        ]

    def _note_deletions(self) -> None:
        present = self._broker.image.topics_by_id
        for topic, _ in self.led:
            if topic.config.wirekafka_table_delete and topic.image.id not in present:
                self._delete(topic.name, topic.id)

    def _decide(self) -> None:
        """Note which of the doubtful tables are of deleted topics."""
        present = (
            {uuid_text(id) for id in self._broker.image.topics_by_id} if self._doubtful else ()
        )
        for id, (table, mark) in list(self._doubtful.items()):
            if id in present:
                del self._doubtful[id]
            elif self._broker.metadata_offset >= mark.metadata_offset:
                del self._doubtful[id]
                self._delete(table.topic, id)

    def _delete(self, name: str, id: str) -> None:
        self.deleted[id] = name
        if len(self.deleted) > _MOST_DELETED:
            del self.deleted[next(iter(self.deleted))]


def _options(config: TopicConfig) -> dict[str, Any]:
    return {
        "mode": config.wirekafka_table_mode,
        "write": config.wirekafka_table_write,
        "invalid_record_action": config.wirekafka_table_invalid_record_action,
        "partition_spec": config.wirekafka_table_partition_spec,
        "target_lag_ms": config.wirekafka_table_target_lag_ms,
        "hold": config.wirekafka_table_hold,
        "delete": config.wirekafka_table_delete,
    }
