"""Members of one share group in cases: their heartbeats, and what is then assigned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wirekafka.conformance.cases.consumer_groups.consumer_play import configure, member_id
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest


@dataclass(slots=True)
class ShareActor:
    """One member: its topics, and what it was answered."""

    topics: list[str]
    epoch: int = 0
    given: dict[str, list[int]] = field(default_factory=dict)


class ShareMembers:
    """The members of one share group, which assigns at once."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.group_id = stage, stage.name("g")
        self.actors: dict[str, ShareActor] = {}
        configure(stage, self.group_id, share_assignment_interval_ms="0")

    def create(self, text: str, partitions: int = 1) -> str:
        """Create a topic."""
        return self.stage.create(text, partitions=partitions)

    def request(self, who: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
        """A heartbeat that says only what is given."""
        self.stage.call(member_id(who), who)
        values = {"member_id": member_id(who), **fields}
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_epoch=epoch, **values)

    def join(self, who: str, *topics: str, **fields: Any) -> Any:
        """Join without a comparison."""
        self.actors[who] = ShareActor(list(topics))
        request = self.request(who, 0, subscribed_topic_names=list(topics), **fields)
        return self.take(who, self.stage.do(request, 1))

    def beat(self, who: str, **fields: Any) -> Any:
        """A heartbeat without a comparison."""
        request = self.request(who, self.actors[who].epoch, **fields)
        return self.take(who, self.stage.do(request, 1))

    def leave(self, who: str) -> Any:
        """Leave without a comparison."""
        self.actors.pop(who)
        return self.stage.do(self.request(who, -1), 1)

    def settle(self) -> None:
        """Heartbeats until all members have the newest assignment, and each has partitions."""

        def is_settled() -> bool:
            for who in self.actors:
                self.beat(who)
            request = ShareGroupDescribeRequest(group_ids=[self.group_id])
            found = self.stage.do(request, 1).groups[0]
            epochs = {each.member_epoch for each in found.members} | {found.assignment_epoch}
            return epochs == {found.group_epoch} and all(
                each.given or not each.topics for each in self.actors.values()
            )

        self.stage.until(is_settled, f"{self.group_id} is settled")

    def show(self) -> None:
        """Settle, then compare what the members have."""
        self.settle()
        for who, actor in self.actors.items():
            given = [
                {"topic": name, "partitions": each} for name, each in sorted(actor.given.items())
            ]
            self.stage.note(f"partitions of {who}", given)

    def take(self, who: str, answer: Any) -> Any:
        """Remember a member's epoch and assignment; returns the answer that has them."""
        if not answer.error_code:
            self.actors[who].epoch = answer.member_epoch
            names = {id: name for name, id in self.stage.ids.items()}
            if answer.assignment is not None:
                self.actors[who].given = {
                    names[each.topic_id]: sorted(each.partitions)
                    for each in answer.assignment.topic_partitions
                }
        return answer
