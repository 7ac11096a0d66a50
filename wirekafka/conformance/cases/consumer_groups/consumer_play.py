"""Members of one consumer group in cases: their heartbeats, and what is then assigned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wirekafka.conformance.stage import Stage
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

REBALANCE_MS = 300_000
GROUP_CONFIG = 32
"""The type of resources that are the configurations of groups."""
_ID_LENGTH = 22
_PROBE = "probe"

Owned = dict[str, list[int]]
"""Partitions by the name of the topic."""


def member_id(who: str) -> str:
    """An id as clients of Kafka make it, the same in every run: assignments may depend on it."""
    return (who + "A" * _ID_LENGTH)[:_ID_LENGTH]


def _fields(topics: Sequence[str]) -> dict[str, Any]:
    """What a member says at first."""
    return {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": list(topics)}


def configure(stage: Stage, group_id: str, **configs: str) -> Any:
    """Set options of a group, whose names have underscores; returns the answer for it.

    What is accepted has reached the broker then.
    """
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        resource.AlterableConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=GROUP_CONFIG, resource_name=group_id, configs=changes)]
    )
    answer = stage.do(request, 1).responses[0]
    if not answer.error_code:
        wanted = {key.replace("_", "."): value for key, value in configs.items()}
        stage.until(lambda: _has(stage, group_id, wanted), f"the options of {group_id}")
    return answer


def _has(stage: Stage, group_id: str, wanted: Mapping[str, str]) -> bool:
    resource = DescribeConfigsRequest.Resource(
        resource_type=GROUP_CONFIG, resource_name=group_id, configuration_keys=list(wanted)
    )
    found = stage.do(DescribeConfigsRequest(resources=[resource]), 1).results[0].configs
    return {each.name: each.value for each in found} == wanted


@dataclass(slots=True)
class ConsumerActor:
    """One member: what it says in each full heartbeat, and what it was answered."""

    id: str
    fields: dict[str, Any]
    epoch: int = 0
    given: Owned = field(default_factory=dict)
    is_present: bool = False

    def take(self, answer: Any, names: dict[bytes, str]) -> None:
        """Take the epoch and the assignment of an answer."""
        if answer.error_code:
            return
        self.epoch, self.is_present = answer.member_epoch, answer.member_epoch >= 0
        if answer.assignment is not None:
            self.given = {
                names[each.topic_id]: list(each.partitions)
                for each in answer.assignment.topic_partitions
            }


class ConsumerPlay:
    """One consumer group of a case, which assigns at once.

    Heartbeats are compared in cases about heartbeats, `show` and `settle` aside.
    """

    def __init__(self, stage: Stage, text: str = "g") -> None:
        self.stage, self.group_id = stage, stage.name(text)
        self.actors: dict[str, ConsumerActor] = {}
        configure(stage, self.group_id, consumer_assignment_interval_ms="0")

    def create(self, text: str, partitions: int = 1) -> str:
        """Create a topic and wait until the group's coordinator knows it, before the first join."""
        name = self.stage.create(text, partitions=partitions)
        probing = self.request(_PROBE, 0, {}, **_fields([name]))

        def is_known() -> bool:
            answer = self.stage.do(probing, 1)
            probing.member_epoch = answer.member_epoch
            probing.subscribed_topic_names, probing.rebalance_timeout_ms = None, -1
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        self.stage.until(is_known, f"the coordinator knows {name}")
        self.stage.do(self.request(_PROBE, -1), 1)
        self.stage.do(DeleteGroupsRequest(groups_names=[self.group_id]), 2)
        return name

    # Requests

    def request(
        self, who: str, epoch: int, owned: Owned | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that says only what is given."""
        self.stage.call(member_id(who), who)
        part = ConsumerGroupHeartbeatRequest.TopicPartitions
        ids = self.stage.ids
        owns = (
            None
            if owned is None
            else [part(topic_id=ids[name], partitions=each) for name, each in owned.items()]
        )
        values = {"member_id": member_id(who), "topic_partitions": owns} | fields
        return ConsumerGroupHeartbeatRequest(group_id=self.group_id, member_epoch=epoch, **values)

    def joining(self, who: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        """The first heartbeat of a member."""
        said = {**_fields(topics), **fields}
        self.actors[who] = ConsumerActor(member_id(who), said)
        return self.request(who, 0, {}, **said)

    def full(self, who: str, owned: Owned | None = None) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that says everything, and is answered with the assignment."""
        actor = self.actors[who]
        return self.request(
            who, actor.epoch, actor.given if owned is None else owned, **actor.fields
        )

    # What happens

    def join(self, who: str, *topics: str, **fields: Any) -> Any:
        """Join; returns the answer."""
        return self._do(who, self.joining(who, *topics, **fields))

    def beat(self, who: str, owned: Owned | None = None, **fields: Any) -> Any:
        """A heartbeat, which by default says only what the member owns."""
        actor = self.actors[who]
        owns = actor.given if owned is None else owned
        said = {**self._static(who), **fields}
        return self._do(who, self.request(who, said.pop("epoch", actor.epoch), owns, **said))

    def leave(self, who: str, epoch: int = -1, **fields: Any) -> Any:
        """Leave; a static member leaves for a while with epoch -2."""
        self.actors[who].is_present = False
        return self.send(self.request(who, epoch, **(self._static(who) | fields)))

    def send(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        """Send a heartbeat, which is compared in a case about heartbeats."""
        if self.stage.case.request is ConsumerGroupHeartbeatRequest:
            return self.stage.ask(request)
        return self.stage.do(request, 1)

    def settle(self) -> None:
        """Heartbeats of all members until the group is stable, and nobody's assignment changes."""
        self.stage.until(self._is_stable, f"{self.group_id} is stable")

    def described(self) -> Any:
        """The description of the group."""
        return self.stage.do(ConsumerGroupDescribeRequest(group_ids=[self.group_id]), 1).groups[0]

    def show(self, *members: str) -> None:
        """Settle, then compare the answers to full heartbeats of these members, or of all."""
        self.settle()
        for who in members or [who for who, each in self.actors.items() if each.is_present]:
            self.stage.note(f"of {who}", self.stage.do(self.full(who), 1))

    def _is_stable(self) -> bool:
        for who, actor in self.actors.items():
            if actor.is_present:
                request = self.request(who, actor.epoch, actor.given, **self._static(who))
                self.take(who, self.stage.do(request, 1))
        return self.described().group_state in ("Stable", "Empty")

    def _do(self, who: str, request: ConsumerGroupHeartbeatRequest) -> Any:
        return self.take(who, self.send(request))

    def take(self, who: str, answer: Any) -> Any:
        """Remember a member's epoch and assignment; returns the answer that has them."""
        self.actors[who].take(answer, {id: name for name, id in self.stage.ids.items()})
        return answer

    def _static(self, who: str) -> dict[str, Any]:
        fields = self.actors[who].fields
        return {"instance_id": fields["instance_id"]} if "instance_id" in fields else {}
