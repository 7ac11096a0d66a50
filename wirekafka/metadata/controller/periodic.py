"""The periodic work of the active controller: elections without a request, NoOp records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wirekafka.codec.message import Message
from wirekafka.metadata.controller.command import ControllerState
from wirekafka.metadata.controller.elections import elected
from wirekafka.metadata.controller.topic_rules import TopicRules
from wirekafka.metadata.image.image import PartitionImage, TopicImage
from wirekafka.metadata.image.partition_change import ElectionRule
from wirekafka.protocol.records.metadata import NoOpRecord
from wirekafka.replication.partition.replica import NO_LEADER

BALANCE, UNCLEAN, NO_OP = "preferred leaders", "unclean elections", "no-op records"
"""The keys of the timers."""

_MOST_ELECTIONS = 300
"""How many elections one batch has; Kafka has 1,000, which takes Python too long for one step."""
_AGAIN_MS = 10
"""The pause before the next batch of elections, as in Kafka."""
_LONE_PAUSES = 10
"""How many intervals without NoOp records pass before a lone node looks for followers again."""


class Periodic:
    """The periodic tasks of the active controller."""

    def __init__(self, state: ControllerState):
        self._state = state

    def first(self, now_ms: int) -> Iterator[tuple[str, int]]:
        """The tasks, and when each is due for the first time."""
        config = self._state.config
        if config.auto_leader_rebalance_enable:
            yield BALANCE, now_ms + config.leader_imbalance_check_interval_seconds * 1000
        yield UNCLEAN, now_ms + config.unclean_leader_election_interval_ms
        if config.metadata_max_idle_interval_ms:
            yield NO_OP, now_ms + config.metadata_max_idle_interval_ms

    def run(self, task: str, now_ms: int) -> tuple[Sequence[Message], int]:
        """The records of a due task, and the time at which the task is due again."""
        config = self._state.config
        match task:
            case "preferred leaders":
                records = self._elections(ElectionRule.PREFERRED)
                interval_ms = config.leader_imbalance_check_interval_seconds * 1000
            case "unclean elections":
                records = self._elections(ElectionRule.UNCLEAN)
                interval_ms = config.unclean_leader_election_interval_ms
            case _:
                interval_ms = config.metadata_max_idle_interval_ms
                if self._has_followers():
                    return [NoOpRecord()], now_ms + interval_ms
                return (), now_ms + _LONE_PAUSES * interval_ms
        has_more = len(records) >= _MOST_ELECTIONS
        return records, now_ms + (_AGAIN_MS if has_more else interval_ms)

    def _elections(self, kind: ElectionRule) -> list[Message]:
        rules = TopicRules(self._state)
        records: list[Message] = []
        for topic, partition in self._candidates(kind, rules):
            change = elected(topic, partition, rules, kind)
            if change is not None:
                records.append(change)
                if len(records) == _MOST_ELECTIONS:
                    break
        return records

    def _candidates(
        self, kind: ElectionRule, rules: TopicRules
    ) -> Iterator[tuple[TopicImage, PartitionImage]]:
        for topic in self._state.image.topics.values():
            if (
                kind is ElectionRule.UNCLEAN
                and rules.of(topic).election is not ElectionRule.UNCLEAN
            ):
                continue
            for partition in topic.partitions.values():
                leader = partition.leader
                if leader == NO_LEADER or (
                    kind is ElectionRule.PREFERRED and leader != partition.replicas[0]
                ):
                    yield topic, partition

    def _has_followers(self) -> bool:
        """Whether other nodes follow the metadata log."""
        own = self._state.config.node_id
        return any(id != own for id in (*self._state.voters(), *self._state.image.brokers))
