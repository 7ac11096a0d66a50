"""A topic whose oldest records are deleted, by requests or by retention, and its readers."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from tests.histories.history import Place
from tests.simulation.cluster.shape import REPLICAS
from tests.simulation.producer import IdempotentProducer
from tests.simulation.reader import Reader
from tests.simulation.tiered.shape import TIERED
from tests.simulation.wire import BUSY, Leader, Lost, Refused, Wire
from tests.simulation.world import World, ask_until, sleep
from wirekafka.errors import Error
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest

if TYPE_CHECKING:
    from tests.simulation.tiered.simulation import TieredSimulation

_PLACE: Place = ("kept", 0)
_WRITES = 40
_EARLIEST = -2
_SHORT_MS = 5_000
_FEW_BYTES = 2_000
_POLICIES: dict[str, dict[str, str]] = {
    "requests": {},
    "age": {"retention.ms": str(_SHORT_MS), "message.timestamp.type": "LogAppendTime"},
    "size": {"retention.bytes": str(_FEW_BYTES)},
}


class KeeperWorld(World):
    """The state of the clients of one topic, apart from the others' histories."""

    def a_place(self) -> Place:
        return _PLACE


class Keeper:
    """Writes to the topic, deletes its oldest records, and checks what readers get."""

    def __init__(self, simulation: TieredSimulation):
        self._simulation = simulation
        self._random = random = Random(f"keeper {simulation.seed}")
        self._world = KeeperWorld(simulation.network, random, simulation.world.bootstrap)
        self._world.retried = simulation.world.retried
        self._world.surprises = simulation.world.surprises
        self.policy = random.choice(list(_POLICIES))
        self._asked_offset = 0
        """The highest offset up to which a deletion was asked for."""
        self._seen: dict[int, int] = {}
        """The value at each offset that a reader has read."""

    async def prepare(self) -> None:
        """Create the topic."""
        wire = self._world.wire("keeper setup", may_linger=False)
        kind = CreateTopicsRequest.CreatableTopic
        configs = TIERED | _POLICIES[self.policy]
        topic = kind(
            name=_PLACE[0],
            num_partitions=1,
            replication_factor=REPLICAS,
            configs=[kind.CreatableTopicConfig(name=key, value=configs[key]) for key in configs],
        )
        done = (Error.NONE, Error.TOPIC_ALREADY_EXISTS)
        await ask_until(
            wire,
            CreateTopicsRequest(topics=[topic], timeout_ms=4_000),
            7,
            lambda answer: answer.topics[0].error_code in done,
        )
        named = MetadataRequest(topics=[MetadataRequest.Topic(name=_PLACE[0])])
        found = await ask_until(
            wire, named, 12, lambda answer: not any(each.error_code for each in answer.topics)
        )
        self._world.topic_ids[_PLACE[0]] = found.topics[0].topic_id
        wire.close()

    async def write(self) -> None:
        """Write until all batches are acknowledged."""
        await IdempotentProducer(self._world, "keeper-0", _WRITES).run()

    async def trim(self) -> None:
        """Ask for the deletion of the oldest records, now and then."""
        wire = self._world.wire("trimmer", may_linger=True)
        while not self._simulation.world.is_ending:
            await asyncio.sleep(self._random.uniform(0.2, 3))
            if self.policy != "requests" or not self._seen:
                continue
            offset = self._random.randint(0, max(self._seen) + 1)
            self._asked_offset = max(self._asked_offset, offset)
            kind = DeleteRecordsRequest.Topic
            part = kind.Partition(partition_index=0, offset=offset)
            request = DeleteRecordsRequest(
                topics=[kind(name=_PLACE[0], partitions=[part])], timeout_ms=3_000
            )
            try:
                answer = await wire.ask(request, 2, Leader(*_PLACE), 4)
            except Lost:
                await wire.pause()
                continue
            code = Error(answer.topics[0].partitions[0].error_code)
            if code in BUSY:
                await wire.pause()
            elif code not in (Error.NONE, Error.OFFSET_OUT_OF_RANGE):
                self._world.surprises.append(f"DeleteRecords gets {code.name}")
        wire.close()

    async def follow(self) -> None:
        """Read all records as they arrive, again and again from the beginning."""
        wire = self._world.wire("keeper reader", may_linger=True)
        while not self._simulation.world.is_ending:
            try:
                await self._read(wire, limit=self._random.randint(5, 60))
            except Lost:
                await wire.pause()
            await asyncio.sleep(self._random.uniform(0.3, 1.5))
        wire.close()

    async def check(self) -> None:
        """Check what is left, which nobody deletes any more."""
        wire = self._world.wire("keeper check", may_linger=False)
        found = None
        while found is None:
            try:
                found = await self._read(wire, limit=1 << 30)
            except Lost:
                await wire.pause()
        start_offset, records, end_offset = found
        if start_offset + len(records) != end_offset:
            self._found(f"LOST {len(records)} records are in {start_offset} to {end_offset}")
        held = dict(records)
        acknowledged = {
            send.offset: send.value
            for _, send in self._world.history.sends()
            if send.offset is not None
        }
        for offset, value in sorted(acknowledged.items()):
            if offset >= start_offset and held.get(offset) != value:
                self._found(f"LOST {value} at {offset}, there is {held.get(offset)}")
        if len(set(held.values())) != len(held):
            self._found("TWICE a record is there")
        if self.policy == "requests" and start_offset > self._asked_offset:
            self._found(f"DELETED up to {start_offset}, asked for was {self._asked_offset}")
        if self.policy == "size" and start_offset:
            self._check_size(start_offset)

    def _check_size(self, start_offset: int) -> None:
        """Retention by size leaves at least so many bytes, each range counted once."""
        image = self._simulation.health.newest_image()
        member = self._simulation.tiered_members[image.topics[_PLACE[0]].partitions[0].leader]
        log = member.broker.partitions[_PLACE].log
        states = member.tiering.tiers[_PLACE].states
        assert states is not None
        sizes = {
            (each.start_offset, each.end_offset): each.size_bytes
            for each in states.in_lineage(log.epochs.entries, log.end_offset)
        }
        end = max((end for _, end in sizes), default=0)
        local = sum(each.size_bytes for each in log.segments if each.base_offset >= end)
        if sum(sizes.values()) + local < _FEW_BYTES:
            self._found(f"DELETED {start_offset}: {sum(sizes.values())} + {local} bytes are left")

    async def _read(self, wire: Wire, limit: int) -> tuple[int, list[tuple[int, int]], int]:
        """Read from the start of the log on; the start, offsets and values, and the end."""
        reader = Reader(wire, self._world.topic_ids, committed=False, by_id=True)
        position = start_offset = await self._earliest(wire)
        reader.seek({_PLACE: position})
        records: list[tuple[int, int]] = []
        while len(records) < limit and not reader.is_at_end():
            try:
                read = await reader.poll(100)
            except Refused as refused:
                if refused.error is not Error.OFFSET_OUT_OF_RANGE:
                    raise
                start_offset = await self._earliest(wire)
                if start_offset <= position:
                    self._found(f"RESET at {position}, the log begins at {start_offset}")
                position, records = start_offset, []
                reader.seek({_PLACE: position})
                continue
            for _, offset, value in read.records:
                if offset != position:
                    self._found(f"HOLE {offset} is read after {position - 1}")
                if self._seen.setdefault(offset, value) != value:
                    self._found(f"CHANGED {self._seen[offset]} at {offset} is {value}")
                position = offset + 1
                records.append((offset, value))
            if not read.records:
                await sleep(self._world, 0.2)
        return start_offset, records, reader.ends.get(_PLACE, -1)

    async def _earliest(self, wire: Wire) -> int:
        """The first offset of the log."""
        kind = ListOffsetsRequest.Topic
        part = kind.Partition(partition_index=0, current_leader_epoch=-1, timestamp=_EARLIEST)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[kind(name=_PLACE[0], partitions=[part])],
            timeout_ms=3_000,
        )
        answer: Any = await wire.ask(request, 10, Leader(*_PLACE))
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise Lost
        offset: int = found.offset
        return offset

    def _found(self, violation: str) -> None:
        self._simulation.checks.found(f"{violation} ({self.policy})")
