"""Topics whose ids share a bucket of Java's hash maps, where only a map's history orders them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from compat_tests.lives import Topics
from wirekafka.coordinator.java_order import uuid_hash_code

_CANDIDATES = 49
"""Enough topics for four to share one of the 16 buckets of a Java map, whatever their ids."""
_ALIKE = (3, 1, 17, 3)
"""How many partitions each of those four has; the others decide when a map grows."""
_OTHERS = 9
_LATE = 6
"""The partitions of a topic that is created in the middle of the histories."""


class AlikeTopics(Topics):
    """Topics that all groups subscribe to; the first four have ids that share a bucket."""

    def create(self, prefix: str, group_ids: Sequence[str]) -> dict[str, Mapping[str, int]]:
        """Create topics, of which Kafka chooses the ids, and use those whose ids are alike."""
        names = [f"{prefix}-{number}" for number in range(_CANDIDATES)]
        self.both.create_topics(dict.fromkeys(names, 1))
        ids = self.both.topic_ids()
        alike: dict[int, list[str]] = defaultdict(list)
        for name in names:
            code = uuid_hash_code(ids[name])
            alike[(code ^ code >> 16) % 16].append(name)
        first = max(alike.values(), key=len)[: len(_ALIKE)]
        others = [name for name in names if name not in first][:_OTHERS]
        topics = dict(zip(first, _ALIKE, strict=True)) | dict.fromkeys(others, 3)
        self.both.grow_topics({name: count for name, count in topics.items() if count > 1})
        self.gone, self._grown, self._late = *first[:2], f"{prefix}-late"
        return {id: {**topics, self._late: _LATE} for id in group_ids}

    def change(self) -> None:
        """Create a topic, and add partitions to another."""
        self.both.create_topics({self._late: _LATE})
        self.both.grow_topics({self._grown: 4})
