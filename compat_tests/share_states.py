"""The same requests to two share coordinators: Apache Kafka's, and ours in this process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from compat_tests.wire import Wire
from tests.eventually import eventually
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import batches
from wirekafka.codec.message import Request
from wirekafka.codec.record import Record, decode_records
from wirekafka.coordinator.share_state.records import ShareRecord, ShareRecordCodec, ShareSnapshot
from wirekafka.coordinator.share_state.states import ShareKey, coordinator_key
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_share_group_state import DeleteShareGroupStateRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.initialize_share_group_state import InitializeShareGroupStateRequest
from wirekafka.protocol.read_share_group_state import ReadShareGroupStateRequest
from wirekafka.protocol.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from wirekafka.protocol.write_share_group_state import WriteShareGroupStateRequest
from wirekafka.replication.partition.internal_topics import SHARE_STATE_TOPIC

KINDS: tuple[type[Request], ...] = (
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    WriteShareGroupStateRequest,
    DeleteShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)
UNKNOWN_ID = bytes(range(1, 17))
PARTITIONS = 3
_PARTITION_WEIGHTS = {0: 8, 1: 8, 2: 4, PARTITIONS: 1, -1: 1}

_Initialize = InitializeShareGroupStateRequest.InitializeStateData
_Read = ReadShareGroupStateRequest.ReadStateData
_Write = WriteShareGroupStateRequest.WriteStateData
_Delete = DeleteShareGroupStateRequest.DeleteStateData
_Summary = ReadShareGroupStateSummaryRequest.ReadStateSummaryData


Ask = Callable[[Request, int], Any]
"""Sends a request in a version, and returns the response."""


class Broker(Protocol):
    """One broker, or several that get the same requests."""

    topic_ids: list[bytes]

    def ask(self, request: Request, version: int) -> Any: ...


class Difference(AssertionError):
    """Two responses, or two sequences of records, that are not equal."""


class BothCoordinators:
    """The two brokers, with topics of the same ids and a `__share_group_state` of the same size."""

    def __init__(
        self, address: tuple[str, int], data: Path, scratch: Path, settings: Mapping[str, str]
    ):
        self._wire = Wire(address)
        self._data = data
        self._scratch = scratch / "data"
        self._next_ids: list[bytes] = []
        ids = random.Random("ids")
        self.clock = ManualClock()
        self.ours = InProcessBroker(
            self._scratch,
            self.clock,
            new_id=lambda: self._next_ids.pop(0) if self._next_ids else ids.randbytes(16),
            **{name.replace(".", "_"): value for name, value in settings.items()},
        )
        self.clock.advance(1)
        self.topic_ids: list[bytes] = []
        self.before_topic = [
            (self._wire.ask(request, 0), self.ours.call(request, 0))
            for request in map(one_of_unknown_topic, KINDS)
        ]
        """Kafka's response and ours to each request, before `__share_group_state` exists."""
        for name in ("a", "b"):
            self.create_topic(name, PARTITIONS)

    def stop(self) -> None:
        self._wire.close()
        self.ours.stop()

    def ask(self, request: Request, version: int) -> Any:
        """The response of both; raises Difference unless it is the same."""
        self.clock.advance(1)
        kafkas = self._wire.ask(request, version)
        ours = self.ours.call(request, version)
        if kafkas != ours:
            raise Difference(f"version {version} of {request}\nKafka: {kafkas}\nours:  {ours}")
        return kafkas

    # Topics

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic; its id is the last of `topic_ids`."""
        kind = CreateTopicsRequest.CreatableTopic
        topic = kind(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=9000)
        [created] = self._wire.ask(request, 7).topics
        assert created.error_code == 0, created
        self.topic_ids.append(created.topic_id)
        self._next_ids.append(created.topic_id)
        assert self.ours.create(name, partitions) == created.topic_id
        eventually(lambda: self._knows(created.topic_id, partitions))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until its states are deleted."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=9000
        )
        assert self._wire.ask(request, 6).responses[0].error_code == 0
        assert self.ours.call(request, 6).responses[0].error_code == 0
        self.clock.advance(1)
        counts = [len(records) for records in self._ours().values()]
        eventually(lambda: [len(records) for records in self._kafkas().values()] == counts)

    def _knows(self, topic_id: bytes, partitions: int) -> bool:
        return all(
            find_coordinators(ask, topic_id, partitions) for ask in (self._wire.ask, self.ours.call)
        )

    # Records

    def compare_records(self) -> None:
        """Raise Difference unless both have stored the same records, times aside."""
        kafkas, ours = self._kafkas(), self._ours()
        for partition in kafkas:
            pairs = zip(kafkas[partition], ours[partition], strict=False)
            for number, (theirs, our) in enumerate(pairs):
                if theirs != our:
                    raise Difference(f"{partition}, {number}\nKafka: {theirs}\nours:  {our}")
            assert len(kafkas[partition]) == len(ours[partition]), partition

    def _kafkas(self) -> dict[str, list[ShareRecord]]:
        return stored_records(self._data)

    def _ours(self) -> dict[str, list[ShareRecord]]:
        return stored_records(self._scratch)


def one_of_unknown_topic(kind: type[Request]) -> Request:
    """A request for one partition of a topic that does not exist."""
    topic = next(part for part in vars(kind).values() if isinstance(part, type))
    partition: Any = topic.PartitionData()  # type: ignore[attr-defined]
    return kind(group_id="group", topics=[topic(topic_id=UNKNOWN_ID, partitions=[partition])])


def find_coordinators(ask: Ask, topic_id: bytes, partitions: int) -> bool:
    """Whether all shards are loaded and know the topic; creates the internal topic."""
    for number in range(20):
        group_id = f"probe-{number}"
        key = coordinator_key(ShareKey(group_id, topic_id, partitions - 1))
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        if ask(find, 6).coordinators[0].error_code:
            return False
        [found] = ask(summaries(group_id, [topic_id], partitions), 1).results
        if any(each.error_code for each in found.partitions):
            return False
    return True


def summaries(group_id: str, topic_ids: Iterable[bytes], partitions: int) -> Request:
    """A request for the summaries of all partitions of topics."""
    return ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            _Summary(
                topic_id=topic_id,
                partitions=[_Summary.PartitionData(partition=index) for index in range(partitions)],
            )
            for topic_id in topic_ids
        ],
    )


def stored_records(data: Path) -> dict[str, list[ShareRecord]]:
    """The records of each partition of `__share_group_state` in a log directory, without times.

    Checks that encoding what was decoded gives the same bytes.
    """
    codec = ShareRecordCodec()
    found: dict[str, list[ShareRecord]] = {}
    for directory in sorted(data.glob(f"{SHARE_STATE_TOPIC}-*")):
        records = found[directory.name] = []
        for record in _records(directory):
            assert record.key is not None
            decoded = codec.unpack(record.key, record.value)
            assert codec.pack(decoded) == (record.key, record.value)
            records.append(_timeless(decoded))
    return found


def _records(directory: Path) -> Iterator[Record]:
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        for at, header in batches(data):
            yield from decode_records(data[at : at + header.size_bytes])


def _timeless(record: ShareRecord) -> ShareRecord:
    value = record.value
    if not isinstance(value, ShareSnapshot):
        return record
    is_cold = value.create_ms != value.write_ms
    return record._replace(value=value._replace(create_ms=1, write_ms=1 + is_cold))


class Scenario:
    """Random requests about the share partitions of one group, most of them sensible."""

    def __init__(self, chance: random.Random, broker: Broker, group_id: str, first_epoch: int = 0):
        self._random = chance
        self._broker = broker
        self._group_id = group_id
        self._first_epoch = first_epoch
        self.topic_ids: tuple[bytes, ...] = tuple(broker.topic_ids[:2])
        self._state_epochs: dict[Any, int] = {}
        self._leader_epochs: dict[Any, int] = {}
        self._start_offsets: dict[Any, int] = {}

    def step(self) -> None:
        """Send one request."""
        make = self._random.choices(
            (self._initialize, self._read, self._write, self._delete, self._summarize),
            (3, 4, 14, 1, 3),
        )[0]
        request, version = make()
        self._broker.ask(request, version)

    def _initialize(self) -> tuple[Request, int]:
        topics = []
        for topic_id, partitions in self._share_partitions():
            data = []
            for partition in partitions:
                epoch = self._near(self._state_epochs, (topic_id, partition), growth=1)
                offset = self._random.choice((-1, 0, self._random.randint(0, 60)))
                data.append(
                    _Initialize.PartitionData(
                        partition=partition, state_epoch=epoch, start_offset=offset
                    )
                )
                self._start_offsets[topic_id, partition] = offset
            topics.append(_Initialize(topic_id=topic_id, partitions=data))
        return InitializeShareGroupStateRequest(group_id=self._group_id, topics=topics), 0

    def _read(self) -> tuple[Request, int]:
        topics = []
        for topic_id, partitions in self._share_partitions():
            data = [
                _Read.PartitionData(
                    partition=partition,
                    leader_epoch=self._near(
                        self._leader_epochs,
                        (topic_id, partition),
                        growth=self._random.randint(0, 1),
                    ),
                )
                for partition in partitions
            ]
            topics.append(_Read(topic_id=topic_id, partitions=data))
        return ReadShareGroupStateRequest(group_id=self._group_id, topics=topics), 0

    def _write(self) -> tuple[Request, int]:
        topics = []
        for topic_id, partitions in self._share_partitions():
            data = []
            for partition in partitions:
                key = topic_id, partition
                data.append(
                    _Write.PartitionData(
                        partition=partition,
                        state_epoch=self._near(self._state_epochs, key),
                        leader_epoch=self._near(self._leader_epochs, key),
                        start_offset=self._start_offset(key),
                        delivery_complete_count=self._random.choice((-1, 0, 3, 7)),
                        state_batches=list(self._batches(self._start_offsets.get(key, 0))),
                    )
                )
            topics.append(_Write(topic_id=topic_id, partitions=data))
        return (
            WriteShareGroupStateRequest(group_id=self._group_id, topics=topics),
            self._random.randint(0, 1),
        )

    def _delete(self) -> tuple[Request, int]:
        topics = [
            _Delete(
                topic_id=topic_id,
                partitions=[_Delete.PartitionData(partition=each) for each in partitions],
            )
            for topic_id, partitions in self._share_partitions()
        ]
        return DeleteShareGroupStateRequest(group_id=self._group_id, topics=topics), 0

    def _summarize(self) -> tuple[Request, int]:
        topics = [
            _Summary(
                topic_id=topic_id,
                partitions=[
                    _Summary.PartitionData(partition=each, leader_epoch=self._random.randint(-1, 3))
                    for each in partitions
                ],
            )
            for topic_id, partitions in self._share_partitions()
        ]
        return (
            ReadShareGroupStateSummaryRequest(group_id=self._group_id, topics=topics),
            self._random.randint(0, 1),
        )

    def _share_partitions(self) -> Iterator[tuple[bytes, list[int]]]:
        """Topic ids, each with partitions; most often a single share partition."""
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            is_known = self._random.random() < 0.97
            topic_id = self._random.choice(self.topic_ids) if is_known else UNKNOWN_ID
            count = self._random.choice((1, 1, 1, 2, 4))
            yield (
                topic_id,
                self._random.choices(
                    list(_PARTITION_WEIGHTS), list(_PARTITION_WEIGHTS.values()), k=count
                ),
            )

    def _near(self, epochs: dict[Any, int], key: Any, growth: int = 0) -> int:
        """An epoch: as a rule the present one, which grows by `growth`; seldom one beside it."""
        if self._random.random() < 0.07:
            return max(epochs.get(key, self._first_epoch) + self._random.choice((-1, 1, 2, -9)), -1)
        epochs[key] = epochs.get(key, self._first_epoch) + growth
        return epochs[key]

    def _start_offset(self, key: Any) -> int:
        known = self._start_offsets.get(key, 0)
        offset = self._random.choice((-1, known, known, known + self._random.randint(-3, 9)))
        offset = max(offset, -1)
        self._start_offsets[key] = max(known, offset)
        return offset

    def _batches(self, start_offset: int) -> Iterator[Any]:
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 5))):
            first = max(start_offset + self._random.randint(-4, 30), 0)
            yield _Write.PartitionData.StateBatch(
                first_offset=first,
                last_offset=first + self._random.choice((0, 0, 3, 12)),
                delivery_state=self._random.choice((0, 0, 2, 4)),
                delivery_count=self._random.randint(0, 3),
            )
