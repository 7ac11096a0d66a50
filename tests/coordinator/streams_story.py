"""Members of one streams group, and the tasks each has been assigned."""

from __future__ import annotations

from typing import Any, cast

from tests.coordinator.group_machines import GroupMachines
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds

GROUP = "g"
_VERSION = 1

Subtopology = StreamsGroupTopologyValue.Subtopology


def topology(*, changelog: str | None = None, epoch: int = 0) -> Any:
    """One subtopology that reads the topic `t`, whose three partitions make three tasks."""
    return StreamsGroupHeartbeatRequest.Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["t"],
                state_changelog_topics=[] if changelog is None else [TopicInfo(name=changelog)],
            )
        ],
    )


class StreamsStory:
    """The group `g`, whose members are referred to by their ids, also used as process ids."""

    def __init__(self, broker: GroupMachines):
        self.broker = broker
        self.epochs: dict[str, int] = {}
        self.active: dict[str, list[int]] = {}
        self.last: Any = None

    def ask(self, member: str, epoch: int, *, owned: list[int] | None = None, **fields: Any) -> Any:
        """Send a heartbeat; returns the response. `owned` are active tasks."""
        active = None
        if owned is not None:
            active = [TaskIds(subtopology_id="0", partitions=owned)] if owned else []
        self.last = self.broker.ask(
            StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member,
                member_epoch=epoch,
                active_tasks=active,
                standby_tasks=None if active is None else [],
                warmup_tasks=None if active is None else [],
                **fields,
            ),
            _VERSION,
        )
        self.broker.clock.advance(0)
        return self.last

    def join(self, member: str, **fields: Any) -> Any:
        answer = self.ask(
            member,
            0,
            owned=[],
            **{
                "rebalance_timeout_ms": 300_000,
                "process_id": member,
                "client_tags": [],
                "topology": topology(),
            }
            | fields,
        )
        self._take(member, answer)
        return answer

    def beat(self, member: str, **fields: Any) -> None:
        self._take(member, self.ask(member, self.epochs[member], **fields))

    def acknowledge(self, member: str) -> None:
        """Have the member report that it runs its assigned active tasks and nothing else."""
        self.beat(member, owned=self.active[member])

    def has(self, member: str, epoch: int, active: list[int]) -> None:
        """The member must have these tasks in this epoch."""
        assert (self.epochs[member], self.active[member]) == (epoch, active)

    def status(self) -> list[tuple[int, str]]:
        """The status in the last response."""
        return [(each.status_code, each.status_detail) for each in self.last.status]

    def later(self, ms: int) -> None:
        self.broker.clock.advance(ms)

    def restart(self) -> None:
        """Replace the coordinator by one that loads the log."""
        for index, log in enumerate(self.broker.logs):
            self.broker.groups.lead(index, log)
        self.broker.clock.advance(0)

    def shard(self) -> GroupShard:
        return cast(GroupShard, self.broker.groups.shard_for(GROUP).machine)

    def group(self) -> StreamsGroup:
        group = self.shard().groups[GROUP]
        assert isinstance(group, StreamsGroup)
        return group

    def _take(self, member: str, answer: Any) -> None:
        assert answer.error_code == 0, answer
        self.epochs[member] = answer.member_epoch
        if answer.active_tasks is not None:
            self.active[member] = [
                partition for tasks in answer.active_tasks for partition in tasks.partitions
            ]
