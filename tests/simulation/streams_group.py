"""A process of a streams application (KIP-1071): it reads the partitions of its active tasks."""

from __future__ import annotations

from random import Random

from tests.histories.history import Place
from tests.simulation.consumer_group import REBALANCE_TIMEOUT_MS, BrokerAssignedMember
from tests.simulation.world import TOPICS, World
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

SETTINGS = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "100",
    "group.streams.assignment.interval.ms": "200",
    "group.streams.num.standby.replicas": "1",
}
_SUBTOPOLOGIES = dict(enumerate(TOPICS))
"""Each topic is read by a subtopology of its own, so that its partitions are tasks."""
_NOTHING: dict[str, list[int]] = {}


class StreamsProcess(BrokerAssignedMember):
    """One member. All subtopologies but the first have state, and so standby tasks."""

    def __init__(self, world: World, name: str, group: str, random: Random):
        self._standby = self._warmup = _NOTHING
        super().__init__(world, name, group, random)

    def _join_as_new_member(self) -> None:
        super()._join_as_new_member()
        self._standby = self._warmup = _NOTHING

    def _heartbeat(self, epoch: int | None = None) -> StreamsGroupHeartbeatRequest:
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch if epoch is None else epoch,
            instance_id=self._instance_id,
        )
        if epoch is None and self._is_full:
            request.active_tasks = _task_ids(_tasks(set(self._reader.positions)))
            request.standby_tasks = _task_ids(self._standby)
            request.warmup_tasks = _task_ids(self._warmup)
        if epoch is None and self._epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.process_id = self._name
            request.client_tags = []
            request.topology = self._topology()
        return request

    def _assigned_by(self, response: StreamsGroupHeartbeatResponse) -> set[Place] | None:
        if response.active_tasks is None:
            return None
        standby, warmup = _read(response.standby_tasks), _read(response.warmup_tasks)
        # The coordinator waits until the member has reported its assigned tasks.
        self._is_full = (standby, warmup) != (self._standby, self._warmup)
        self._standby, self._warmup = standby, warmup
        return {
            (_SUBTOPOLOGIES[int(id)], partition)
            for id, partitions in _read(response.active_tasks).items()
            for partition in partitions
        }

    def _topology(self) -> StreamsGroupHeartbeatRequest.Topology:
        return StreamsGroupHeartbeatRequest.Topology(
            subtopologies=[
                StreamsGroupTopologyValue.Subtopology(
                    subtopology_id=str(number),
                    source_topics=[topic],
                    state_changelog_topics=[TopicInfo(name=f"{self._group}-{topic}-changelog")]
                    if number
                    else [],
                )
                for number, topic in _SUBTOPOLOGIES.items()
            ]
        )


def _tasks(places: set[Place]) -> dict[str, list[int]]:
    tasks = {
        str(number): sorted(index for name, index in places if name == topic)
        for number, topic in _SUBTOPOLOGIES.items()
    }
    return {id: partitions for id, partitions in tasks.items() if partitions}


def _task_ids(tasks: dict[str, list[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=id, partitions=partitions) for id, partitions in tasks.items()]


def _read(tasks: list[TaskIds] | None) -> dict[str, list[int]]:
    return {each.subtopology_id: list(each.partitions) for each in tasks or ()}
