"""kafka-python: produce, consume, groups and the newest administration calls."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as Errors
from kafka.admin import ConfigResource
from kafka.structs import OffsetAndMetadata

from compat_tests.conftest import NewTopicName
from tests.eventually import eventually


@pytest.fixture
def producer_of(bootstrap: str) -> Iterator[Callable[..., Any]]:
    made = []

    def make(**settings: Any) -> Any:
        made.append(KafkaProducer(bootstrap_servers=bootstrap, **settings))
        return made[-1]

    yield make
    for producer in made:
        producer.close(timeout=10)


@pytest.fixture
def consumer_of(bootstrap: str, unique: str) -> Iterator[Callable[..., Any]]:
    made = []

    def make(*topics: str, **settings: Any) -> Any:
        config: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": unique,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 300,
            "metadata_max_age_ms": 5000,
        }
        made.append(KafkaConsumer(*topics, **(config | settings)))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(timeout_ms=5000)


@pytest.fixture
def kafka_admin(bootstrap: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def read(consumer: Any, count: int, timeout_s: float = 30) -> list[Any]:
    """Exactly `count` records, in the order they came."""
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=500).values():
            records += batch
    assert len(records) == count
    return records


def send_all(producer: Any, topic: str, values: list[bytes], **options: Any) -> None:
    futures = [producer.send(topic, value, **options) for value in values]
    producer.flush(30)
    for offset, future in enumerate(futures):
        metadata = future.get(30)
        assert producer.config["acks"] == 0 or metadata.offset == offset


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_acks_round_trips(
    producer_of: Callable[..., Any],
    consumer_of: Callable[..., Any],
    topic: str,
    codec: str | None,
    acks: Any,
) -> None:
    producer = producer_of(
        compression_type=codec, acks=acks, linger_ms=20, enable_idempotence=False
    )
    values = [f"value {number} ".encode() * 20 for number in range(300)]
    send_all(producer, topic, values)
    records = read(consumer_of(topic), 300)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(300))


def test_an_idempotent_producer_keeps_order(
    producer_of: Callable[..., Any], consumer_of: Callable[..., Any], topic: str
) -> None:
    values = [str(number).encode() for number in range(2000)]
    send_all(producer_of(enable_idempotence=True, batch_size=400), topic, values)
    assert [record.value for record in read(consumer_of(topic), 2000)] == values


def test_nulls_headers_and_timestamps_survive(
    producer_of: Callable[..., Any], consumer_of: Callable[..., Any], topic: str
) -> None:
    producer = producer_of()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    producer.send(topic, None, b"tombstone", timestamp_ms=1_357_034_400_000).get(30)
    producer.send(topic, b"keyless", headers=headers).get(30)
    tombstone, keyless = read(consumer_of(topic), 2)
    assert (tombstone.key, tombstone.value) == (b"tombstone", None)
    assert (tombstone.timestamp, tombstone.timestamp_type) == (1_357_034_400_000, 0)
    assert (keyless.key, keyless.value, list(keyless.headers)) == (None, b"keyless", headers)


def test_a_message_over_the_limit_is_refused(producer_of: Callable[..., Any], topic: str) -> None:
    producer = producer_of(max_request_size=10_000_000)
    producer.send(topic, b"x" * 1_000_000).get(30)
    with pytest.raises(Errors.MessageSizeTooLargeError):
        producer.send(topic, b"x" * 1_100_000).get(30)


@contextmanager
def polled(consumer: Any) -> Iterator[None]:
    """Poll the consumer without a pause in a thread of its own, as members of groups do.

    kafka-python 3.0 throws away a join that was answered between two polls and joins again: two
    members that one thread polls in turn may keep each other from ever settling.
    """
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            consumer.poll(timeout_ms=500)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def test_members_share_the_partitions(
    consumer_of: Callable[..., Any], new_topic: NewTopicName
) -> None:
    topic = new_topic(6)
    first, second = consumer_of(topic), consumer_of(topic)
    for consumer in (first, second):
        # kafka-python 3.0 that joins before it knows the partitions may ignore its assignment.
        eventually(lambda consumer=consumer: consumer.partitions_for_topic(topic))
    with polled(first):
        with polled(second):
            eventually(lambda: [len(each.assignment()) for each in (first, second)] == [3, 3])
        second.close()
        eventually(lambda: len(first.assignment()) == 6)


def test_commits_seeks_and_positions(
    producer_of: Callable[..., Any], consumer_of: Callable[..., Any], topic: str
) -> None:
    send_all(producer_of(), topic, [str(number).encode() for number in range(10)])
    partition = TopicPartition(topic, 0)
    consumer = consumer_of()
    consumer.assign([partition])
    assert consumer.committed(partition) is None
    read(consumer, 10)
    consumer.commit({partition: OffsetAndMetadata(4, "half way", -1)})
    committed = consumer.committed(partition, metadata=True)
    assert (committed.offset, committed.metadata) == (4, "half way")
    consumer.seek(partition, 8)
    assert [record.value for record in read(consumer, 2)] == [b"8", b"9"]
    assert consumer.position(partition) == 10
    consumer.seek_to_beginning(partition)
    assert consumer.position(partition) == 0


def test_offsets_by_time_and_the_ends(
    producer_of: Callable[..., Any], consumer_of: Callable[..., Any], topic: str
) -> None:
    producer = producer_of()
    for number in range(10):
        producer.send(topic, b"x", timestamp_ms=1_000_000 + 100 * number).get(30)
    partition = TopicPartition(topic, 0)
    consumer = consumer_of()
    found = consumer.offsets_for_times({partition: 1_000_101})[partition]
    assert (found.offset, found.timestamp) == (2, 1_000_200)
    assert consumer.offsets_for_times({partition: 1_000_901})[partition] is None
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}


def test_pause_and_resume(
    producer_of: Callable[..., Any], consumer_of: Callable[..., Any], new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    held, free = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = consumer_of()
    consumer.assign([held, free])
    consumer.pause(held)
    producer = producer_of()
    producer.send(topic, b"held", partition=0).get(30)
    producer.send(topic, b"free", partition=1).get(30)
    assert read(consumer, 1)[0].value == b"free"
    assert consumer.poll(timeout_ms=500) == {}
    consumer.resume(held)
    assert read(consumer, 1)[0].value == b"held"


def test_a_pattern_subscription_finds_topics_made_later(
    producer_of: Callable[..., Any],
    consumer_of: Callable[..., Any],
    new_topic: NewTopicName,
    unique: str,
) -> None:
    first = new_topic()
    consumer = consumer_of(metadata_max_age_ms=500)
    consumer.subscribe(pattern=f"^{unique}-.*")
    producer = producer_of()
    producer.send(first, b"1").get(30)
    assert read(consumer, 1)[0].topic == first
    second = new_topic()
    producer.send(second, b"2").get(30)
    assert read(consumer, 1)[0].topic == second


def test_topics_are_created_described_grown_and_deleted(kafka_admin: Any, unique: str) -> None:
    spec = {"num_partitions": 2, "configs": {"retention.ms": "1000"}}
    created = kafka_admin.create_topics({unique: spec}, wait_for_metadata=True)
    assert created["topics"][0]["num_partitions"] == 2
    with pytest.raises(Errors.TopicAlreadyExistsError):
        kafka_admin.create_topics({unique: spec})
    (described,) = kafka_admin.describe_topics([unique])
    assert (described["name"], described["is_internal"]) == (unique, False)
    by_id = kafka_admin.describe_topics([uuid.UUID(str(described["topic_id"]))])
    assert by_id[0]["name"] == unique
    kafka_admin.create_partitions({unique: 4})
    page: Any = eventually(
        lambda: len((p := first_page(kafka_admin, unique))["topics"][0]["partitions"]) == 3 and p
    )
    assert page["next_cursor"]["partition_index"] == 3
    kafka_admin.delete_topics([unique])
    eventually(lambda: unique not in kafka_admin.list_topics())


def first_page(kafka_admin: Any, topic: str) -> Any:
    return kafka_admin.describe_topic_partitions([topic], response_partition_limit=3)


def test_configs_are_described_with_synonyms_and_altered(kafka_admin: Any, topic: str) -> None:
    resource = ConfigResource("TOPIC", topic)
    described = kafka_admin.describe_configs([resource], True, "all")["topic"][topic]
    assert described["segment.bytes"]["value"] in ("1073741824", 1073741824)
    synonyms = described["segment.bytes"]["synonyms"]
    assert [synonym["name"] for synonym in synonyms] == ["log.segment.bytes"]
    change = ConfigResource("TOPIC", topic, {"cleanup.policy": ("APPEND", "compact")})
    assert kafka_admin.alter_configs([change]) == {"topic": {topic: "OK"}}

    def policy() -> str:
        found = kafka_admin.describe_configs([ConfigResource("TOPIC", topic)])
        value = found["topic"].get(topic, {}).get("cleanup.policy", {}).get("value", "")
        return value if isinstance(value, str) else ",".join(value)

    eventually(lambda: policy() == "delete,compact")


def test_groups_are_listed_described_reset_and_deleted(
    kafka_admin: Any,
    producer_of: Callable[..., Any],
    consumer_of: Callable[..., Any],
    topic: str,
    unique: str,
) -> None:
    send_all(producer_of(), topic, [b"x"] * 5)
    consumer = consumer_of(topic, client_id="the-client")
    read(consumer, 5)
    consumer.commit()
    partition = TopicPartition(topic, 0)
    (group,) = [g for g in kafka_admin.list_groups() if g["group_id"] == unique]
    assert (group["protocol_type"], group["group_state"]) == ("consumer", "Stable")
    described = kafka_admin.describe_groups([unique])[unique]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    assert [member["client_id"] for member in described["members"]] == ["the-client"]
    offsets = kafka_admin.list_group_offsets({unique: None})[unique]
    assert offsets[partition].offset == 5
    consumer.close()
    changed = kafka_admin.alter_group_offsets(unique, {partition: OffsetAndMetadata(2, "", -1)})
    assert changed[partition] is Errors.NoError
    assert kafka_admin.list_group_offsets({unique: [partition]})[unique][partition].offset == 2
    assert kafka_admin.delete_group_offsets(unique, [partition])[partition] is Errors.NoError
    # A group without members and offsets may have been removed already.
    kafka_admin.delete_groups([unique])
    assert unique not in [group["group_id"] for group in kafka_admin.list_groups()]


def test_records_are_deleted_and_offsets_listed(
    kafka_admin: Any, producer_of: Callable[..., Any], topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    producer = producer_of()
    for timestamp_ms in (1000, 3000, 2000):
        producer.send(topic, b"x", timestamp_ms=timestamp_ms).get(30)
    offsets = [
        kafka_admin.list_partition_offsets({partition: timestamp})[partition].offset
        for timestamp in (-1, -2, -3, 1500, 4000)
    ]
    assert offsets == [3, 0, 1, 1, -1]
    kafka_admin.delete_records({partition: 2})
    assert kafka_admin.list_partition_offsets({partition: -2})[partition].offset == 2


def test_cluster_log_dirs_features_and_quorum_are_described(
    kafka_admin: Any, topic: str, bootstrap: str
) -> None:
    cluster = kafka_admin.describe_cluster()
    assert cluster["cluster_id"]
    assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [bootstrap]
    (logs,) = kafka_admin.describe_log_dirs()
    topics = [found["name"] for directory in logs["log_dirs"] for found in directory["topics"]]
    assert topic in topics
    features = kafka_admin.describe_features()
    assert features["metadata.version"]["finalized"][1] >= 7
    quorum = kafka_admin.describe_metadata_quorum()
    assert "__cluster_metadata" in str(quorum)
