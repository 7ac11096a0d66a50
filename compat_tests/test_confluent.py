"""confluent-kafka (librdkafka): produce, consume, groups and administration."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from compat_tests.conftest import NewTopicName
from tests.eventually import eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    yield producer
    producer.flush(10)


@pytest.fixture
def consumer_of(bootstrap: str, unique: str) -> Iterator[Callable[..., Consumer]]:
    """`consumer_of(**settings)`; dots are written as underscores. Closed at the end."""
    made: list[Consumer] = []

    def make(**settings: object) -> Consumer:
        config: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": unique,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
        }
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        made.append(Consumer(config))
        return made[-1]

    yield make
    for consumer in made:
        with contextlib.suppress(RuntimeError):
            consumer.close()


def produce(producer: Producer, topic: str, values: Sequence[bytes], **options: object) -> None:
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    for value in values:
        producer.produce(topic, value, on_delivery=delivered, **options)  # type: ignore[arg-type]
    assert producer.flush(30) == 0
    assert errors == []


def read(consumer: Consumer, count: int, timeout_s: float = 30) -> list[Message]:
    """Exactly `count` records."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
    assert len(messages) == count
    return messages


def sent_alone(producer: Producer, topic: str, value: bytes) -> KafkaError | None:
    """The delivery error of one record."""
    outcome: list[KafkaError | None] = []
    producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(30)
    return outcome[0]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_and_acks_round_trips(
    bootstrap: str, topic: str, consumer_of: Callable[..., Consumer], codec: str, acks: str
) -> None:
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": acks}
    values = [f"value {number} ".encode() * 20 for number in range(300)]
    produce(Producer({**settings, "linger.ms": 20}), topic, values)
    consumer = consumer_of()
    consumer.subscribe([topic])
    messages = read(consumer, 300)
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(300))


def test_null_keys_null_values_headers_and_timestamps_survive(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("none", None), ("ünïcode", "ß".encode())]
    producer.produce(topic, None, b"tombstone", timestamp=1_357_034_400_000)
    producer.produce(topic, b"keyless", None, headers=headers)
    producer.produce(topic, b"", b"", timestamp=1)
    assert producer.flush(30) == 0
    consumer = consumer_of()
    consumer.subscribe([topic])
    tombstone, keyless, empty = read(consumer, 3)
    assert (tombstone.key(), tombstone.value()) == (b"tombstone", None)
    assert tombstone.timestamp() == (TIMESTAMP_CREATE_TIME, 1_357_034_400_000)
    assert (keyless.key(), keyless.value(), keyless.headers()) == (None, b"keyless", headers)
    assert abs(keyless.timestamp()[1] - time.time() * 1000) < 60_000
    assert (empty.key(), empty.value(), empty.timestamp()[1]) == (b"", b"", 1)


def test_log_append_time_is_the_brokers_clock(
    producer: Producer, new_topic: NewTopicName, consumer_of: Callable[..., Consumer]
) -> None:
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    produce(producer, topic, [b"x"], timestamp=1)
    consumer = consumer_of()
    consumer.subscribe([topic])
    kind, timestamp_ms = read(consumer, 1)[0].timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert abs(timestamp_ms - time.time() * 1000) < 60_000


def test_an_idempotent_producer_keeps_order_and_adds_nothing(
    bootstrap: str, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    values = [str(number).encode() for number in range(5000)]
    produce(producer, topic, values)
    consumer = consumer_of()
    consumer.subscribe([topic])
    assert [message.value() for message in read(consumer, 5000)] == values
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 5000)


def test_a_message_at_the_limit_passes_and_one_over_it_is_refused(
    bootstrap: str, new_topic: NewTopicName, consumer_of: Callable[..., Consumer]
) -> None:
    topic = new_topic(config={"max.message.bytes": "2000000"})
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 10_000_000})
    assert sent_alone(producer, topic, b"x" * 1_999_900) is None
    error = sent_alone(producer, topic, b"x" * 2_000_000)
    assert error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    consumer = consumer_of(
        message_max_bytes=50_000, fetch_max_bytes=50_000, max_partition_fetch_bytes=50_000
    )
    consumer.subscribe([topic])
    assert len(read(consumer, 1)[0].value() or b"") == 1_999_900


def test_more_than_a_batch_spreads_over_partitions_by_key(
    producer: Producer, new_topic: NewTopicName, consumer_of: Callable[..., Consumer]
) -> None:
    topic = new_topic(4)
    for number in range(2000):
        producer.produce(topic, str(number).encode(), f"key {number % 50}".encode())
    assert producer.flush(30) == 0
    consumer = consumer_of()
    consumer.subscribe([topic])
    by_key: dict[bytes, list[tuple[int, int]]] = {}
    for message in read(consumer, 2000):
        key, value = message.key(), message.value()
        assert key is not None and value is not None
        by_key.setdefault(key, []).append((message.partition() or 0, int(value)))
    assert len(by_key) == 50
    for seen in by_key.values():
        assert len({partition for partition, _ in seen}) == 1
        assert [number for _, number in seen] == sorted(number for _, number in seen)


def test_a_missing_topic_is_created_by_producing_to_it(
    producer: Producer, admin: AdminClient, unique: str, consumer_of: Callable[..., Consumer]
) -> None:
    produce(producer, unique, [b"first"])
    consumer = consumer_of()
    consumer.subscribe([unique])
    assert read(consumer, 1)[0].value() == b"first"
    admin.delete_topics([unique])[unique].result(30)
    eventually(lambda: unique not in admin.list_topics(timeout=10).topics)


def test_a_consumer_does_not_create_the_topic_it_asks_for(
    consumer_of: Callable[..., Consumer], unique: str, admin: AdminClient
) -> None:
    consumer = consumer_of()
    consumer.subscribe([unique])
    message = eventually(lambda: consumer.poll(0.5))
    error = message.error()
    assert error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert unique not in admin.list_topics(timeout=10).topics


def test_an_invalid_topic_name_is_refused(admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("no spaces!", 1)])["no spaces!"].result(30)
    assert refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION


def test_members_share_the_partitions_and_take_over_from_one_that_leaves(
    producer: Producer, new_topic: NewTopicName, consumer_of: Callable[..., Consumer]
) -> None:
    topic = new_topic(6)
    first, second = consumer_of(), consumer_of()
    first.subscribe([topic])
    second.subscribe([topic])

    def assigned() -> list[int]:
        first.poll(0.1)
        second.poll(0.1)
        return [len(first.assignment()), len(second.assignment())]

    eventually(lambda: assigned() == [3, 3])
    second.close()

    def first_has_all() -> bool:
        first.poll(0.1)
        return len(first.assignment()) == 6

    eventually(first_has_all)
    for partition in range(6):
        produce(producer, topic, [b"x"] * 10, partition=partition)
    assert len(read(first, 60)) == 60


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_every_assignment_strategy_settles(
    new_topic: NewTopicName, consumer_of: Callable[..., Consumer], strategy: str
) -> None:
    topic = new_topic(4)
    members = [consumer_of(partition_assignment_strategy=strategy) for _ in range(3)]
    for member in members:
        member.subscribe([topic])

    def settled() -> bool:
        for member in members:
            member.poll(0.1)
        owned = [
            (partition.topic, partition.partition)
            for member in members
            for partition in member.assignment()
        ]
        return len(owned) == len(set(owned)) == 4 and all(m.assignment() for m in members)

    eventually(settled)


def test_a_static_member_that_comes_back_gets_its_partitions_without_a_rebalance(
    new_topic: NewTopicName, consumer_of: Callable[..., Consumer]
) -> None:
    topic = new_topic(4)
    revoked: list[int] = []
    settings = {"session_timeout_ms": 30_000}
    stays = consumer_of(group_instance_id="stays", **settings)
    leaves = consumer_of(group_instance_id="leaves", **settings)
    stays.subscribe([topic], on_revoke=lambda _, gone: revoked.append(len(gone)))
    leaves.subscribe([topic])

    def settled(other: Consumer) -> bool:
        stays.poll(0.1)
        other.poll(0.1)
        return len(stays.assignment()) == len(other.assignment()) == 2

    eventually(lambda: settled(leaves))
    before = sorted(partition.partition for partition in leaves.assignment())
    rebalances = len(revoked)
    leaves.close()
    again = consumer_of(group_instance_id="leaves", **settings)
    again.subscribe([topic])
    eventually(lambda: settled(again))
    assert sorted(partition.partition for partition in again.assignment()) == before
    assert len(revoked) == rebalances


def test_committed_offsets_are_where_the_next_consumer_starts(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    produce(producer, topic, [str(number).encode() for number in range(10)])
    first = consumer_of()
    first.subscribe([topic])
    messages = read(first, 4)
    first.commit(message=messages[-1], asynchronous=False)
    (committed,) = first.committed([TopicPartition(topic, 0)], timeout=10)
    assert committed.offset == 4
    first.close()
    second = consumer_of()
    second.subscribe([topic])
    assert [message.value() for message in read(second, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]


def test_commit_metadata_round_trips(topic: str, consumer_of: Callable[..., Consumer]) -> None:
    consumer = consumer_of()
    offset = TopicPartition(topic, 0, 7, metadata="where I was ünd why")
    consumer.commit(offsets=[offset], asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
    assert (committed.offset, committed.metadata) == (7, "where I was ünd why")


def test_an_uncommitted_partition_has_no_offset(
    topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    (committed,) = consumer_of().committed([TopicPartition(topic, 0)], timeout=10)
    assert committed.error is None
    assert committed.offset < 0


def test_seek_goes_back_and_forth(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    produce(producer, topic, [str(number).encode() for number in range(100)])
    consumer = consumer_of()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    read(consumer, 50)
    for offset in (90, 3, 57):
        consumer.seek(TopicPartition(topic, 0, offset))
        assert read(consumer, 1)[0].value() == str(offset).encode()


def test_auto_offset_reset_latest_sees_only_what_comes_later(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    produce(producer, topic, [b"old"] * 10)
    consumer = consumer_of()
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    assert consumer.poll(1) is None
    produce(producer, topic, [b"new"])
    assert read(consumer, 1)[0].value() == b"new"


def test_an_offset_out_of_range_resets_or_fails_as_configured(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    produce(producer, topic, [b"0", b"1"])
    resets = consumer_of()
    resets.assign([TopicPartition(topic, 0, 1000)])
    assert read(resets, 1)[0].value() == b"0"
    fails = consumer_of(auto_offset_reset="error")
    fails.assign([TopicPartition(topic, 0, 1000)])
    error = eventually(lambda: fails.poll(0.5)).error()
    assert error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET


def test_offsets_for_times_finds_the_first_record_not_before(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    for number in range(10):
        produce(producer, topic, [b"x"], timestamp=1_000_000 + number * 100)
    consumer = consumer_of()

    def offset_at(timestamp_ms: int) -> int:
        asked = TopicPartition(topic, 0, timestamp_ms)
        return consumer.offsets_for_times([asked], timeout=10)[0].offset

    assert [offset_at(at) for at in (0, 1_000_000, 1_000_101, 1_000_900)] == [0, 0, 2, 9]
    assert offset_at(1_000_901) == OFFSET_END


def test_pause_holds_a_partition_back_and_resume_lets_it_go(
    producer: Producer, new_topic: NewTopicName, consumer_of: Callable[..., Consumer]
) -> None:
    topic = new_topic(2)
    consumer = consumer_of()
    held, free = TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)
    consumer.assign([held, free])
    consumer.pause([held])
    produce(producer, topic, [b"held"], partition=0)
    produce(producer, topic, [b"free"], partition=1)
    assert read(consumer, 1)[0].value() == b"free"
    assert consumer.poll(0.5) is None
    consumer.resume([held])
    assert read(consumer, 1)[0].value() == b"held"


def test_a_waiting_fetch_is_woken_by_the_append(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    consumer = consumer_of(fetch_wait_max_ms=20_000, socket_timeout_ms=30_000)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(2) is None
    started = time.monotonic()
    produce(producer, topic, [b"now"])
    assert read(consumer, 1)[0].value() == b"now"
    assert time.monotonic() - started < 5


def test_end_of_partition_is_reported(
    producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    produce(producer, topic, [b"x"])
    consumer = consumer_of(enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, 0, 0)])
    read(consumer, 1)
    message = eventually(lambda: consumer.poll(0.5))
    error = message.error()
    assert error is not None and error.code() == KafkaError._PARTITION_EOF
    assert message.offset() == 1


def test_metadata_names_the_broker_the_cluster_and_the_partitions(
    admin: AdminClient, new_topic: NewTopicName, bootstrap: str
) -> None:
    topic = new_topic(3)
    metadata = eventually(
        lambda: (found := admin.list_topics(timeout=10)) and topic in found.topics and found
    )
    assert metadata.cluster_id
    (node,) = metadata.brokers.values()
    assert f"{node.host}:{node.port}" == bootstrap
    assert metadata.controller_id == node.id
    partitions = metadata.topics[topic].partitions
    assert sorted(partitions) == [0, 1, 2]
    assert all(partition.leader == node.id for partition in partitions.values())
    assert all(partition.isrs == [node.id] for partition in partitions.values())


def test_describe_cluster_and_describe_topics(
    admin: AdminClient, new_topic: NewTopicName, bootstrap: str
) -> None:
    from confluent_kafka import TopicCollection

    topic = new_topic(2)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(30)
    assert cluster.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.authorized_operations
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    assert (described.name, described.is_internal) == (topic, False)
    assert [partition.id for partition in described.partitions] == [0, 1]


def test_creating_twice_and_deleting_twice_are_refused(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(unique, 1)])[unique].result(30)
    with pytest.raises(KafkaException) as exists:
        admin.create_topics([NewTopic(unique, 1)])[unique].result(30)
    assert exists.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([unique])[unique].result(30)
    with pytest.raises(KafkaException) as missing:
        admin.delete_topics([unique])[unique].result(30)
    assert missing.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"num_partitions": 1, "replication_factor": 3}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"num_partitions": 1, "config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
        ({"num_partitions": 1, "config": {"no.such.key": "1"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_a_bad_new_topic_is_refused_with_its_reason(
    admin: AdminClient, unique: str, new: dict[str, object], code: int
) -> None:
    topic = NewTopic(unique, **new)  # type: ignore[arg-type]
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])[unique].result(30)
    assert refused.value.args[0].code() == code


def test_validate_only_creates_nothing(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(unique, 1)], validate_only=True)[unique].result(30)
    assert unique not in admin.list_topics(timeout=10).topics


def test_partitions_are_added_and_never_taken_away(
    admin: AdminClient, topic: str, producer: Producer
) -> None:
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    eventually(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3)
    produce(producer, topic, [b"x"], partition=2)
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_topic_configs_are_described_altered_and_reset(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def segment() -> tuple[str, bool]:
        entry = admin.describe_configs([resource])[resource].result(30)["segment.ms"]
        return entry.value, entry.is_default

    assert segment() == ("604800000", True)
    for operation, value, expected in (
        (AlterConfigOpType.SET, "12345", ("12345", False)),
        (AlterConfigOpType.DELETE, None, ("604800000", True)),
    ):
        entry = ConfigEntry("segment.ms", value, incremental_operation=operation)
        change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([change])[change].result(30)
        eventually(lambda expected=expected: segment() == expected)
    bad = ConfigEntry("segment.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[bad])
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([change])[change].result(30)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_broker_configs_are_described(admin: AdminClient) -> None:
    (node,) = admin.list_topics(timeout=10).brokers
    resource = ConfigResource(ResourceType.BROKER, str(node))
    configs = admin.describe_configs([resource])[resource].result(30)
    assert configs["node.id"].value == str(node)
    assert configs["num.partitions"].value == "1"
    assert configs["log.retention.hours"].is_read_only


def test_groups_are_listed_described_and_deleted(
    admin: AdminClient,
    producer: Producer,
    topic: str,
    unique: str,
    consumer_of: Callable[..., Consumer],
) -> None:
    produce(producer, topic, [b"x"] * 5)
    consumer = consumer_of(client_id="the-client")
    consumer.subscribe([topic])
    consumer.commit(message=read(consumer, 5)[-1], asynchronous=False)
    listed = admin.list_consumer_groups().result(30)
    (group,) = [group for group in listed.valid if group.group_id == unique]
    assert (group.state.name, group.is_simple_consumer_group) == ("STABLE", False)
    described = admin.describe_consumer_groups([unique])[unique].result(30)
    assert (described.state.name, described.partition_assignor) == ("STABLE", "range")
    (member,) = described.members
    assert (member.client_id, member.host) == ("the-client", "/127.0.0.1")
    assigned = member.assignment.topic_partitions
    assert [(partition.topic, partition.partition) for partition in assigned] == [(topic, 0)]
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([unique])[unique].result(30)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    empty = admin.describe_consumer_groups([unique])[unique].result(30)
    assert (empty.state.name, empty.members) == ("EMPTY", [])
    admin.delete_consumer_groups([unique])[unique].result(30)
    listed = admin.list_consumer_groups().result(30)
    assert unique not in [group.group_id for group in listed.valid]


def test_group_offsets_are_listed_and_altered(
    admin: AdminClient, topic: str, unique: str, consumer_of: Callable[..., Consumer]
) -> None:
    consumer_of().commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    change = ConsumerGroupTopicPartitions(unique, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([change])[unique].result(30)
    asked = ConsumerGroupTopicPartitions(unique)
    listed = admin.list_consumer_group_offsets([asked])[unique].result(30)
    found = [(each.topic, each.partition, each.offset) for each in listed.topic_partitions]
    assert found == [(topic, 0, 1)]


def test_list_offsets_by_every_spec(admin: AdminClient, producer: Producer, topic: str) -> None:
    for timestamp_ms in (1000, 3000, 2000):
        produce(producer, topic, [b"x"], timestamp=timestamp_ms)
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        found = admin.list_offsets({partition: spec})[partition].result(30)
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest())[0] == 0
    assert offset(OffsetSpec.latest())[0] == 3
    assert offset(OffsetSpec.max_timestamp()) == (1, 3000)
    assert offset(OffsetSpec.for_timestamp(1500)) == (1, 3000)


def test_deleted_records_are_gone(
    admin: AdminClient, producer: Producer, topic: str, consumer_of: Callable[..., Consumer]
) -> None:
    produce(producer, topic, [str(number).encode() for number in range(10)])
    asked = TopicPartition(topic, 0, 6)
    assert admin.delete_records([asked])[asked].result(30).low_watermark == 6
    consumer = consumer_of()
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (6, 10)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert read(consumer, 1)[0].value() == b"6"
    beyond = TopicPartition(topic, 0, 11)
    with pytest.raises(KafkaException) as refused:
        admin.delete_records([beyond])[beyond].result(30)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_a_keyless_record_on_a_compacted_topic_is_refused(
    producer: Producer, new_topic: NewTopicName
) -> None:
    topic = new_topic(config={"cleanup.policy": "compact"})
    error = sent_alone(producer, topic, b"no key")
    assert error is not None and error.code() == KafkaError.INVALID_RECORD


def test_a_recreated_topic_is_empty_and_usable(
    admin: AdminClient, producer: Producer, unique: str, consumer_of: Callable[..., Consumer]
) -> None:
    for value in (b"old", b"new"):
        admin.create_topics([NewTopic(unique, 1)])[unique].result(30)
        produce(producer, unique, [value])
        consumer = consumer_of()
        consumer.assign([TopicPartition(unique, 0, OFFSET_BEGINNING)])
        assert read(consumer, 1)[0].value() == value
        consumer.close()
        admin.delete_topics([unique])[unique].result(30)
        eventually(lambda: unique not in admin.list_topics(timeout=10).topics)
