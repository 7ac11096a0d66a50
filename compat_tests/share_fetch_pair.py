"""Apache Kafka over the wire beside a broker of ours in this process, for share groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from compat_tests.wire import Wire
from tests import share_state_topic
from tests.apis.share_member import share_acknowledge_request, share_fetch_request
from tests.eventually import eventually
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import batches, read_header
from wirekafka.codec.message import Request
from wirekafka.codec.record import Record, decode_records
from wirekafka.coordinator.share_state.states import ShareKey, coordinator_key
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.initialize_share_group_state import InitializeShareGroupStateRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.read_share_group_state import ReadShareGroupStateRequest
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest

LOCK_MS = 10_000
SETTINGS = f"""{share_state_topic.lines()}\
group.share.min.record.lock.duration.ms=1000
group.share.record.lock.duration.ms={LOCK_MS}
group.share.partition.max.record.locks=100
errors.deadletterqueue.auto.create.topics.enable=true
transaction.partition.verification.enable=false
offsets.topic.num.partitions=1
"""
EARLIEST, INITIAL = 0, -1
"""Start offsets of groups: 0, or where `share.auto.offset.reset` has them start."""
_GROUP = 32
_TOPIC_NAMES_VERSION, _SHARE_VERSION = 12, 2


class Difference(AssertionError):
    """Two responses, or two stored states, that are not equal."""


class SharingBrokers:
    """Both brokers, with the same topics and the same time."""

    def __init__(self, address: tuple[str, int], data: Path):
        self._wire = Wire(address)
        self._start_ms = int(time.time() * 1000)
        self._clock = ManualClock(self._start_ms)
        self._then = time.monotonic()
        settings = dict(line.split("=") for line in SETTINGS.split())
        self._ours = InProcessBroker(
            data, self._clock, **{name.replace(".", "_"): each for name, each in settings.items()}
        )
        self._kafkas_ids: dict[str, bytes] = {}
        self._our_ids: dict[str, bytes] = {}

    def close(self) -> None:
        self._ours.stop()
        self._wire.close()

    def wait(self, seconds: float) -> None:
        """Let time pass at both."""
        time.sleep(seconds)
        self._keep_time()

    def _keep_time(self) -> None:
        """Advance our clock by the time that has passed at Kafka."""
        passed_ms = int((time.monotonic() - self._then) * 1000)
        self._then += passed_ms / 1000
        self._clock.advance(passed_ms)

    # Topics and their records.

    def create(self, start_offsets: Mapping[str, int]) -> None:
        """Topics of one partition by name, each shared by the group of its name, from there on."""
        names = list(start_offsets)
        self.create_topics(names)
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names])

        def leaders() -> dict[str, bytes]:
            topics = self._ask_kafka(request, _TOPIC_NAMES_VERSION).topics
            return {
                topic.name: topic.topic_id
                for topic in topics
                if topic.partitions and topic.partitions[0].leader_id == 1
            }

        eventually(lambda: len(leaders()) == len(names), timeout_s=30)
        for name, topic_id in leaders().items():
            self._kafkas_ids[name] = topic_id
            self._our_ids[name] = self._ours.broker.image.topics[name].id
            self._await_coordinator(self._ask_kafka, name, topic_id)
            self._await_coordinator(self._ours.call, name, self._our_ids[name])
            for ask in (self._ask_kafka, self._ours.call):
                self._await_group(ask, name)
            self._initialize(name, start_offsets[name])

    def create_topics(self, names: Iterable[str], **configs: str) -> None:
        """Topics of one partition."""
        kind = CreateTopicsRequest.CreatableTopic
        topics = [
            kind(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[
                    kind.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
            for name in names
        ]
        self._ask_kafka(CreateTopicsRequest(timeout_ms=9000, topics=topics), 7)
        for topic in topics:
            self._ours.create(topic.name, **configs)

    def configure(self, group_id: str, **configs: str) -> None:
        """Set options of a group at both."""
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        request = IncrementalAlterConfigsRequest(
            resources=[
                kind(
                    resource_type=_GROUP,
                    resource_name=group_id,
                    configs=[
                        kind.AlterableConfig(name=key.replace("_", "."), value=value)
                        for key, value in configs.items()
                    ],
                )
            ]
        )
        for answer in (self._ask_kafka(request, 1), self._ours.call(request, 1)):
            assert [each.error_code for each in answer.responses] == [0], answer

    def produce(self, topic: str, count: int, age_ms: int = 0) -> None:
        """One batch of records at both; they are that old."""
        values = [b"%d" % index for index in range(count)]
        data = batch(*values, timestamp=self._start_ms - age_ms)
        kind = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            acks=-1,
            timeout_ms=9000,
            topic_data=[
                kind(name=topic, partition_data=[kind.PartitionProduceData(index=0, records=data)])
            ],
        )
        answers = self._ask_kafka(request, 9), self._ours.call(request, 9)
        assert all(answer.responses[0].partition_responses[0].error_code == 0 for answer in answers)

    def produce_in_transaction(self, topic: str, count: int, producer_id: int) -> None:
        """A transaction's first batch, at both; no coordinator knows of it."""
        data = batch(
            *(b"%d" % index for index in range(count)),
            timestamp=self._start_ms,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        kind = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=f"transaction-{producer_id}",
            acks=-1,
            timeout_ms=9000,
            topic_data=[
                kind(name=topic, partition_data=[kind.PartitionProduceData(index=0, records=data)])
            ],
        )
        [[result]] = [each.partition_responses for each in self._ask_kafka(request, 9).responses]
        assert result.error_code == 0
        leader = self._ours.partition(topic).leading()
        guard = leader.begin_verification(read_header(data), supports_epoch_bump=False)
        leader.append_from_client(data, -1, self._clock.now_ms(), guard)

    def end_transaction(self, topic: str, producer_id: int, *, committed: bool) -> None:
        """Append the marker of a transaction at both."""
        kind = WriteTxnMarkersRequest.WritableTxnMarker
        request = WriteTxnMarkersRequest(
            markers=[
                kind(
                    producer_id=producer_id,
                    producer_epoch=0,
                    transaction_result=committed,
                    coordinator_epoch=0,
                    topics=[kind.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
                )
            ]
        )
        for answer in (self._ask_kafka(request, 1), self._ours.call(request, 1)):
            [partition] = answer.markers[0].topics[0].partitions
            assert partition.error_code == 0

    def delete_records(self, topic: str, offset: int) -> None:
        """Move the log start offset at both, as far as it is within the log."""
        kind = DeleteRecordsRequest.Topic
        request = DeleteRecordsRequest(
            timeout_ms=9000,
            topics=[
                kind(name=topic, partitions=[kind.Partition(partition_index=0, offset=offset)])
            ],
        )
        self._ask_kafka(request, 2)
        self._ours.call(request, 2)

    # Share groups.

    def fetch(self, topic: str, ranges: list[Any], **options: Any) -> Any:
        """Kafka's response to a ShareFetch; raises Difference if ours is not equal."""
        return self._both(share_fetch_request, topic, ranges, {"group_id": topic, **options})

    def acknowledge(self, topic: str, ranges: list[Any], **options: Any) -> Any:
        """Kafka's response to a ShareAcknowledge; raises Difference if ours is not equal."""
        return self._both(share_acknowledge_request, topic, ranges, {"group_id": topic, **options})

    def dead_letters(self, topic: str) -> list[list[Record]]:
        """The records of a dead-letter topic at Kafka, and at ours, without their timestamps."""
        kind = FetchRequest.Topic
        partition = kind.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[kind(topic=topic, partitions=[partition])])
        found = []
        for ask in (self._ask_kafka, self._ours.call):
            [[fetched]] = [each.partitions for each in ask(request, 12).responses]
            data = bytes(fetched.records or b"")
            records = [
                record._replace(offset=-1, timestamp=-1)
                for position, header in batches(data)
                for record in decode_records(data[position:], header)
            ]
            # Kafka's threads may reorder records that are archived at the same time.
            found.append(sorted(records, key=repr))
        return found

    def alter_offset(self, topic: str, offset: int) -> None:
        """Have the group start at an offset at both; it exists from then on."""
        kind = AlterShareGroupOffsetsRequest.Topic
        request = AlterShareGroupOffsetsRequest(
            group_id=topic,
            topics=[
                kind(
                    topic_name=topic,
                    partitions=[kind.Partition(partition_index=0, start_offset=offset)],
                )
            ],
        )
        for answer in (self._ask_kafka(request, 0), self._ours.call(request, 0)):
            assert [each.partitions[0].error_code for each in answer.responses] == [0], answer

    def stored(self, topic: str) -> tuple[Any, Any]:
        """What Kafka and wirekafka stored for the topic's group."""
        kind = ReadShareGroupStateRequest.ReadStateData

        def read(ask: Callable[[Request, int], Any], topic_id: bytes) -> Any:
            partitions = [kind.PartitionData(partition=0, leader_epoch=0)]
            request = ReadShareGroupStateRequest(
                group_id=topic, topics=[kind(topic_id=topic_id, partitions=partitions)]
            )
            [result] = ask(request, 0).results
            return result.partitions[0]

        return (
            read(self._ask_kafka, self._kafkas_ids[topic]),
            read(self._ours.call, self._our_ids[topic]),
        )

    def _both(
        self, make: Callable[..., Request], topic: str, ranges: list[Any], options: dict[str, Any]
    ) -> Any:
        kafkas_id, our_id = self._kafkas_ids[topic], self._our_ids[topic]
        request = make({(kafkas_id, 0): ranges}, **options)
        kafkas = self._ask_kafka(request, _SHARE_VERSION)
        self._keep_time()
        # Only Kafka works in background threads, which have to be awaited.
        if "max_wait_ms" in options:
            options = {**options, "max_wait_ms": 0}
        ours = self._ours.call(make({(our_id, 0): ranges}, **options), _SHARE_VERSION)
        for response in ours.responses:
            response.topic_id = kafkas_id
        for response in (kafkas, ours):
            for each in response.responses:
                for partition in each.partitions:
                    if hasattr(partition, "records"):
                        partition.records = _comparable(bytes(partition.records or b""))
        if kafkas != ours:
            raise Difference(f"Kafka: {brief(kafkas)}\nours:  {brief(ours)}")
        return kafkas

    def _ask_kafka(self, request: Request, version: int) -> Any:
        response = self._wire.ask(request, version)
        assert not isinstance(response, str), response
        return response

    def _await_coordinator(
        self, ask: Callable[[Request, int], Any], group_id: str, topic_id: bytes
    ) -> None:
        key = coordinator_key(ShareKey(group_id, topic_id, 0))
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        eventually(lambda: ask(request, 6).coordinators[0].error_code == 0, timeout_s=30)

    def _await_group(self, ask: Callable[[Request, int], Any], group_id: str) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
        eventually(lambda: ask(request, 6).coordinators[0].error_code == 0, timeout_s=30)

    def _initialize(self, topic: str, start_offset: int) -> None:
        kind = InitializeShareGroupStateRequest.InitializeStateData

        def initialize(ask: Callable[[Request, int], Any], topic_id: bytes) -> bool:
            partitions = [kind.PartitionData(partition=0, state_epoch=1, start_offset=start_offset)]
            request = InitializeShareGroupStateRequest(
                group_id=topic, topics=[kind(topic_id=topic_id, partitions=partitions)]
            )
            [result] = ask(request, 0).results
            code: int = result.partitions[0].error_code
            return code == 0

        eventually(lambda: initialize(self._ask_kafka, self._kafkas_ids[topic]), timeout_s=30)
        assert initialize(self._ours.call, self._our_ids[topic])


def _comparable(data: bytes) -> bytes:
    """Batches without what differs in the markers of transactions: when they were appended."""
    parts = []
    for position, header in batches(data):
        end = position + header.size_bytes
        marker = b"marker %d" % header.base_offset
        parts.append(marker if header.is_control else data[position:end])
    return b"".join(parts)


def brief(response: Any) -> str:
    """A response as text, as far as it differs between requests."""
    partitions = [
        [
            (name, value)
            for name in _FIELDS
            if (value := getattr(partition, name, None)) not in (None, 0, b"", [])
        ]
        for topic in response.responses
        for partition in topic.partitions
    ]
    return f"error {response.error_code}, {partitions}"


_FIELDS = (
    "error_code",
    "error_message",
    "acknowledge_error_code",
    "acknowledge_error_message",
    "records",
    "acquired_records",
)
