"""The invariants of a broker that restarts after a crash."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.crash import streams
from tests.crash.life import (
    ASSIGNED,
    ASSIGNED_TOPIC,
    COPIES,
    MEMBERS,
    SHARERS,
    TIMEOUT_MS,
    TOPICS,
    WORKERS,
    Node,
)
from tests.crash.observed import Observed, Place, Sent
from tests.in_process import now
from tests.log.batches import NOW_MS
from tests.log.cleaning import batches_left, fold, records
from tests.log.recovered import assert_no_hole, described
from tests.manual_clock import ManualClock
from tests.simulation.disk import Outcome, SimulatedDisk
from wirekafka.codec.batch import read_header
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.coordinator.groups.commands import DescribeGroup
from wirekafka.coordinator.share_state.states import (
    DeliveryState,
    ShareKey,
    StateBatch,
    StateRead,
    only,
)
from wirekafka.log.log import Log
from wirekafka.log.recovery import Opening
from wirekafka.metadata.image.image import TOPIC
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.replication.partition.partition import Partition

_DATA = (("orders", 0), ("orders", 1), ("ledger", 0), ("ledger", 1), ("facts", 0))
_SIDE_FILES = (".index", ".timeindex", ".txnindex", ".snapshot")
_LATER_MS = NOW_MS + 1_000_000
_NEW_BATCH = encode_batch([Record(0, NOW_MS, b"new", b"new", ())], options=BatchOptions())


@dataclass(slots=True, kw_only=True)
class Case:
    """A disk after a crash, and what clients observed before it."""

    disk: SimulatedDisk
    observed: Observed
    outcome: Outcome
    syncs: bool
    seed: int

    @property
    def is_durable(self) -> bool:
        """Whether all acknowledged records must be kept: synced ones, or without a power cut."""
        return self.syncs or self.outcome is Outcome.ALL_KEPT


class Examination:
    """Starts the broker on the disk after the crash, and checks everything."""

    def __init__(self, case: Case):
        self._case = case
        self._observed = case.observed
        self._clock = ManualClock(_LATER_MS)
        self.offline: dict[Place, str] = {}

    def run(self) -> None:
        """Run all checks. Raises AssertionError."""
        self._files = self._case.disk.files()
        with _errors_logged() as errors:
            node = self._node = self._started(self._case.disk)
            self.offline = dict(node.broker.directories[0].offline)
            self._offline_only_with_reason(errors)
            found = {
                place: described(partition.log)
                for place, partition in node.broker.partitions.items()
            }
            self._metadata(node)
            for place in _DATA:
                if place in node.broker.partitions:
                    self._partition(place, node.broker.partitions[place])
            self._recovery_is_idempotent(found)
            self._scan_agrees(found)
            self._retries_are_known(node)
            self._coordinators(node)
            if self._case.seed == 0:
                self._continues_to_work(node)
            assert set(errors) == self._observed_offline, errors

    def _started(self, disk: SimulatedDisk) -> Node:
        return Node(disk, self._clock, self._case.seed, syncs=self._case.syncs)

    def _offline_only_with_reason(self, errors: list[str]) -> None:
        """7: invalid batches before valid ones are never truncated, and an error is logged."""
        if self.offline:
            assert not self._case.is_durable, self.offline
        for (topic, index), reason in self.offline.items():
            assert "stays offline" in reason and f"/{topic}-{index}/" in reason, reason
        self._observed_offline = {
            f"{topic}-{index} is offline: {reason}"
            for (topic, index), reason in self.offline.items()
        }
        assert set(errors) == self._observed_offline, errors

    def _metadata(self, node: Node) -> None:
        """Metadata is always synced before it is acknowledged."""
        image = node.broker.image
        for name, there in self._observed.topics.items():
            assert there.may_be(name in image.topics or None) or there.may_be(
                name in image.topics
            ), name
            if name in image.topics:
                for index in image.topics[name].partitions:
                    key = name, index
                    assert key in node.broker.partitions or key in self.offline, key
        retention = image.config(TOPIC, "orders").get("retention.bytes")
        if self._observed.retention.confirmed is not None:
            assert self._observed.retention.may_be(retention), retention
        unknown = {name for name, _ in node.broker.partitions} - set(image.topics)
        assert not unknown, unknown

    # 1 to 3: the log

    def _partition(self, place: Place, partition: Partition) -> None:
        log, observed = partition.log, self._observed
        synced = observed.acknowledged_end if self._case.is_durable else observed.synced_end
        assert log.end_offset >= synced[place], (place, log.end_offset, synced[place])
        assert log.start_offset <= observed.started[place], place
        assert log.start_offset <= partition.high_watermark <= log.end_offset, place
        assert partition.last_stable_offset <= partition.high_watermark, place
        self._no_complete_batch_was_cut(place, log.end_offset)
        sent = {each.offset: each for each in observed.sent[place]}
        found = [(read_header(batch), batch) for batch in batches_left(log)]
        for header, batch in found:
            offset = header.base_offset
            if not header.is_control and place[0] != "facts":
                assert sent[offset].batch[16:] == batch[16:], (place, offset)
        if place[0] == "facts":
            self._facts(log)
            return
        assert_no_hole(log, [header for header, _ in found])

    def _no_complete_batch_was_cut(self, place: Place, end_offset: int) -> None:
        """7, independent of recovery: the disk had no complete batch beyond the end."""
        directory = f"/data/{place[0]}-{place[1]}/"
        logs = [
            data
            for path, data in self._files.items()
            if path.startswith(directory) and path.endswith(".log")
        ]
        for sent in self._observed.sent[place]:
            if sent.offset >= end_offset:
                prefix = struct.pack(">qi", sent.offset, len(sent.batch) - 12)
                for data in logs:
                    at = data.find(sent.batch[16:])
                    assert at < 0 or data[at - 16 : at - 4] != prefix, (place, sent.offset)

    def _facts(self, log: Log) -> None:
        """The records of a log; a compacted one has gaps, which look like those of a power cut."""
        sent, left = self._observed.sent["facts", 0], fold(log)
        if self._case.is_durable:
            assert left == _folded(sent, log.end_offset)
        else:
            assert left.items() <= {(each.key, (each.offset, each.value)) for each in sent}

    # 4: indexes, snapshots and checkpoints

    def _recovery_is_idempotent(self, found: dict[Place, Any]) -> None:
        disk = self._case.disk.after_crash(Outcome.ALL_KEPT, self._case.seed)
        again = self._started(disk).broker
        for place, each in again.partitions.items():
            # While one partition is offline, every start writes the markers of the others again.
            if not self.offline or place[0] in ("orders", "facts"):
                assert described(each.log) == found[place], place
        assert found.keys() == again.partitions.keys()
        assert dict(again.directories[0].offline) == self.offline

    def _scan_agrees(self, found: dict[Place, Any]) -> None:
        disk = self._case.disk.after_crash(Outcome.ALL_KEPT, self._case.seed)
        for path in disk.files():
            if path.endswith(_SIDE_FILES):
                disk.unlink(path)
        for place in _DATA:
            directory = f"/data/{place[0]}-{place[1]}"
            first_file = f"{directory}/{0:020d}.log"
            if place not in found or not disk.exists(first_file):
                continue  # A scan cannot restore producers whose records were deleted.
            opening = Opening(is_clean=False, now_ms=NOW_MS, start_offset=found[place][1])
            config = self._config_of(place)
            scanned = Log.open(disk, directory, config, opening)
            assert described(scanned) == found[place], place

    def _config_of(self, place: Place) -> Any:
        return self._node.broker.partitions[place].log.config

    def _retries_are_known(self, node: Node) -> None:
        """The last batch of each producer in a partition is recognized as a duplicate."""
        for place in _DATA:
            partition = node.broker.partitions.get(place)
            if partition is None or (place[0] == "facts" and not self._case.is_durable):
                continue  # Offline; or an earlier part may be lost, as in `_facts`.
            last: dict[tuple[int, int], Sent] = {}
            for sent in self._observed.sent[place]:
                if partition.log.start_offset <= sent.offset < partition.log.end_offset:
                    last[sent.producer] = sent
            for sent in last.values():
                if sent.transaction < 0:
                    answer = node.produce(sent.batch, place)
                    assert (answer.error_code, answer.base_offset) == (0, sent.offset), place

    # 5: coordinators

    def _coordinators(self, node: Node) -> None:
        self._clock.advance(2 * TIMEOUT_MS)
        if not self._case.is_durable:
            return  # Then its logs can lose inconsistent suffixes, as in Kafka.
        for place in _DATA:
            if place in node.broker.partitions:
                partition = node.broker.partitions[place]
                assert partition.last_stable_offset == partition.high_watermark, place
        self._transactions(node)
        self._groups(node)
        self._share_states(node)

    def _transactions(self, node: Node) -> None:
        seen = [
            self._seen(node, ("ledger", index))
            for index in (0, 1)
            if ("ledger", index) in node.broker.partitions
        ]
        last_offset = -1
        may_be = set()
        for number, transaction in enumerate(self._observed.transactions):
            there = {
                number in each
                for index, each in enumerate(seen)
                if self._is_kept(node, ("ledger", index), number)
            }
            assert len(there) <= 1, f"transaction {number} is torn"
            if not transaction.commits:
                assert True not in there, f"transaction {number} was not to be committed"
            elif transaction.is_confirmed:
                assert False not in there, f"transaction {number} was committed"
                last_offset, may_be = transaction.offset, set()
            else:
                may_be.add(transaction.offset)
        if self._observed.transactions:
            offset = _committed(node, COPIES, 0)
            assert offset in {last_offset, *may_be}, (offset, last_offset, may_be)

    def _is_kept(self, node: Node, place: Place, number: int) -> bool:
        """Whether the transaction's batch is still in the log: not if it is below the start."""
        log = node.broker.partitions[place].log
        return any(
            sent.transaction == number and log.start_offset <= sent.offset < log.end_offset
            for sent in self._observed.sent[place]
        )

    def _seen(self, node: Node, place: Place) -> set[int]:
        """The transactions of which a read_committed reader gets records."""
        partition = node.broker.partitions[place]
        by_offset = {sent.offset: sent.transaction for sent in self._observed.sent[place]}
        return {
            by_offset[record.offset]
            for _, record in records(partition.log)
            if record.offset < partition.last_stable_offset
        }

    def _groups(self, node: Node) -> None:
        observed = self._observed
        if observed.group_offset.requested is not None:
            offset = _committed(node, WORKERS, 1)
            assert observed.group_offset.may_be(None if offset == -1 else offset), offset
        if observed.generation.confirmed is not None:
            shard = node.broker.groups.shard_for(MEMBERS)
            described = shard.post(DescribeGroup(MEMBERS)).result()
            assert described.state == "Stable" and len(described.members) == 1, described
            assert described.members[0].assignment == b"all"
        if observed.assigned.confirmed is not None:
            self._assigned_group(node)
        if observed.streams.confirmed is not None:
            streams.examine(node, observed)

    def _assigned_group(self, node: Node) -> None:
        """The members are those that were confirmed; the next heartbeats share the partitions."""
        group = node.broker.groups.shard_for(ASSIGNED).machine.groups[ASSIGNED]
        assert self._observed.assigned.may_be(frozenset(group.members)), group.members
        if not group.members:
            return
        for _ in range(3):
            for member_id, member in list(group.members.items()):
                answer = node.ask(_heartbeat(group, member_id, member), 1)
                assert answer.error_code == 0, answer
        assert group.state.value == "Stable", group.state
        owned = [
            partition
            for member in group.members.values()
            for partitions in member.assigned.values()
            for partition in partitions
        ]
        assert sorted(owned) == list(range(TOPICS[ASSIGNED_TOPIC][0])), owned

    def _share_states(self, node: Node) -> None:
        start_offset = self._observed.share_start
        if start_offset.confirmed is None:
            return
        key = ShareKey(SHARERS, node.broker.image.topics["orders"].id, 0)
        state = only(now(node.broker.share_coordinator.submit_all([StateRead(key, 0)])))
        assert start_offset.may_be(state.start_offset), state
        if state.start_offset:
            last_offset = state.start_offset + 5
            expected = StateBatch(state.start_offset, last_offset, DeliveryState.ACKNOWLEDGED, 1)
            assert state.batches == (expected,)

    # Further operation

    def _continues_to_work(self, node: Node) -> None:
        """New producers get unused ids, new records follow the old ones, and a stop is clean."""
        answer = node.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS), 4
        )
        assert answer.error_code == 0 and answer.producer_id not in self._observed.producer_ids
        for place in _DATA:
            if place in node.broker.partitions:
                end_offset = node.broker.partitions[place].log.end_offset
                answer = node.produce(_NEW_BATCH, place)
                assert (answer.error_code, answer.base_offset) == (0, end_offset), answer
        before = {place: described(each.log) for place, each in node.broker.partitions.items()}
        node.stop()
        again = self._started(self._case.disk).broker
        for place, each in again.partitions.items():
            if not self.offline or place[0] in ("orders", "facts"):
                assert described(each.log) == before[place], place
        assert dict(again.directories[0].offline) == self.offline


def _folded(sent: list[Sent], end_offset: int) -> dict[bytes, tuple[int, bytes]]:
    latest: dict[bytes, tuple[int, bytes]] = {}
    for each in sent:
        if each.offset < end_offset:
            latest.pop(each.key, None)
            if each.value is not None:
                latest[each.key] = each.offset, each.value
    return latest


def _committed(node: Node, group: str, index: int) -> int:
    kind = OffsetFetchRequest.Group
    answer = node.ask(
        OffsetFetchRequest(
            require_stable=True,
            groups=[
                kind(group_id=group, topics=[kind.Topics(name="orders", partition_indexes=[index])])
            ],
        ),
        8,
    )
    (partition,) = answer.groups[0].topics[0].partitions
    assert answer.groups[0].error_code == partition.error_code == 0, answer
    offset: int = partition.committed_offset
    return offset


def _heartbeat(group: Any, member_id: str, member: Any) -> ConsumerGroupHeartbeatRequest:
    """Report that the member owns its assignment and nothing else."""
    kind = ConsumerGroupHeartbeatRequest.TopicPartitions
    return ConsumerGroupHeartbeatRequest(
        group_id=ASSIGNED,
        member_id=member_id,
        member_epoch=member.epoch,
        topic_partitions=[
            kind(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in member.assigned.items()
        ],
    )


@contextmanager
def _errors_logged() -> Iterator[list[str]]:
    """The messages logged as errors."""
    handler, logger = _Keeping(), logging.getLogger("wirekafka")
    was_propagating, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = was_propagating


class _Keeping(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
