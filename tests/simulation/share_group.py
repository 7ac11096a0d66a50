"""A member of a share group (KIP-932): it acquires records, and acknowledges them one by one."""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests import share_state_topic
from tests.histories.history import Place
from tests.simulation.wire import BUSY, GROUP, Coordinator, Leader, Lost, Refused, Wire, check
from tests.simulation.world import PLACES, TOPICS, World, ask_until, sleep
from wirekafka.errors import Error
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest

SETTINGS = {
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.max.delivery.count.limit": "25",
    **share_state_topic.settings(2),
}
MOST_DELIVERIES = 25
"""So many deliveries that the network cannot lose all of one record's."""
_GROUP_RESOURCE = 32
_SILENCE_S = 8
_FETCHES_PER_BEAT = 3
_PATIENCE_S = 60
"""The time within which failed members lose their locks and partitions."""
_ACCEPT, _RELEASE, _REJECT = 1, 2, 3
_FIRST, _LAST, _LEFT = 0, -1, -1
_EXPELLED = (Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH)
_SESSION_LOST = (
    Error.SHARE_SESSION_NOT_FOUND,
    Error.INVALID_SHARE_SESSION_EPOCH,
    Error.SHARE_SESSION_LIMIT_REACHED,
)
_NOT_MINE = Error.INVALID_RECORD_STATE
_RETRIED = (*BUSY, Error.FENCED_STATE_EPOCH, Error.UNKNOWN_SERVER_ERROR)

Range = tuple[int, int, int]
"""First and last offset, and the acknowledge type."""


@dataclass
class Shared:
    """The members' acknowledgements of the records of each place, by offset."""

    group: str
    delivered: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    settled: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Offsets whose acceptance or rejection was confirmed; they must not be delivered again."""
    lost_fetches: int = 0
    """Deliveries of any records that may not have reached their member."""

    async def prepare(self, world: World) -> None:
        """Have the group start at the earliest records."""
        wire = world.wire("share-setup", may_linger=False)
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        options = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(MOST_DELIVERIES),
        }
        request = IncrementalAlterConfigsRequest(
            resources=[
                kind(
                    resource_type=_GROUP_RESOURCE,
                    resource_name=self.group,
                    configs=[
                        kind.AlterableConfig(name=name, value=value)
                        for name, value in options.items()
                    ],
                )
            ]
        )
        await ask_until(wire, request, 1, lambda answer: not answer.responses[0].error_code)
        wire.close()

    async def finish(self, world: World) -> None:
        """Let one more member process the remaining records, until the group has no lag."""
        wire = world.wire("share-last", may_linger=False)
        member = ShareMember(world, "share-end", self, Random(0))
        member.is_reliable = True
        task = asyncio.ensure_future(member.run())
        until_s = asyncio.get_running_loop().time() + _PATIENCE_S
        while not task.done() and await self._lag(wire):
            if asyncio.get_running_loop().time() > until_s:
                world.surprises.append(f"STUCK records of {self.group}")
                break
            await asyncio.sleep(0.5)
        member.is_done = True
        await task
        wire.close()

    async def _lag(self, wire: Wire) -> bool:
        kind = DescribeShareGroupOffsetsRequest.Group
        topics = [
            kind.Topic(topic_name=name, partitions=list(range(count)))
            for name, count in TOPICS.items()
        ]
        answer = await ask_until(
            wire,
            DescribeShareGroupOffsetsRequest(groups=[kind(group_id=self.group, topics=topics)]),
            1,
            lambda answer: not answer.groups[0].error_code,
            Coordinator(GROUP, self.group),
        )
        return any(
            partition.error_code or partition.lag != 0
            for topic in answer.groups[0].topics
            for partition in topic.partitions
        )

    def check(self, world: World, offsets: dict[Place, list[int]]) -> None:
        """Compare with the offsets of all records that are in the logs at the end."""
        for place in PLACES:
            missed = set(offsets[place]) - self.delivered[place]
            if missed and self.lost_fetches < MOST_DELIVERIES:
                world.surprises.append(f"NOT_DELIVERED {sorted(missed)} of {place}")


class ShareMember:
    """One member, until the world ends."""

    def __init__(self, world: World, name: str, shared: Shared, random: Random):
        self._world = world
        self._name = name
        self._shared = shared
        self._random = random
        self._wire: Wire = world.wire(name, may_linger=False)
        self._coordinator = Coordinator(GROUP, shared.group)
        self._names = {id: topic for topic, id in world.topic_ids.items()}
        self.is_reliable = False
        """Whether it accepts every record, and never falls silent."""
        self.is_done = False
        self._join_as_new_member()

    async def run(self) -> None:
        """Send heartbeats, acquire and acknowledge."""
        while not (self.is_done if self.is_reliable else self._world.is_ending):
            try:
                await self._beat()
                for _ in range(_FETCHES_PER_BEAT):
                    await self._work()
                    await sleep(self._world, 0.1)
            except Lost:
                await self._recover()
            except Refused as refused:
                if refused.error in _EXPELLED:
                    self._join_as_new_member()
                elif refused.error not in (*_SESSION_LOST, *_RETRIED):
                    self._world.surprises.append(f"{self._name} got the error {refused}")
                await self._recover()
        self._wire.close()

    def _join_as_new_member(self) -> None:
        """Join under another id, as after a restart."""
        self._member_id = base64.urlsafe_b64encode(self._random.randbytes(16)).decode().rstrip("=")
        self._epoch = 0
        self._assigned: set[Place] = set()
        self._session_epoch = _FIRST

    async def _recover(self) -> None:
        """Open another session, since the outcome of the last request is unknown."""
        self._session_epoch = _FIRST
        await self._wire.pause()

    async def _beat(self) -> None:
        joins = self._epoch == 0
        request = ShareGroupHeartbeatRequest(
            group_id=self._shared.group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=list(TOPICS) if joins else None,
        )
        answer = await self._wire.ask(request, 1, self._coordinator)
        check(answer.error_code, "share heartbeat")
        self._epoch = answer.member_epoch
        if answer.assignment is None:
            return
        assigned = {
            (self._names[topic.topic_id], partition)
            for topic in answer.assignment.topic_partitions
            for partition in topic.partitions
        }
        if assigned != self._assigned:
            self._assigned, self._session_epoch = assigned, _FIRST

    async def _work(self) -> None:
        if not self._assigned:
            return
        acquired = await self._fetch()
        if not self.is_reliable and self._random.random() < 0.15:
            await self._go_away()
            return
        for place, ranges in acquired.items():
            await self._acknowledge(place, ranges)

    async def _go_away(self) -> None:
        """Leave properly, or be silent until the locks have expired, as if it had crashed."""
        if self._random.random() < 0.5:
            request = ShareGroupHeartbeatRequest(
                group_id=self._shared.group, member_id=self._member_id, member_epoch=_LEFT
            )
            await self._wire.ask(request, 1, self._coordinator)
        else:
            await asyncio.sleep(self._random.uniform(0.3, 1) * _SILENCE_S)
        self._join_as_new_member()

    # Records

    async def _fetch(self) -> dict[Place, list[tuple[int, int]]]:
        """Acquire records; returns their offset ranges, inclusive."""
        is_first = self._session_epoch == _FIRST
        settled = {place: set(offsets) for place, offsets in self._shared.settled.items()}
        places = sorted(self._assigned) if is_first else []
        kind = ShareFetchRequest.FetchTopic
        request = ShareFetchRequest(
            group_id=self._shared.group,
            member_id=self._member_id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=10_000,
            max_records=self._random.choice((1, 5, 50)),
            batch_size=self._random.choice((1, 10)),
            topics=[
                kind(
                    topic_id=self._world.topic_ids[name],
                    partitions=[kind.FetchPartition(partition_index=index)],
                )
                for name, index in places
            ],
        )
        leader = Leader(*min(self._assigned))
        try:
            answer = await self._wire.ask(request, 2, leader)
        except Lost:
            self._shared.lost_fetches += 1
            raise
        check(answer.error_code, "share fetch")
        self._session_epoch += 1
        return self._taken(answer, settled)

    def _taken(
        self, answer: Any, settled: dict[Place, set[int]]
    ) -> dict[Place, list[tuple[int, int]]]:
        acquired: dict[Place, list[tuple[int, int]]] = {}
        for topic in answer.responses:
            for partition in topic.partitions:
                place = self._names[topic.topic_id], partition.partition_index
                if partition.error_code and Error(partition.error_code) not in _RETRIED:
                    self._world.surprises.append(f"{self._name} got {partition} of {place}")
                for run in partition.acquired_records:
                    offsets = range(run.first_offset, run.last_offset + 1)
                    again = settled.get(place, set()).intersection(offsets)
                    if again:
                        self._world.surprises.append(
                            f"DELIVERED_AGAIN {sorted(again)} of {place} to {self._name}"
                        )
                    if run.delivery_count > MOST_DELIVERIES:
                        self._world.surprises.append(f"DELIVERED_TOO_OFTEN {run} of {place}")
                    self._shared.delivered[place].update(offsets)
                    acquired.setdefault(place, []).append((run.first_offset, run.last_offset))
        return acquired

    async def _acknowledge(self, place: Place, ranges: list[tuple[int, int]]) -> None:
        """Accept most records, one type for each range; some are not acknowledged at all."""
        typed: list[Range] = []
        for first, last in ranges:
            kind = self._random.choices((_ACCEPT, _RELEASE, _REJECT, 0), (8, 2, 1, 1))[0]
            if self.is_reliable:
                kind = _ACCEPT
            if kind:
                typed.append((first, last, kind))
        if not typed:
            return
        kind_of_topic = ShareAcknowledgeRequest.AcknowledgeTopic
        partition = kind_of_topic.AcknowledgePartition
        request = ShareAcknowledgeRequest(
            group_id=self._shared.group,
            member_id=self._member_id,
            share_session_epoch=self._session_epoch,
            topics=[
                kind_of_topic(
                    topic_id=self._world.topic_ids[place[0]],
                    partitions=[
                        partition(
                            partition_index=place[1],
                            acknowledgement_batches=[
                                partition.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                                )
                                for first, last, kind in typed
                            ],
                        )
                    ],
                )
            ],
        )
        answer = await self._wire.ask(request, 2, Leader(*place))
        check(answer.error_code, "share acknowledgement")
        self._session_epoch += 1
        [result] = answer.responses[0].partitions
        if result.error_code:
            if Error(result.error_code) not in (*_RETRIED, _NOT_MINE):
                self._world.surprises.append(f"{self._name} got {result} of {place}")
            return
        for first, last, kind in typed:
            if kind in (_ACCEPT, _REJECT):
                self._shared.settled[place].update(range(first, last + 1))
