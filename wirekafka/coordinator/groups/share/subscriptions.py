"""The number of members of a share group that subscribe to each topic."""

from __future__ import annotations

from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.coordinator.java_order import (
    FIRST_SLOTS,
    HashOrder,
    grown_capacity,
    sized_capacity,
    strings_in_order,
    timeline_ordered,
    timeline_slots,
)


class ShareSubscriptions:
    """Counts over all members' subscriptions, updated with each change of a member.

    The topics are in the order of Kafka's map, from which a topic is removed and added again when
    its only subscriber changes.
    """

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self._slots = FIRST_SLOTS

    def change(self, old: ShareMember | None, new: ShareMember | None) -> None:
        """Update the counts for a member that joined, changed or left."""
        for topic in _ordered(old):
            count = self.topics[topic] - 1
            if count:
                # The map may grow whenever it stores an entry, even for a known topic.
                self._slots = timeline_slots(self._slots, len(self.topics))
                self.topics[topic] = count
            else:
                del self.topics[topic]
        for topic in _ordered(new):
            self._slots = timeline_slots(self._slots, len(self.topics))
            self.topics[topic] = self.topics.get(topic, 0) + 1

    def names(self) -> list[str]:
        """Return the topics that are subscribed to."""
        return timeline_ordered(self.topics, self._slots)

    def after(self, old: ShareMember, new: ShareMember) -> dict[str, int]:
        """Return the counts once a member has changed; for a new member, `old` has no topics."""
        names = self.names()
        buckets = sized_capacity(len(names)) if names else grown_capacity(0)
        order = HashOrder(java_hash_code, buckets)
        for name in strings_in_order(names, buckets):
            order.put(name)
        counts = dict(self.topics)
        for topic in _ordered(old):
            counts[topic] -= 1
            if not counts[topic]:
                order.remove(topic)
                del counts[topic]
        for topic in _ordered(new):
            order.compute(topic)
            counts[topic] = counts.get(topic, 0) + 1
        return {topic: counts[topic] for topic in order.walk()}


def _ordered(member: ShareMember | None) -> list[str]:
    return [] if member is None else member.ordered_topics()
