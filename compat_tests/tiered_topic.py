"""A tiered topic with one partition on a broker: fills it, reads it, and describes its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.tiered import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    PENDING,
    offset,
)
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.batch import batches
from wirekafka.codec.record import Record, encode_batch
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC, MetadataRecord, decode

SPECS = (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING)
SEGMENT_BYTES = 1 << 20
RECORDS_PER_BATCH = 10
_VALUE_BYTES = 5_000
_METADATA_PARTITIONS = 3


class TieredTopic:
    """The topic on one of several brokers that are compared."""

    def __init__(self, bootstrap: str, tier: Path, name: str, configs: Mapping[str, str]):
        self.bootstrap = bootstrap
        self.name = name
        self.tier = tier
        self._tier = tier / "kafka-tiered-storage"
        self._wire = Wire.to(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._configs = {
            "remote.storage.enable": "true",
            "segment.bytes": str(SEGMENT_BYTES),
            "local.retention.bytes": "1",
            "retention.ms": "-1",
            "local.retention.ms": "-1",
            "file.delete.delay.ms": "0",
            **configs,
        }

    def create(self) -> None:
        topic = NewTopic(self.name, 1, 1, config=self._configs)
        self._admin.create_topics([topic])[self.name].result()

    def refusal(self, name: str, configs: Mapping[str, str]) -> str:
        """Why a topic with certain options cannot be created; empty if it was."""
        topic = NewTopic(name, 1, 1, config=dict(configs))
        try:
            self._admin.create_topics([topic])[name].result()
        except KafkaException as error:
            text: str = error.args[0].str()
            return text
        return ""

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result()

    def configure(self, **configs: str) -> str:
        """Set options; returns the error's text, empty if there is none."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=entries)
        try:
            self._admin.incremental_alter_configs([resource])[resource].result()
        except KafkaException as error:
            text: str = error.args[0].str()
            return text
        return ""

    def produce(self, count: int, first_ms: int) -> None:
        """Append batches, of which 20 fill a segment."""
        for number in range(count):
            records = [
                Record(timestamp=first_ms + number * 10 + each, value=b"%d" % each * _VALUE_BYTES)
                for each in range(RECORDS_PER_BATCH)
            ]
            topic = ProduceRequest.TopicProduceData(name=self.name)
            topic.partition_data = [
                topic.PartitionProduceData(index=0, records=encode_batch(records))
            ]
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])

            def is_appended(request: ProduceRequest = request) -> bool:
                answer = self._wire.ask(request, 12)
                code: int = answer.responses[0].partition_responses[0].error_code
                return code == 0

            eventually(is_appended)  # Just after its creation, the topic may not be known yet.

    def transact(self, *transactions: tuple[int, bool]) -> None:
        """Transactions with a number of large records, each committed or aborted."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "message.max.bytes": 2_000_000,
            }
        )
        producer.init_transactions()
        for count, is_committed in transactions:
            producer.begin_transaction()
            for _ in range(count):
                producer.produce(self.name, value=bytes(300_000), timestamp=1_700_000_000_000)
                producer.flush()
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    def delete_records(self, before_offset: int) -> None:
        where = TopicPartition(self.name, 0, before_offset)
        next(iter(self._admin.delete_records([where]).values())).result()

    def offsets(self, timestamps: Sequence[int] = ()) -> dict[str, Any]:
        """The answers to every kind of ListOffsets."""
        return {
            f"{timestamp} at isolation {isolation}": offset(
                self.bootstrap, self.name, timestamp, isolation=isolation
            )
            for timestamp in (*SPECS, *timestamps)
            for isolation in (0, 1)
        }

    def fetches(self, offsets: Sequence[int], max_bytes: int = 200_000) -> dict[str, Any]:
        """What a Fetch of each offset returns, at both isolation levels."""
        return {
            f"{start} at isolation {isolation}": self._fetch(start, isolation, max_bytes)
            for start in offsets
            for isolation in (0, 1)
        }

    def preferred_replica(self, rack: str) -> int:
        """From which replica a client in a rack is to read; -1 for the leader (KIP-392)."""
        found = self._partition_fetched(0, 0, 200_000, rack)
        preferred: int = found.preferred_read_replica
        return preferred

    def metadata(self) -> list[MetadataRecord]:
        """The records about the topic in `__remote_log_metadata`, partition by partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "metadata"})
        found = []
        for index in range(_METADATA_PARTITIONS):
            where = TopicPartition(REMOTE_LOG_METADATA_TOPIC, index, 0)
            _, end_offset = consumer.get_watermark_offsets(where)
            consumer.assign([where])
            read = 0
            while read < end_offset:
                for message in consumer.consume(100, 1):
                    assert not message.error(), message.error()
                    read = message.offset() + 1
                    record = decode(message.value())
                    if record.partition.topic == self.name:
                        found.append(record)
        consumer.close()
        return found

    def read_all(self, **options: str) -> int:
        """Read the whole topic by librdkafka; how many records it has, whose offsets must rise."""
        end_offset = offset(self.bootstrap, self.name, LATEST)[2]
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        consumer.assign([TopicPartition(self.name, 0, 0)])
        offsets: list[int] = []

        def has_ended() -> bool:
            for message in consumer.consume(1_000, 0.2):
                assert not message.error(), message.error()
                offsets.append(message.offset())
            assert offsets and offsets[-1] == end_offset - 1, (offsets[-1:], end_offset)
            return True

        eventually(has_ended)
        consumer.close()
        assert offsets == sorted(set(offsets))
        return len(offsets)

    def objects(self) -> list[str]:
        """The files in the tier, without their ids, and their sizes."""
        return sorted(
            f"{path.name.split('-')[0]}{path.suffix} {path.stat().st_size}"
            for folder in self._tier.glob(f"{self.name}-0-*")
            for path in folder.iterdir()
        )

    def settled(self, *, tiered_up_to: int | None = None) -> TieredTopic:
        """Wait until all closed segments are copied and their local files deleted."""

        def is_settled() -> bool:
            local = offset(self.bootstrap, self.name, EARLIEST_LOCAL)[2]
            tiered = offset(self.bootstrap, self.name, LATEST_TIERED)[2]
            is_enough = tiered_up_to is None or tiered >= tiered_up_to
            assert local == tiered + 1 and is_enough, (local, tiered)
            return True

        eventually(is_settled, timeout_s=30)
        return self

    def _partition_fetched(self, start: int, isolation: int, max_bytes: int, rack: str = "") -> Any:
        kind = FetchRequest.Topic
        part = kind.Partition(
            partition=0, fetch_offset=start, partition_max_bytes=max_bytes, current_leader_epoch=-1
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=50_000_000,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[kind(topic=self.name, partitions=[part])],
            rack_id=rack,
        )
        return self._wire.ask(request, 12).responses[0].partitions[0]

    def _fetch(self, start: int, isolation: int, max_bytes: int) -> Any:
        found = self._partition_fetched(start, isolation, max_bytes)
        records = bytes(found.records or b"")
        whole = [
            (header.base_offset, header.end_offset, header.size_bytes)
            for _, header in batches(records)
        ]
        first = next(iter(whole), (0, 0, 0))
        return {
            "error": found.error_code,
            "high watermark": found.high_watermark,
            "last stable offset": found.last_stable_offset,
            "log start offset": found.log_start_offset,
            "aborted": sorted(each.first_offset for each in found.aborted_transactions or ()),
            "size": len(records),
            "first": first,
            "batches": len(whole),
        }
