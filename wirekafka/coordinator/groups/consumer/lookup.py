"""Resolves the regular expressions of a consumer group to topics."""

from __future__ import annotations

from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.records import ConsumerEpochRecord, ConsumerRegexRecord
from wirekafka.coordinator.groups.consumer.regex import matching_topics
from wirekafka.coordinator.groups.consumer.steps import Lookup
from wirekafka.coordinator.groups.consumer.subscriptions import ResolvedRegex
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order
from wirekafka.coordinator.topics import CoordinatedTopics, topics_hash


def write_lookup(
    group: ConsumerGroup, topics: CoordinatedTopics, lookup: Lookup, turn: Turn
) -> Steps[None]:
    """Write the topics that match each expression, in steps; a change begins a new epoch."""
    regexes = [regex for regex in lookup.regexes if regex in group.subscriptions.regexes]
    if not regexes:
        return
    # Topics that change while this goes on have a later version, for which there is a new lookup.
    version = topics.version
    matching = yield from matching_topics(regexes, topics.names(), lookup.visible)
    after = group.subscriptions.copy()
    is_new = False
    for regex in strings_in_order(regexes, grown_capacity(len(lookup.regexes), 1)):
        before = group.subscriptions.resolved.get(regex)
        resolved = ResolvedRegex(matching[regex], version, turn.now_ms)
        is_new = is_new or (before.topics if before is not None else frozenset()) != (
            resolved.topics
        )
        after.resolve(regex, resolved, len(group.members))
        turn.write(ConsumerRegexRecord.of(group.group_id, regex, resolved))
    metadata_hash = topics_hash(after.topics, topics)
    if is_new or metadata_hash != group.metadata_hash:
        turn.counts.consumer_rebalances += 1
        turn.write(ConsumerEpochRecord.of(group.group_id, group.epoch + 1, metadata_hash))
