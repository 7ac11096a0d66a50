"""Generates random transactional requests, and records a broker's comparable responses."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compat_tests.whole_log import end_offset, read_log
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.batch import batches
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.errors import Error
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

PARTITIONS = 2
_BUSY = (
    Error.CONCURRENT_TRANSACTIONS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.NOT_LEADER_OR_FOLLOWER,
)


@dataclass
class Step:
    """One request: its name, and what the script chose."""

    name: str
    choices: dict[str, Any] = field(default_factory=dict)


def script(seed: int) -> list[Step]:
    """The steps of one seed; stale epochs, foreign ids and bad states included."""
    chance = random.Random(seed)
    steps = [Step("start", {"version": chance.choice([2, 3, 4, 5])})]
    names = ["start", "add", "add", "produce", "produce", "produce", "end", "end", "offsets"]
    for _ in range(chance.randint(4, 14)):
        name = chance.choice(names)
        second = chance.random() < 0.5
        choices: dict[str, Any] = {
            "partition": chance.randrange(PARTITIONS),
            "lag": chance.choice([0, 0, 0, 0, 0, 1, -1]),
            "foreign": chance.random() < 0.05,
        }
        if name == "start":
            choices |= {
                "version": chance.choice([0, 1, 2, 3, 4, 5]),
                "resumes": chance.random() < 0.4,
                "timeout_ms": chance.choice([60_000, 60_000, 60_000, 0, 900_001]),
            }
        elif name == "add":
            choices |= {"version": chance.choice([0, 1, 2, 3]), "missing": chance.random() < 0.1}
        elif name == "produce":
            choices |= {
                "version": chance.choice([12, 13]) if second else chance.choice([10, 11]),
                "skip": chance.choice([0, 0, 0, 0, 1]),
                "anonymous": chance.random() < 0.05,
            }
        elif name == "end":
            choices |= {
                "version": 5 if second else chance.choice([0, 1, 2, 3, 4]),
                "commit": chance.random() < 0.6,
            }
        else:
            choices |= {"version": chance.choice([5, 6]) if second else chance.choice([0, 2, 3, 4])}
        steps.append(Step(name, choices))
    return steps


class Player:
    """A client of one broker: its transactional id, and the state that a client keeps."""

    def __init__(self, wire: Wire, name: str):
        self._wire = wire
        self._topic = f"t-{name}"
        self._id = f"x-{name}"
        self._group = f"g-{name}"
        self._producer_id = -1
        self._epoch = -1
        self._first_id: int | None = None
        self._sequences: dict[int, int] = {}
        self._topic_id = b""

    def play(self, steps: list[Step]) -> list[Any]:
        """Run the steps; return each step's result and, at the end, the logs."""
        self._prepare()
        plays: dict[str, Callable[..., Any]] = {
            "start": self._start,
            "add": self._add,
            "produce": self._produce,
            "end": self._end,
            "offsets": self._offsets,
        }
        results: list[Any] = []
        for step in steps:
            results.append((step.name, plays[step.name](**step.choices)))
            self._settle()
        results.append(self._state())
        results.append([self._log(index) for index in range(PARTITIONS)])
        return results

    # Steps

    def _start(
        self,
        version: int,
        resumes: bool = False,
        timeout_ms: int = 60_000,
        lag: int = 0,
        foreign: bool = False,
        partition: int = 0,
    ) -> Any:
        resumes = resumes and version >= 3 and self._producer_id >= 0
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self._named(foreign) if resumes else -1,
            producer_epoch=max(self._epoch - lag, 0) if resumes else -1,
        )
        answer = self._wire.ask(request, version)
        if answer.error_code == Error.CONCURRENT_TRANSACTIONS:
            self._settle()
            return "aborts", self._retried_start(request, version)
        return self._started(answer)

    def _retried_start(self, request: InitProducerIdRequest, version: int) -> Any:
        def answered() -> Any:
            answer = self._wire.ask(request, version)
            return answer if answer.error_code != Error.CONCURRENT_TRANSACTIONS else None

        return self._started(eventually(answered))

    def _started(self, answer: Any) -> Any:
        if answer.error_code == 0:
            self._adopt(answer.producer_id, answer.producer_epoch)
        return answer.error_code, self._relative(answer.producer_id), answer.producer_epoch

    def _add(self, version: int, missing: bool, partition: int, lag: int, foreign: bool) -> Any:
        topics = [Topic(name=self._topic, partitions=[partition])]
        if missing:
            topics.append(Topic(name="nowhere", partitions=[0]))
        answer = self._wire.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self._named(foreign),
                v3_and_below_producer_epoch=self._epoch - lag,
                v3_and_below_topics=topics,
            ),
            version,
        )
        return sorted(
            (topic.name == "nowhere", each.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        )

    def _produce(
        self, version: int, skip: int, anonymous: bool, partition: int, lag: int, foreign: bool
    ) -> Any:
        sequence = self._sequences.get(partition, 0) + skip
        batch = encode_batch(
            [Record(0, 1_700_000_000_000, b"k", str(sequence).encode(), ())],
            options=BatchOptions(
                producer_id=self._named(foreign),
                producer_epoch=self._epoch - lag,
                base_sequence=sequence,
                is_transactional=True,
            ),
        )
        kind = ProduceRequest.TopicProduceData
        answer = self._wire.ask(
            ProduceRequest(
                transactional_id=None if anonymous else self._id,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[
                    kind(
                        name=self._topic,
                        topic_id=self._topic_id,
                        partition_data=[kind.PartitionProduceData(index=partition, records=batch)],
                    )
                ],
            ),
            version,
        )
        done = answer.responses[0].partition_responses[0]
        if done.error_code == 0:
            self._sequences[partition] = sequence + 1
        return done.error_code, done.base_offset, done.error_message

    def _end(self, version: int, commit: bool, lag: int, foreign: bool, partition: int) -> Any:
        answer = self._wire.ask(
            EndTxnRequest(
                transactional_id=self._id,
                producer_id=self._named(foreign),
                producer_epoch=self._epoch - lag,
                committed=commit,
            ),
            version,
        )
        if version >= 5 and answer.error_code == 0:
            self._adopt(answer.producer_id, answer.producer_epoch)
        return answer.error_code, self._relative(answer.producer_id), answer.producer_epoch

    def _offsets(self, version: int, lag: int, foreign: bool, partition: int) -> Any:
        producer = {"producer_id": self._named(foreign), "producer_epoch": self._epoch - lag}
        added = None
        if version < 5:
            added = self._wire.ask(
                AddOffsetsToTxnRequest(transactional_id=self._id, group_id=self._group, **producer),
                3,
            ).error_code
        kind = TxnOffsetCommitRequest.Topic
        answer = self._wire.ask(
            TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=self._group,
                **producer,
                topics=[
                    kind(
                        name=self._topic,
                        topic_id=self._topic_id,
                        partitions=[kind.Partition(partition_index=partition, committed_offset=1)],
                    )
                ],
            ),
            version,
        )
        return added, answer.topics[0].partitions[0].error_code

    # Setup and results

    def _prepare(self) -> None:
        kind = CreateTopicsRequest.CreatableTopic
        answer = self._wire.ask(
            CreateTopicsRequest(
                timeout_ms=10_000,
                topics=[kind(name=self._topic, num_partitions=PARTITIONS, replication_factor=1)],
            ),
            7,
        )
        assert answer.topics[0].error_code == 0, answer
        for key, key_type in ((self._id, 1), (self._group, 0)):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            eventually(
                lambda request=request: self._wire.ask(request, 4).coordinators[0].error_code == 0
            )
        topics = [MetadataRequest.Topic(name=self._topic)]

        def is_led() -> bool:
            found = self._wire.ask(MetadataRequest(topics=topics), 12).topics[0]
            self._topic_id = found.topic_id
            return found.error_code == 0 and all(each.leader_id >= 0 for each in found.partitions)

        eventually(is_led)
        # A broker that has just started waits for its first producer ids.
        fresh = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        eventually(lambda: self._wire.ask(fresh, 4).error_code == 0)
        # Requests to coordinators are repeated until they have loaded.
        eventually(lambda: self._described().error_code not in _BUSY)
        offsets = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=self._group)])
        eventually(lambda: self._wire.ask(offsets, 8).groups[0].error_code == 0)
        eventually(
            lambda: (
                not any(
                    end_offset(self._wire.ask, self._topic, index) for index in range(PARTITIONS)
                )
            )
        )

    def _settle(self) -> None:
        """Wait until markers are written: Kafka responds before that."""
        eventually(lambda: not self._described().transaction_state.startswith("Prepare"))

    def _described(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self._id])
        return self._wire.ask(request, 0).transaction_states[0]

    def _state(self) -> Any:
        found = self._described()
        return (
            found.error_code,
            found.transaction_state,
            self._relative(found.producer_id),
            found.producer_epoch,
            sorted(
                (
                    topic.topic == self._topic,
                    topic.topic == self._topic and sorted(topic.partitions),
                )
                for topic in found.topics
            ),
        )

    def _log(self, index: int) -> list[Any]:
        records = []
        data = memoryview(read_log(self._wire.ask, self._topic, index).data)
        for position, header in batches(data):
            for record in decode_records(data[position:]):
                records.append(
                    (
                        header.attributes,
                        self._relative(header.producer_id),
                        header.producer_epoch,
                        header.base_sequence,
                        record.offset,
                        record.key,
                        None if header.is_control else record.value,
                    )
                )
        return records

    def _named(self, foreign: bool) -> int:
        return self._producer_id + (1_000_000 if foreign else 0)

    def _relative(self, producer_id: int) -> int | None:
        if producer_id < 0 or self._first_id is None:
            return None
        return producer_id - self._first_id

    def _adopt(self, producer_id: int, epoch: int) -> None:
        if self._first_id is None:
            self._first_id = producer_id
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._sequences.clear()
        self._producer_id, self._epoch = producer_id, epoch


def settled(wire: Wire, name: str, seed: int) -> list[Any]:
    """Run the script of one seed, and return its results."""
    started = time.monotonic()
    results = Player(wire, name).play(script(seed))
    assert time.monotonic() - started < 60, "a script is a matter of milliseconds"
    return results
