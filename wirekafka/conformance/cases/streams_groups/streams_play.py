"""Members of one streams group in cases: their topologies, heartbeats and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wirekafka.conformance.cases.consumer_groups.consumer_play import configure, member_id
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds

REBALANCE_MS = 300_000
_PROBE = "probe"
_MISSING = 1
"""The status of a group whose source topics are missing."""
Topology = StreamsGroupHeartbeatRequest.Topology
Part = StreamsGroupTopologyValue.Subtopology
Tasks = dict[str, list[int]]
"""Partitions by subtopology."""


def topology(*sources: str, epoch: int = 0, **fields: Any) -> Any:
    """A topology of one subtopology that reads these topics."""
    part = Part(subtopology_id="0", source_topics=list(sources), **fields)
    return Topology(epoch=epoch, subtopologies=[part])


def internal(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    """An internal topic; its partitions are 0 where the coordinator finds out how many."""
    config = TopicInfo.TopicConfig
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=1,
        topic_configs=[
            config(key=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def tasks(owned: Tasks) -> list[TaskIds]:
    """Tasks as they are in requests."""
    return [TaskIds(subtopology_id=id, partitions=each) for id, each in owned.items()]


@dataclass(slots=True)
class StreamsActor:
    """One member: what it says at first, and what it was answered."""

    fields: dict[str, Any]
    epoch: int = 0
    endpoint_epoch: int = 0
    given: tuple[Tasks, Tasks, Tasks] = field(default_factory=lambda: ({}, {}, {}))

    def take(self, answer: Any) -> None:
        """Take the epochs and the tasks of an answer."""
        if answer.error_code or answer.member_epoch < 0:
            return
        self.epoch = answer.member_epoch
        self.endpoint_epoch = answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            active, standby, warmup = (
                {each.subtopology_id: sorted(each.partitions) for each in given or []}
                for given in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            )
            self.given = active, standby, warmup


class StreamsPlay:
    """One streams group of a case, which assigns without delay."""

    def __init__(self, stage: Stage, **configs: str) -> None:
        self.stage, self.group_id = stage, stage.name("g")
        self.actors: dict[str, StreamsActor] = {}
        options = {
            "streams_initial_rebalance_delay_ms": "0",
            "streams_assignment_interval_ms": "0",
            **configs,
        }
        configure(stage, self.group_id, **options)

    def create(self, text: str, partitions: int = 1) -> str:
        """Create a topic and wait until the group's coordinator knows it, before the first join."""
        name = self.stage.create(text, partitions=partitions)

        def is_known() -> bool:
            answer = self.stage.do(self.joining(_PROBE, topology(name)), 1)
            del self.actors[_PROBE]
            self.stage.do(self.request(_PROBE, -1), 1)
            self.stage.do(DeleteGroupsRequest(groups_names=[self.group_id]), 2)
            return all(each.status_code != _MISSING for each in answer.status or [])

        self.stage.until(is_known, f"the coordinator knows {name}")
        return name

    def request(self, who: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
        """A heartbeat that says only what is given."""
        self.stage.call(member_id(who), who)
        values = {"group_id": self.group_id, "member_id": member_id(who), **fields}
        return StreamsGroupHeartbeatRequest(member_epoch=epoch, **values)

    def joining(self, who: str, of: Any, **fields: Any) -> StreamsGroupHeartbeatRequest:
        """The first heartbeat of a member."""
        said = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topology": of,
            "process_id": f"process of {who}",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            **fields,
        }
        self.actors[who] = StreamsActor(fields)
        return self.request(who, 0, **said)

    def join(self, who: str, of: Any, **fields: Any) -> Any:
        """Join; returns the answer."""
        return self.take(who, self.send(self.joining(who, of, **fields)))

    def beat(self, who: str, **fields: Any) -> Any:
        """A heartbeat that says what the member owns; returns the answer."""
        return self.take(who, self.send(self.full(who, **fields)))

    def leave(self, who: str, epoch: int = -1, **fields: Any) -> Any:
        """Leave; returns the answer."""
        request = self.request(who, epoch, **self._static(who), **fields)
        self.actors.pop(who)
        return self.send(request)

    def full(self, who: str, **fields: Any) -> StreamsGroupHeartbeatRequest:
        """A heartbeat that says what the member owns."""
        actor = self.actors[who]
        names = ("active_tasks", "standby_tasks", "warmup_tasks")
        owned = {name: tasks(each) for name, each in zip(names, actor.given, strict=True)}
        said = {
            **owned,
            **self._static(who),
            "endpoint_information_epoch": actor.endpoint_epoch,
            **fields,
        }
        return self.request(who, said.pop("epoch", actor.epoch), **said)

    def send(self, request: StreamsGroupHeartbeatRequest) -> Any:
        """Send a heartbeat, which is compared in a case about heartbeats."""
        if self.stage.case.request is StreamsGroupHeartbeatRequest:
            return self.stage.ask(request)
        return self.stage.do(request, 1)

    def take(self, who: str, answer: Any) -> Any:
        """Remember what a member was answered; returns it."""
        self.actors[who].take(answer)
        return answer

    def settle(self, *states: str) -> None:
        """Heartbeats that are not compared until the group is in a state, by default stable."""

        def is_settled() -> bool:
            for who in self.actors:
                self.take(who, self.stage.do(self.full(who), 1))
            request = StreamsGroupDescribeRequest(group_ids=[self.group_id])
            found = self.stage.do(request, 0).groups[0]
            return found.group_state in (states or ("Stable", "Empty"))

        self.stage.until(is_settled, f"{self.group_id} is settled")

    def show(self, *states: str) -> None:
        """Settle, then compare the epochs and tasks of the members."""
        self.settle(*states)
        for who, actor in self.actors.items():
            named = dict(zip(("active", "standby", "warmup"), actor.given, strict=True))
            self.stage.note(f"tasks of {who}", {"epoch": actor.epoch, **named})

    def counts(self) -> Sequence[int]:
        """The numbers of active tasks, sorted."""
        return sorted(sum(map(len, each.given[0].values())) for each in self.actors.values())

    def _static(self, who: str) -> dict[str, Any]:
        fields = self.actors[who].fields
        return {"instance_id": fields["instance_id"]} if "instance_id" in fields else {}
