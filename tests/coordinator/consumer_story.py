"""Members of one consumer group, and what each has been assigned."""

from __future__ import annotations

from typing import Any, cast

from tests.coordinator.group_machines import GroupMachines
from tests.memory_log import MemoryLog
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest

_VERSION = 1
_GROUP = "g"


class Story:
    """The group `g`, whose members are referred to by their ids."""

    def __init__(self, broker: GroupMachines):
        self.broker = broker
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, dict[str, list[int]]] = {}
        self.instances: dict[str, str | None] = {}

    # What members do

    def ask(
        self,
        member: str,
        epoch: int,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        owned: list[tuple[str, list[int]]] | None = None,
        **fields: Any,
    ) -> Any:
        """Send a heartbeat; returns the response."""
        answer = self.broker.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=_GROUP,
                member_id=member,
                member_epoch=epoch,
                subscribed_topic_names=topics,
                subscribed_topic_regex=regex,
                topic_partitions=None
                if owned is None
                else [
                    ConsumerGroupHeartbeatRequest.TopicPartitions(
                        topic_id=self.broker.image.topics[topic].id, partitions=partitions
                    )
                    for topic, partitions in owned
                ],
                **fields,
            ),
            _VERSION,
        )
        # Timers that are due now fire now.
        self.broker.clock.advance(0)
        return answer

    def join(
        self,
        member: str,
        topics: list[str],
        *,
        rebalance_timeout_ms: int = 300_000,
        regex: str | None = None,
        instance_id: str | None = None,
    ) -> Any:
        self.instances[member] = instance_id
        answer = self.ask(
            member,
            0,
            topics=topics,
            regex=regex,
            owned=[],
            instance_id=instance_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
        )
        assert answer.error_code == 0, answer
        self._take(member, answer)
        return answer

    def beat(self, member: str) -> None:
        self._take(
            member, self.ask(member, self.epochs[member], instance_id=self.instances[member])
        )

    def acknowledge(self, member: str) -> None:
        """Have the member report that it owns its assignment and nothing else."""
        self._take(
            member,
            self.ask(
                member,
                self.epochs[member],
                owned=list(self.assigned[member].items()),
                instance_id=self.instances[member],
            ),
        )

    def gets(
        self, member: str, error: int, message: str | None = None, epoch: int | None = None
    ) -> None:
        """Send a heartbeat of the member; the response must have this error (or NONE)."""
        answer = self.ask(
            member,
            self.epochs[member] if epoch is None else epoch,
            instance_id=self.instances[member],
        )
        assert answer.error_code == error, answer
        assert message is None or answer.error_message == message

    def has(self, member: str, epoch: int, **partitions: list[int]) -> None:
        """The member must have this assignment and member epoch."""
        assert self.epochs[member] == epoch
        assert self.assigned[member] == partitions

    def _take(self, member: str, answer: Any) -> None:
        assert answer.error_code == 0, answer
        self.epochs[member] = answer.member_epoch
        if answer.assignment is not None:
            names = {topic.id: topic.name for topic in self.broker.image.topics.values()}
            self.assigned[member] = {
                names[topic.topic_id]: sorted(topic.partitions)
                for topic in answer.assignment.topic_partitions
            }

    # The coordinator

    def later(self, ms: int) -> None:
        self.broker.clock.advance(ms)

    def restart(self) -> None:
        """Replace the coordinator by one that loads the log."""
        for index, log in enumerate(self.broker.logs):
            self.broker.groups.lead(index, log)
        self.broker.clock.advance(0)

    def delete(self) -> int:
        answer = self.broker.ask(DeleteGroupsRequest(groups_names=[_GROUP]), 2)
        code: int = answer.results[0].error_code
        return code

    def shard(self) -> GroupShard:
        return cast(GroupShard, self.broker.groups.shard_for(_GROUP).machine)

    def group(self) -> ConsumerGroup:
        group = self.shard().groups[_GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def state(self) -> str:
        return self.group().state.value

    def log(self) -> MemoryLog:
        return self.broker.logs[self.broker.groups.partition_for(_GROUP)]
