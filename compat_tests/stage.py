"""Sets up the same topics, records and names on two brokers, to compare their responses."""

from dataclasses import dataclass, field
from typing import Any

from compat_tests.wire import CLOSED, Wire, comparable
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest

NO_ID = bytes(16)
UNKNOWN_ID = bytes(range(1, 17))
TIME_MS = 1_700_000_000_000


def batch(count: int = 3, *, key: bytes | None = b"key", **options: Any) -> bytes:
    """A batch of records one second apart, the same bytes every time."""
    records = [
        Record(number, TIME_MS + 1000 * number, key, b"value %d" % number, [])
        for number in range(count)
    ]
    return encode_batch(records, options=BatchOptions(**options))


@dataclass
class Stage:
    """One broker prepared: `topic` has two partitions and three records in the first."""

    wire: Wire
    suffix: str
    cluster_id: str = ""
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)
    address: tuple[str, int] = ("", 0)

    @property
    def topic(self) -> str:
        return f"diff-{self.suffix}"

    @property
    def compacted(self) -> str:
        return f"diff_{self.suffix}_compacted"

    @property
    def missing(self) -> str:
        return f"diff-{self.suffix}-missing"

    def ask(self, request: Request, version: int, **options: Any) -> Any:
        """Send a request and return the response in comparable form."""
        answer = self.wire.ask(request, version, **options)
        return comparable(answer, self.names())

    def names(self) -> dict[Any, str]:
        """The placeholders for values that differ by broker, such as ids."""
        ids = {
            topic_id: f"id of {name.replace(self.suffix, 'SUFFIX')}"
            for name, topic_id in self.ids.items()
        }
        return {
            **ids,
            self.suffix: "SUFFIX",
            self.cluster_id: "the cluster",
            self.address[1]: "the port",
            f":{self.address[1]}": ":the port",
        }

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic and record its id."""
        new = CreateTopicsRequest.CreatableTopic
        # The records are from 2023, and must outlive the tests.
        config = [
            new.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in {"retention_ms": "-1", **configs}.items()
        ]
        topic = new(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=config,
        )
        answer = self.wire.ask(CreateTopicsRequest(topics=[topic], validate_only=False), 7)
        assert answer.topics[0].error_code == 0, answer
        self.ids[name] = answer.topics[0].topic_id
        eventually(lambda: self._has_leaders(name, partitions))

    def _has_leaders(self, name: str, partitions: int) -> bool:
        asked = MetadataRequest(
            topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=False
        )
        answer = self.wire.ask(asked, 12)
        self.cluster_id = answer.cluster_id
        (found,) = answer.topics
        # A broker may report itself as the leader shortly before it serves as one.
        return len(found.partitions) == partitions and all(
            self._is_led(name, partition.partition_index) for partition in found.partitions
        )

    def _is_led(self, name: str, partition: int) -> bool:
        topic = ListOffsetsRequest.Topic
        asked = topic.Partition(partition_index=partition, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[topic(name=name, partitions=[asked])])
        answer = self.wire.ask(request, 6)
        return bool(answer.topics[0].partitions[0].error_code == 0)

    def has_coordinators(self) -> bool:
        """Whether each partition of the offsets topic has a leader; a lookup creates it."""
        groups = [f"{self.suffix}-{number}" for number in range(400)]
        found = self.wire.ask(FindCoordinatorRequest(coordinator_keys=groups), 4)
        if any(each.error_code for each in found.coordinators):
            return False
        described = self.wire.ask(DescribeGroupsRequest(groups=groups), 5)
        if any(group.error_code for group in described.groups):
            return False
        producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        return bool(self.wire.ask(producer, 4).error_code == 0)

    def produce(self, name: str, records: bytes, *, version: int = 9, **options: Any) -> Any:
        return self.wire.ask(produce_request(self, name, records, **options), version)


def produce_request(
    stage: Stage, name: str, records: Any, *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    topics = ProduceRequest.TopicProduceData
    data = topics.PartitionProduceData(index=partition, records=records)
    topic = topics(name=name, topic_id=stage.ids.get(name, UNKNOWN_ID), partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic])


def staged(address: tuple[str, int], suffix: str) -> Stage:
    """A prepared broker."""
    stage = Stage(Wire(address), suffix, address=address)
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = stage.wire.ask(request, 4)
    assert answer != CLOSED
    stage.versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    eventually(stage.has_coordinators, timeout_s=60)
    stage.create(stage.topic, 2)
    stage.create(stage.compacted, 1, cleanup_policy="compact")
    answer = stage.produce(stage.topic, batch())
    assert answer.responses[0].partition_responses[0].error_code == 0, answer
    return stage
