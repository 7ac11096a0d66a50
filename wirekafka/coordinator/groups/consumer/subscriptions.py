"""The subscriptions of a consumer group's members, by name or regex, and their assignors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from wirekafka.coordinator.groups.consumer.member import ConsumerMember
from wirekafka.coordinator.java_order import (
    FIRST_SLOTS,
    copied_capacity,
    grown_capacity,
    java_text_order,
    sized_capacity,
    strings_in_order,
    timeline_ordered,
    timeline_slots,
)


class ResolvedRegex(NamedTuple):
    """The topics that match a regex, the metadata version of the lookup, and its time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Subscribers(NamedTuple):
    """The number of subscribers of a topic: members by name, and matching regexes."""

    by_name: int
    by_regex: int


_NOBODY = Subscribers(0, 0)


class Subscriptions:
    """Counts over all members' subscriptions, updated with each change of a member."""

    def __init__(self) -> None:
        self.topics: dict[str, Subscribers] = {}
        self.regexes: dict[str, int] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self._was_homogeneous: bool | None = True
        self._regex_slots = FIRST_SLOTS

    def copy(self) -> Subscriptions:
        """Copy the counts so that they can be changed independently."""
        copy = Subscriptions()
        copy.topics = dict(self.topics)
        copy.regexes = dict(self.regexes)
        copy.resolved = dict(self.resolved)
        copy._regex_slots = self._regex_slots
        return copy

    def after(self, old: ConsumerMember | None, new: ConsumerMember | None) -> Subscriptions:
        """Return a copy in which a member has changed; an unused regex is removed."""
        after = self.copy()
        after.change(old, new)
        regex = old.regex if old is not None else None
        if regex and regex not in after.regexes:
            after.forget(regex)
        return after

    def change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Update the counts for a member that joined, changed or left."""
        self._was_homogeneous = None
        if (
            old is not None
            and new is not None
            and old.topics is new.topics
            and not old.regex
            and not new.regex
        ):
            return  # As with most records: only the assignment of the member has changed.
        old_topics = old.topics if old is not None else frozenset()
        new_topics = new.topics if new is not None else frozenset()
        if old_topics is not new_topics:
            for topic in old_topics - new_topics:
                self._count(topic, by_name=-1)
            for topic in new_topics - old_topics:
                self._count(topic, by_name=1)
        old_regex = (old.regex if old is not None else None) or None
        new_regex = (new.regex if new is not None else None) or None
        # As with assignors, a regex of one member moves to the end when that member changes.
        if old_regex is not None and old_regex in self.regexes:
            self._use(old_regex, -1)
        if new_regex is not None:
            self._use(new_regex, 1)

    def _use(self, regex: str, count: int) -> None:
        members = self.regexes.get(regex, 0) + count
        if members:
            self._regex_slots = timeline_slots(self._regex_slots, len(self.regexes))
            self.regexes[regex] = members
        else:
            del self.regexes[regex]

    def regexes_after(self, old: ConsumerMember, new: ConsumerMember) -> list[str]:
        """Return the expressions in use once a member has changed, in Kafka's lookup order."""
        names = timeline_ordered(self.regexes, self._regex_slots)
        buckets = sized_capacity(len(names)) if names else grown_capacity(0)
        if old.regex and self.regexes.get(old.regex) == 1:
            names.remove(old.regex)
        if new.regex and new.regex not in names:
            names.insert(0, new.regex)
        return strings_in_order(names, buckets)

    def resolve(self, regex: str, resolved: ResolvedRegex, member_count: int) -> None:
        """Set the topics that match a regular expression."""
        self.forget(regex, member_count)
        self.resolved[regex] = resolved
        for topic in resolved.topics:
            self._count(topic, by_regex=1)

    def forget(self, regex: str, member_count: int = 0) -> None:
        """Remove the topics of a regular expression."""
        # Kafka updates whether the group is homogeneous when a member changes, not a topic.
        self._was_homogeneous = self.is_homogeneous(member_count)
        resolved = self.resolved.pop(regex, None)
        if resolved is not None:
            for topic in resolved.topics:
                self._count(topic, by_regex=-1)

    def is_homogeneous(self, member_count: int) -> bool:
        """Whether all members had the same subscription when a member last changed."""
        if self._was_homogeneous is None:
            self._was_homogeneous = self.are_alike(member_count)
        return self._was_homogeneous

    def are_alike(self, member_count: int) -> bool:
        """Whether all of so many members have the same subscription, by name or by regex."""
        if not self.regexes:
            return all(count.by_name == member_count for count in self.topics.values())
        if next(iter(self.regexes.values())) != member_count:
            return False
        return all(count == (0, 1) for count in self.topics.values())

    def topics_of(self, member: ConsumerMember) -> list[str]:
        """Return the topics a member subscribes to, in Kafka's iteration order."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        names = topics_in_order(member.topics, member.requested_topics)
        if resolved is None:
            return names
        matched = topics_in_order(resolved.topics)
        # Kafka iterates over the larger set first.
        first, second = (names, matched) if len(names) > len(matched) else (matched, names)
        return list(dict.fromkeys((*first, *second)))

    def _count(self, topic: str, by_name: int = 0, by_regex: int = 0) -> None:
        count = self.topics.get(topic, _NOBODY)
        changed = Subscribers(count.by_name + by_name, count.by_regex + by_regex)
        if changed.by_name <= 0 and changed.by_regex <= 0:
            self.topics.pop(topic, None)
        else:
            self.topics[topic] = changed


class AssignorVotes:
    """The number of members per preferred server-side assignor; most members have none.

    Between equal numbers the order of Kafka's maps decides. A member that changes is removed and
    added again, which may change that order.
    """

    def __init__(self) -> None:
        self._votes: dict[str, int] = {}
        self._slots = FIRST_SLOTS

    def change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Update the counts for a member that joined, changed or left."""
        if old is not None and old.assignor in self._votes:
            self._cast(old.assignor, -1)
        if new is not None and new.assignor is not None:
            self._cast(new.assignor, 1)

    @property
    def is_unanimous(self) -> bool:
        """Whether no two members prefer different assignors."""
        return len(self._votes) < 2

    def preferred(self) -> str | None:
        """Return the assignor that most members prefer; None if no member has a preference."""
        return max(self._names(), key=self._votes.__getitem__, default=None)

    def preferred_after(self, old: ConsumerMember, new: ConsumerMember) -> str | None:
        """Return the preferred assignor once a member has changed."""
        names = self._names()
        votes = dict(self._votes)
        buckets = sized_capacity(len(names)) if names else grown_capacity(0)
        if old.assignor in votes:
            votes[old.assignor] -= 1
            if not votes[old.assignor]:
                names.remove(old.assignor)
        if new.assignor is not None:
            votes[new.assignor] = votes.get(new.assignor, 0) + 1
            if new.assignor not in names:
                # `HashMap.compute` puts a new key first in its bucket.
                names.insert(0, new.assignor)
        return max(strings_in_order(names, buckets), key=votes.__getitem__, default=None)

    def _cast(self, name: str, count: int) -> None:
        votes = self._votes.get(name, 0) + count
        if votes:
            self._slots = timeline_slots(self._slots, len(self._votes))
            self._votes[name] = votes
        else:
            del self._votes[name]

    def _names(self) -> list[str]:
        return timeline_ordered(self._votes, self._slots)


class ClassicProtocols:
    """The number of members that use the classic protocol, and that support each assignor."""

    def __init__(self) -> None:
        self.count = 0
        self._supporters: Counter[str] = Counter()

    def change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Update the counts for a member that joined, changed or left."""
        before = old.classic if old is not None else None
        after = new.classic if new is not None else None
        if before is after:
            return
        if before is not None:
            self.count -= 1
            self._supporters.subtract({each.name for each in before.supported_protocols})
        if after is not None:
            self.count += 1
            self._supporters.update({each.name for each in after.supported_protocols})

    def all_support(self, name: str) -> bool:
        """Whether all these members support an assignor."""
        return self._supporters[name] == self.count


def topics_in_order(topics: Collection[str], requested: Sequence[str] | None = None) -> list[str]:
    """Return topic names in the order of a Java set made from a record's or a request's list."""
    if requested is None and len(topics) < 2:
        return list(topics)
    listed = sorted(topics, key=java_text_order) if requested is None else requested
    if len(listed) < 2:
        return list(listed)
    return strings_in_order(dict.fromkeys(listed), copied_capacity(len(listed)))
