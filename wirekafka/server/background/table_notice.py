"""Warns of topics that are to be Iceberg tables, on a broker that writes none."""

from __future__ import annotations

import logging

from wirekafka.broker import Broker
from wirekafka.config.options import TOPIC as OPTIONS
from wirekafka.config.own import TABLES, tables_url
from wirekafka.metadata.image.image import TOPIC

logger = logging.getLogger(__name__)

_MODE = OPTIONS["wirekafka.table.mode"].name
_MOST_NAMES = 10


class TableNotice:
    """Logs each topic once that this broker leads, and whose table it does not write.

    Such a topic is not refused: the controller that would have to does not know which brokers have
    the setting, and a broker that is started without it must serve the topics that there are.
    """

    def __init__(self, broker: Broker):
        self._broker = broker
        self._generation = -1
        self._known: frozenset[str] = frozenset()

    def notice_tables(self) -> None:
        """Look at the topics, if the metadata has changed."""
        broker, image = self._broker, self._broker.image
        if image.generation == self._generation or tables_url(broker.config.sources) is not None:
            return
        self._generation = image.generation
        found = frozenset(
            name
            for (kind, name), values in image.configs.items()
            if kind == TOPIC
            and _MODE in values
            and broker.topic_config(name).is_table
            and self._is_led_here(name)
        )
        added, self._known = sorted(found - self._known), found
        if added:
            logger.warning(
                "No table is written for %s: this broker has no %s. Retention waits if"
                " wirekafka.table.hold=true",
                _named(added),
                TABLES,
            )

    def _is_led_here(self, name: str) -> bool:
        topic = self._broker.image.topics.get(name)
        node_id = self._broker.node_id
        return topic is not None and any(
            partition.leader == node_id for partition in topic.partitions.values()
        )


def _named(topics: list[str]) -> str:
    more = len(topics) - _MOST_NAMES
    shown = ", ".join(topics[:_MOST_NAMES])
    return shown if more <= 0 else f"{shown} and {more} more topics"
