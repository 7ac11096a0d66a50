"""A member of a consumer group (KIP-848): it reads its partitions, and commits offsets."""

from __future__ import annotations

import asyncio
import base64
from random import Random
from typing import Any

from tests.histories.history import OffsetCommit, OffsetFetch, Place, Verdict
from tests.simulation.offsets import commit_request, fetch_offsets, fetch_request, fetched
from tests.simulation.reader import Reader
from tests.simulation.wire import BUSY, GROUP, Coordinator, Lost, Refused, Wire, check
from tests.simulation.world import PLACES, TOPICS, World, sleep
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

SETTINGS = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
_SILENCE_S = 12
REBALANCE_TIMEOUT_MS = 5_000
_EXPELLED = (Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH, Error.FENCED_INSTANCE_ID)
_RETRIED = (*BUSY, Error.STALE_MEMBER_EPOCH, Error.UNRELEASED_INSTANCE_ID)
_LEFT, _AWAY = -1, -2


class BrokerAssignedMember:
    """One member; some members are static, and some subscribe by a regular expression."""

    def __init__(self, world: World, name: str, group: str, random: Random):
        self._world = world
        self._name = name
        self._group = group
        self._random = random
        self._instance_id = name if random.random() < 0.3 else None
        self._has_regex = random.random() < 0.3
        # A late commit of this epoch would move committed offsets back, in Kafka too.
        self._wire: Wire = world.wire(name, may_linger=False)
        self._reader = Reader(self._wire, world.topic_ids, committed=True, by_id=False)
        self._coordinator = Coordinator(GROUP, group)
        self._names = {id: topic for topic, id in world.topic_ids.items()}
        self._committed: dict[Place, int] = {}
        self._join_as_new_member()

    async def run(self) -> None:
        """Send heartbeats, read and commit until the world ends."""
        while not self._world.is_ending:
            try:
                await self._beat()
                await self._work()
            except Lost:
                self._is_full = True
                await self._wire.pause()
            except Refused as refused:
                if refused.error in _EXPELLED:
                    self._join_as_new_member()
                elif refused.error not in _RETRIED:
                    self._world.surprises.append(f"{self._name} got the error {refused}")
                self._is_full = True
                await self._wire.pause()
        self._wire.close()

    def _join_as_new_member(self) -> None:
        """Forget all partitions and join under another id, as after a restart."""
        self._member_id = base64.urlsafe_b64encode(self._random.randbytes(16)).decode().rstrip("=")
        self._epoch = 0
        self._is_full = True
        self._assigned: set[Place] = set()
        self._committed = {}
        self._reader.seek({})

    # Membership

    async def _beat(self) -> None:
        answer = await self._wire.ask(self._heartbeat(), 1, self._coordinator)
        check(answer.error_code, "heartbeat")
        self._epoch = answer.member_epoch
        self._is_full = False
        assigned = self._assigned_by(answer)
        if assigned is not None:
            self._assigned = assigned
        await self._follow_assignment()

    def _assigned_by(self, response: Any) -> set[Place] | None:
        """The partitions in the response to a heartbeat; None if they are unchanged."""
        if response.assignment is None:
            return None
        return {
            (self._names[topic.topic_id], partition)
            for topic in response.assignment.topic_partitions
            for partition in topic.partitions
        }

    def _heartbeat(self, epoch: int | None = None) -> Request:
        """A heartbeat request; with an epoch, the one that leaves the group."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch if epoch is None else epoch,
            instance_id=self._instance_id,
        )
        if epoch is None and self._is_full:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            if self._has_regex:
                request.subscribed_topic_regex = "|".join(TOPICS)
            else:
                request.subscribed_topic_names = list(TOPICS)
            request.topic_partitions = self._owned()
        return request

    def _owned(self) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        kind = ConsumerGroupHeartbeatRequest.TopicPartitions
        return [
            kind(
                topic_id=id,
                partitions=[index for name, index in self._reader.positions if name == topic],
            )
            for id, topic in self._names.items()
            if any(name == topic for name, _ in self._reader.positions)
        ]

    async def _follow_assignment(self) -> None:
        """Commit and drop revoked partitions, and start reading new ones."""
        positions = self._reader.positions
        if not positions.keys() <= self._assigned:
            await self._commit()
            self._reader.seek(
                {place: offset for place, offset in positions.items() if place in self._assigned}
            )
            self._is_full = True
        added = [place for place in PLACES if place in self._assigned - positions.keys()]
        if added:
            self._reader.seek(self._reader.positions | await self._fetch(added))
            self._is_full = True

    async def _go_away(self) -> None:
        """Leave, temporarily if it is a static member, or be silent until others take over.

        After a silence some continue unchanged, like a process that was suspended.
        """
        if self._random.random() < 0.5:
            epoch = _LEFT if self._instance_id is None or self._random.random() < 0.5 else _AWAY
            await self._wire.ask(self._heartbeat(epoch), 1, self._coordinator)
        else:
            await asyncio.sleep(self._random.uniform(0.5, 1) * _SILENCE_S)
            if self._reader.positions and self._random.random() < 0.7:
                await self._commit_at(self._reader.positions)
                return
        self._join_as_new_member()

    # Offsets

    async def _work(self) -> None:
        world = self._world
        if self._reader.positions:
            world.history.read(self._name, await self._reader.poll(100))
        if self._random.random() < 0.4:
            await self._commit()
        if self._random.random() < 0.08:
            await self._go_away()
        await sleep(world, 0.3)

    async def _fetch(self, places: list[Place]) -> dict[Place, int]:
        operation = self._world.history.begin(self._name)
        confirmed = dict(self._world.confirmed)
        request = fetch_request(
            self._group, places, member_id=self._member_id, member_epoch=self._epoch
        )
        response = await fetch_offsets(self._world, self._wire, request, 9, self._coordinator)
        found = {}
        for place, offset in fetched(response):
            operation.steps.append(OffsetFetch(self._group, place, offset))
            self._check_progress(place, offset, confirmed)
            found[place] = self._committed[place] = max(offset, 0)
        self._world.history.end(operation, Verdict.DONE)
        return found

    async def _commit(self) -> None:
        moved = {
            place: offset
            for place, offset in self._reader.positions.items()
            if offset != self._committed.get(place)
        }
        if moved:
            await self._commit_at(moved)

    async def _commit_at(self, moved: dict[Place, int]) -> None:
        operation = self._world.history.begin(
            self._name,
            *(OffsetCommit(self._group, place, offset) for place, offset in moved.items()),
        )
        confirmed = dict(self._world.confirmed)
        request = commit_request(
            self._group,
            moved,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        answer = await self._wire.ask(request, 9, self._coordinator)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        failed = Verdict.UNKNOWN if codes & BUSY else Verdict.UNDONE
        self._world.history.end(operation, failed if codes != {0} else Verdict.DONE)
        for code in codes:
            check(code, "offset commit")
        self._committed |= moved
        for place, offset in moved.items():
            key = self._group, place
            self._check_progress(place, offset, confirmed)
            self._world.confirmed[key] = max(offset, self._world.confirmed.get(key, -1))

    def _check_progress(
        self, place: Place, offset: int, confirmed: dict[tuple[str, Place], int]
    ) -> None:
        """Compare an accepted or fetched offset with what was confirmed before it was sent."""
        if offset < confirmed.get((self._group, place), -1):
            self._world.surprises.append(f"{self._group} moved back at {place} to {offset}")
