"""A member of a classic group: it joins, reads, commits, fails and returns."""

from __future__ import annotations

import json
from typing import Any

from tests.histories.history import OffsetCommit, OffsetFetch, Operation, Place, Verdict
from tests.simulation.offsets import commit_request, fetch_offsets, fetch_request, fetched
from tests.simulation.reader import Reader
from tests.simulation.wire import BUSY, GROUP, Coordinator, Lost, Refused, Wire, check
from tests.simulation.world import PLACES, World, sleep
from wirekafka.errors import Error
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

_SESSION_MS = 6_000
_FORGOTTEN = (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.FENCED_INSTANCE_ID)


class Member:
    """One member of `group`, reading every topic of the world with the others."""

    def __init__(self, world: World, name: str, group: str):
        self._world = world
        self._name = name
        self._group = group
        # A late commit of this generation would move committed offsets back, in Kafka too.
        self._wire: Wire = world.wire(name, may_linger=False)
        self._reader = Reader(self._wire, world.topic_ids, committed=True, by_id=False)
        self._coordinator = Coordinator(GROUP, group)
        self._member_id = ""
        self._generation = -1
        self._committed: dict[Place, int] = {}

    async def run(self) -> None:
        """Read and commit until the world ends."""
        while not self._world.is_ending:
            try:
                if await self._join():
                    await self._work()
            except Lost:
                await self._wire.pause()
            except Refused as refused:
                if refused.error in _FORGOTTEN:
                    self._member_id = ""
                elif refused.error not in (*BUSY, Error.REBALANCE_IN_PROGRESS):
                    self._world.surprises.append(f"{self._name} got the error {refused}")
                await self._wire.pause()
        self._wire.close()

    async def _join(self) -> bool:
        """Join a generation and fetch the committed offsets; returns whether that succeeded."""
        kind = JoinGroupRequest.Protocol
        joined = await self._wire.ask(
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=5_000,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[kind(name="even", metadata=b"")],
            ),
            6,
            self._coordinator,
            12,
        )
        if joined.error_code == Error.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return False
        check(joined.error_code, "join")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        parts = _shares(
            [each.member_id for each in joined.members] if joined.leader == joined.member_id else []
        )
        synced = await self._wire.ask(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                assignments=[
                    SyncGroupRequest.Assignment(member_id=each, assignment=part)
                    for each, part in parts.items()
                ],
            ),
            3,
            self._coordinator,
            12,
        )
        check(synced.error_code, "sync")
        mine = [(name, index) for name, index in json.loads(bytes(synced.assignment) or b"[]")]
        await self._seek(mine)
        return True

    async def _seek(self, places: list[Place]) -> None:
        operation = self._world.history.begin(self._name)
        request = fetch_request(self._group, places)
        response = await fetch_offsets(self._world, self._wire, request, 8, self._coordinator)
        positions = {}
        for place, offset in fetched(response):
            positions[place] = max(offset, 0)
            operation.steps.append(OffsetFetch(self._group, place, offset))
        self._world.history.end(operation, Verdict.DONE)
        self._committed = dict(positions)
        self._reader.seek(positions)

    async def _work(self) -> None:
        world = self._world
        while not world.is_ending:
            if self._reader.positions:
                world.history.read(self._name, await self._reader.poll(100))
            if world.random.random() < 0.4:
                await self._commit()
            await self._beat()
            if world.random.random() < 0.02:
                await self._go_away()
                return
            await sleep(world, 0.3)

    async def _beat(self) -> None:
        answer = await self._wire.ask(
            HeartbeatRequest(
                group_id=self._group, generation_id=self._generation, member_id=self._member_id
            ),
            4,
            self._coordinator,
        )
        check(answer.error_code, "heartbeat")

    async def _commit(self) -> None:
        moved = {
            place: offset
            for place, offset in self._reader.positions.items()
            if offset != self._committed.get(place)
        }
        if not moved:
            return
        operation = self._world.history.begin(
            self._name,
            *(OffsetCommit(self._group, place, offset) for place, offset in moved.items()),
        )
        request = commit_request(
            self._group,
            moved,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
        )
        answer = await self._wire.ask(request, 8, self._coordinator)
        self._committed_as(operation, answer)
        self._committed |= moved

    def _committed_as(self, operation: Operation, answer: Any) -> None:
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        # After a retriable error the coordinator may have written the commit: a later one knows.
        failed = Verdict.UNKNOWN if codes & BUSY else Verdict.UNDONE
        self._world.history.end(operation, failed if codes != {0} else Verdict.DONE)
        for code in codes:
            check(code, "offset commit")

    async def _go_away(self) -> None:
        """Leave, or be silent until the group has removed this member."""
        random = self._world.random
        if random.random() < 0.5:
            await self._wire.ask(
                LeaveGroupRequest(
                    group_id=self._group,
                    members=[LeaveGroupRequest.MemberIdentity(member_id=self._member_id)],
                ),
                4,
                self._coordinator,
            )
        else:
            await sleep(self._world, 2 * _SESSION_MS / 1000)
        self._member_id = ""
        self._reader.seek({})


def _shares(members: list[str]) -> dict[str, bytes]:
    """The places assigned to the members in turn."""
    return {
        member: json.dumps(PLACES[at :: len(members)]).encode()
        for at, member in enumerate(sorted(members))
    }
