"""The same requests to Apache Kafka over the wire and to our group coordinator in this process.

Ours uses Kafka's topic ids and Kafka's clock, since assignments depend on both.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from compat_tests.wire import Wire
from tests.coordinator.group_machines import GroupMachines
from tests.eventually import eventually
from wirekafka.codec.batch import read_header
from wirekafka.codec.message import Request
from wirekafka.coordinator.groups.offset_record import OffsetRecord
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.metadata import MetadataRequest

_METADATA, _CREATE_TOPICS, _CREATE_PARTITIONS, _FIND_COORDINATOR = 13, 7, 3, 4


class Compared(NamedTuple):
    """A request and both responses."""

    request: Request
    version: int
    kafkas: Any
    ours: Any


class Difference(AssertionError):
    """Two responses, or two sequences of stored records, that are not equal."""


class BothBrokers:
    """Both coordinators, with the same topics."""

    def __init__(self, address: tuple[str, int], data: Path, **settings: Any):
        self._wire = Wire(address, client_id="client")
        self._log = data / "__consumer_offsets-0"
        self.ours = _TimelyBroker(**settings)
        self._then = time.monotonic()
        self._ids: dict[str, bytes] = {}
        self._probe = secrets.token_hex(4)
        self._probes = 0
        for name in list(self.ours.image.topics):
            topic = self.ours.image.topics.pop(name)
            del self.ours.image.topics_by_id[topic.id]
        self.ours.ready()
        self.asked: list[Compared] = []
        self._await_coordinator()

    # Asking

    def topic_ids(self) -> dict[str, bytes]:
        return self._ids

    def ask(self, request: Request, version: int) -> Any:
        """Kafka's response; raises Difference if ours is not equal."""
        kafkas = self._exchange(request, version)
        self.keep_time()
        if isinstance(request, ConsumerGroupHeartbeatRequest | JoinGroupRequest) and (
            kafkas.member_id and not request.member_id
        ):
            made = _id_of(kafkas.member_id)
            self.ours.new_id = lambda: made  # type: ignore[method-assign]
        ours = self.ours.ask(request, version)
        self.asked.append(Compared(request, version, kafkas, ours))
        if isinstance(request, ConsumerGroupHeartbeatRequest) and self._has_looked_up():
            self._await_lookup(request.group_id)
        if kafkas != ours:
            raise Difference(f"{request}\nKafka: {kafkas}\nours:  {ours}")
        return kafkas

    def keep_time(self) -> None:
        """Advance our clock by the time that has passed at Kafka."""
        now = time.monotonic()
        passed_ms = int((now - self._then) * 1000)
        self._then += passed_ms / 1000
        self.ours.clock.advance(passed_ms)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self.keep_time()

    def _has_looked_up(self) -> bool:
        """Have us look up the topics of regular expressions, if the last request requires it."""
        before = sum(log.end_offset for log in self.ours.logs)
        self.ours.clock.advance(0)
        return sum(log.end_offset for log in self.ours.logs) > before

    def _await_lookup(self, group_id: str) -> None:
        """Wait until Kafka has looked up topics, which it does in another thread."""
        self.wait(0.03)
        describe = ConsumerGroupDescribeRequest(group_ids=[group_id])
        ours = self.ours.ask(describe, 1).groups[0].group_epoch
        for _ in range(100):
            if self._exchange(describe, 1).groups[0].group_epoch == ours:
                break
            self.wait(0.02)

    def _exchange(self, request: Request, version: int) -> Any:
        response = self._wire.ask(request, version)
        assert not isinstance(response, str), response
        return response

    def _await_coordinator(self) -> None:
        request = FindCoordinatorRequest(coordinator_keys=["any"])
        eventually(
            lambda: self._exchange(request, _FIND_COORDINATOR).coordinators[0].error_code == 0,
            timeout_s=30,
        )
        probe = ConsumerGroupHeartbeatRequest(group_id="probe", member_id="m", member_epoch=1)
        eventually(lambda: self._exchange(probe, 1).error_code == 69, timeout_s=30)

    # Topics

    def create_topics(self, partitions: dict[str, int]) -> None:
        """Create topics with these numbers of partitions."""
        kind = CreateTopicsRequest.CreatableTopic
        self._exchange(
            CreateTopicsRequest(
                timeout_ms=9000,
                topics=[
                    kind(name=name, num_partitions=count, replication_factor=1)
                    for name, count in partitions.items()
                ],
            ),
            _CREATE_TOPICS,
        )
        self._follow(partitions)

    def grow_topics(self, partitions: dict[str, int]) -> None:
        """Extend topics to these numbers of partitions."""
        kind = CreatePartitionsRequest.Topic
        self._exchange(
            CreatePartitionsRequest(
                timeout_ms=9000,
                validate_only=False,
                topics=[
                    kind(name=name, count=count, assignments=None)
                    for name, count in partitions.items()
                ],
            ),
            _CREATE_PARTITIONS,
        )
        self._follow(partitions)

    def _follow(self, partitions: dict[str, int]) -> None:
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in partitions])

        def found() -> dict[str, bytes]:
            topics = self._exchange(request, _METADATA).topics
            return {
                topic.name: topic.topic_id
                for topic in topics
                if len(topic.partitions) == partitions[topic.name]
            }

        eventually(lambda: len(found()) == len(partitions), timeout_s=30)
        eventually(
            lambda: self._assigned_to_probe(partitions) == sum(partitions.values()), timeout_s=60
        )
        self.keep_time()
        for name, id in found().items():
            if name in self._ids:
                self.ours.grow_topic(name, partitions[name])
            else:
                self._ids[name] = id
                self.ours.add_topic(name, partitions[name], id)

    def _assigned_to_probe(self, topics: Iterable[str]) -> int:
        """How many partitions a new group would get: its coordinator knows of topics last."""
        self._probes += 1
        answer = self._exchange(
            ConsumerGroupHeartbeatRequest(
                group_id=f"probe-{self._probe}-{self._probes}",
                member_id="probe",
                member_epoch=0,
                rebalance_timeout_ms=9000,
                subscribed_topic_names=list(topics),
                topic_partitions=[],
            ),
            1,
        )
        return sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)

    # Records

    def compare_records(self, group_ids: Iterable[str]) -> None:
        """Raise Difference unless both stored the same records for each group, times aside."""
        for text in self.record_differences(group_ids).values():
            raise Difference(text)

    def record_differences(self, group_ids: Iterable[str]) -> dict[str, str]:
        """The first difference between the stored records of each group, by group id.

        Both logs are read once, at the same moment, because Kafka keeps ending sessions.
        """
        self.keep_time()
        kafkas, ours = (
            _by_group(_batches(self._log)),
            _by_group(batch for log in self.ours.logs for batch in log.batches),
        )
        found = {id: _first_difference(kafkas[id], ours[id]) for id in group_ids}
        return {id: f"{id}: {text}" for id, text in found.items() if text}


def _first_difference(kafkas: list[Any], ours: list[Any]) -> str:
    for number, pair in enumerate(zip(kafkas, ours, strict=False)):
        # Records are tuples, equal to those of another type with the same fields.
        if pair[0] != pair[1] or type(pair[0]) is not type(pair[1]):
            return f"record {number}\nKafka: {pair[0]}\nours:  {pair[1]}"
    if len(kafkas) != len(ours):
        return f"Kafka has {len(kafkas)} records, we have {len(ours)}"
    return ""


class _TimelyBroker(GroupMachines):
    """A broker whose timers fire while a request waits for them."""

    async def timed(self, answer: Any) -> Any:
        task = asyncio.ensure_future(answer)
        for _ in range(1000):
            await asyncio.sleep(0)
            if task.done():
                break
            self.clock.advance(0)
        return await asyncio.wait_for(task, 5)


def _id_of(member_id: str) -> bytes:
    """The random part of an id that a coordinator made, classic or not."""
    with suppress(ValueError):
        return UUID(member_id.partition("-")[2]).bytes
    return base64.urlsafe_b64decode(member_id + "==")


def _batches(directory: Path) -> Iterator[bytes]:
    for segment in sorted(directory.glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + 12 <= len(data):
            size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            if size == 12:
                break
            yield data[at : at + size]
            at += size


def _by_group(batches: Iterable[bytes]) -> dict[str, list[Any]]:
    codec = GroupRecordCodec()
    groups: dict[str, list[Any]] = defaultdict(list)
    for batch in batches:
        if read_header(batch).is_control:
            continue
        for record in codec.decode(batch):
            groups[record.group_id].append(_timeless(record))
    return groups


def _timeless(record: Any) -> Any:
    """The record without the time it was written, or the metadata it was written with."""
    if isinstance(record, OffsetRecord):
        committed = record.committed
        return record._replace(committed=committed and committed._replace(commit_ms=0))
    value = record.value
    for name in ("assignment_timestamp", "timestamp", "version", "current_state_timestamp"):
        if getattr(value, name, 0):
            setattr(value, name, 1)
    return record
