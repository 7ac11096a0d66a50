"""How far every group has read in the partitions that this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from wirekafka.broker import Broker
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.groups.share.commands import keys_of
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.coordinator.share_state.states import StateRead
from wirekafka.errors import KafkaError
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.runtime.driver import start
from wirekafka.server.space.other_coordinators import OtherCoordinators, Positions

logger = logging.getLogger(__name__)

_SHARE = "share"
_EVERY_MS = 5_000
_OUTDATED_MS = 60_000
"""For how long the offsets of other coordinators count: groups that are new since then are
missing there."""
_NONE_YET = -1
_PER_STEP = 1_000
"""Groups, or offsets."""
_Leaders = tuple[tuple[int, int], ...]
"""The leader and its epoch of each partition of `__consumer_offsets`."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The offsets of other coordinators at a time in ms, and who was a coordinator throughout."""

    at_ms: int
    leaders: _Leaders
    keys: frozenset[TopicPartition]
    positions: Positions


class GroupPositions:
    """The committed offsets of groups, and the start offsets of share groups.

    Groups of this broker are read at once. Other coordinators are asked about their groups, and the
    lower offset of two complete readings in a row by the same coordinators counts, so that a group
    is not missed that moved between two of these. Until then no position is known.
    """

    def __init__(self, broker: Broker):
        self._broker = broker
        self._others = OtherCoordinators(broker)
        self._known: Positions | None = None
        """Of all groups, as of the last `read`; None while some may be unknown."""
        self._covered: frozenset[TopicPartition] = frozenset()
        """The partitions that all coordinators were asked about."""
        self._shares: dict[str, dict[TopicPartition, int]] = {}
        """The start offsets of the share groups coordinated here, as last read."""
        self._readings: list[_Reading] = []
        """The last two of other coordinators."""
        self._asked_ms = -_EVERY_MS
        self._is_asking = False
        self._failure = ""

    @property
    def is_known(self) -> bool:
        """Whether all groups were known at the last `read`."""
        return self._known is not None

    def of(self, key: TopicPartition) -> Mapping[str, int] | None:
        """The position of each group in a partition; None while one may be unknown."""
        if self._known is None or key not in self._covered:
            return None
        return self._known.get(key, {})

    def read(self, keys: frozenset[TopicPartition]) -> Iterator[None]:
        """Read the offsets that groups have committed in these partitions, in steps."""
        broker = self._broker
        found: Positions = {}
        share: list[str] = []
        seen = 0
        machines = broker.groups.machines()
        for machine in machines:
            shard = cast(GroupShard, machine)
            for group_id in list(shard.groups):
                group = shard.groups.get(group_id)
                if group is not None and group.type_name == _SHARE:
                    share.append(group_id)
                seen += 1
                if seen % _PER_STEP == 0:
                    yield
            for group_id in shard.offsets.group_ids():
                for topic, index, committed in list(shard.offsets.committed(group_id)):
                    # A client that fetches a negative offset has none.
                    if committed.offset >= 0 and (topic, index) in keys:
                        found.setdefault((topic, index), {})[group_id] = committed.offset
                    seen += 1
                    if seen % _PER_STEP == 0:
                        yield
        self._ask(share, keys)
        readings = self._valid()
        yield from _add(found, readings or ())
        self._known = None
        # A shard that was loaded meanwhile has groups that are missing here.
        is_whole = self._is_loaded() and broker.groups.machines() == machines
        if readings is None or readings != self._valid():
            return
        if is_whole and self._shares.keys() >= set(share):
            for group_id, places in self._shares.items():
                for key, offset in places.items():
                    found.setdefault(key, {})[group_id] = offset
            self._known, self._covered = found, keys.intersection(*(each.keys for each in readings))

    def _is_loaded(self) -> bool:
        """Whether each partition of groups has a leader, and each shard here is loaded."""
        groups, node_id = self._broker.groups, self._broker.node_id
        leaders = [leader for leader, _ in self._leaders()]
        own = [index for index, leader in enumerate(leaders) if leader == node_id]
        return (
            NO_LEADER not in leaders
            and len(groups.machines()) == len(own)
            and all(groups.leads(index) for index in own)
        )

    def _leaders(self) -> _Leaders:
        topic = self._broker.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return ()
        found = (topic.partitions[index] for index in sorted(topic.partitions))
        return tuple((each.leader, each.leader_epoch) for each in found)

    def _coordinators_elsewhere(self) -> set[int]:
        return {leader for leader, _ in self._leaders()} - {self._broker.node_id, NO_LEADER}

    def _valid(self) -> list[_Reading] | None:
        """The readings of other coordinators that count; None if they do not suffice."""
        if not self._coordinators_elsewhere():
            return []
        now_ms, leaders = self._broker.clock.now_ms(), self._leaders()
        valid = [
            each
            for each in self._readings
            # If the clock was set back, nobody knows how old a reading is.
            if 0 <= now_ms - each.at_ms <= _OUTDATED_MS and each.leaders == leaders
        ]
        return valid if len(valid) == 2 else None

    def _ask(self, share: list[str], keys: frozenset[TopicPartition]) -> None:
        """Begin to read what is not in this broker's memory, unless that was done just before."""
        for group_id in self._shares.keys() - set(share):
            del self._shares[group_id]
        now_ms = self._broker.clock.now_ms()
        others = self._coordinators_elsewhere()
        if not others:
            self._readings = []
        is_new = any(group_id not in self._shares for group_id in share)
        is_due = is_new or not 0 <= now_ms - self._asked_ms < _EVERY_MS
        if (share or others) and is_due and not self._is_asking:
            self._asked_ms = now_ms
            self._is_asking = True
            start(self._read_elsewhere(share, others, keys))

    async def _read_elsewhere(
        self, share: list[str], others: Collection[int], keys: frozenset[TopicPartition]
    ) -> None:
        now_ms, leaders = self._broker.clock.now_ms(), self._leaders()
        try:
            for group_id in share:
                self._shares[group_id] = await self._start_offsets(group_id)
            if others:
                positions = await self._others.read(sorted(others), keys)
                if leaders == self._leaders():
                    self._readings = [
                        *self._readings[-1:],
                        _Reading(now_ms, leaders, keys, positions),
                    ]
            self._failure = ""
        except KafkaError as error:
            if str(error) != self._failure:
                self._failure = str(error)
                logger.warning("How far groups have read is not known: %s", error)
        except Exception as error:
            if repr(error) != self._failure:
                self._failure = repr(error)
                logger.exception("Reading the offsets of groups failed")
        finally:
            self._is_asking = False

    async def _start_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """Where a share group begins to read; without an entry where it has not read yet."""
        broker = self._broker
        keys = keys_of(group_id, await broker.share_groups.initialized(group_id))
        known = self._shares.get(group_id, {})
        found = {}
        states = await broker.share_states.read_summaries([StateRead(key) for key in keys])
        for key, state in zip(keys, states, strict=True):
            topic = broker.image.topics_by_id.get(key.topic_id)
            if topic is None:
                continue
            place = topic.name, key.partition
            if isinstance(state, KafkaError):
                # It only rises: the last one is safe, and without one nothing is.
                found[place] = known.get(place, _NONE_YET)
            elif state.start_offset != _NONE_YET:
                found[place] = state.start_offset
        return found


def _add(found: Positions, readings: Sequence[_Reading]) -> Iterator[None]:
    """Add what other coordinators have answered, the lower offsets, in steps."""
    seen = 0
    for reading in readings:
        for key, groups in reading.positions.items():
            places = found.setdefault(key, {})
            for group_id, offset in groups.items():
                places[group_id] = min(offset, places.get(group_id, offset))
                seen += 1
                if seen % _PER_STEP == 0:
                    yield
