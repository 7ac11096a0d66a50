"""A mirror of Apache Kafka: equal batches at equal offsets, what it refuses, and how it heals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.mirror_stage import (
    REFRESH,
    MortalKafka,
    await_equal,
    batches_of,
    offsets_of,
    status_of,
    wirekafka,
)
from compat_tests.mortal_broker import MortalBroker
from compat_tests.reading import read_to_end
from tests.eventually import eventually
from wirekafka.client.client import Client
from wirekafka.client.configurations import TOPIC, alter_configs
from wirekafka.codec.batch import batches

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = """auto.create.topics.enable=false
log.cleaner.backoff.ms=100
log.retention.check.interval.ms=300
log.initial.task.delay.ms=100
group.coordinator.rebalance.protocols=classic,consumer
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalKafka]:
    kafka = MortalKafka(tmp_path_factory.mktemp("source") / "kafka", SETTINGS)
    kafka.start()
    yield kafka
    kafka.stop()


def mirror_of(source: MortalKafka, path: Path, topics: str, *more: str) -> MortalBroker:
    settings = (
        *REFRESH,
        f"wirekafka.mirror.bootstrap.servers={source.bootstrap}",
        f"wirekafka.mirror.topics={topics}",
        *more,
    )
    return MortalBroker(path / "mirror", *settings)


@cache
def admin_of(bootstrap: str) -> AdminClient:
    """It has to live until its requests are answered."""
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    topic = NewTopic(
        name, partitions, 1, config={key.replace("_", "."): text for key, text in config.items()}
    )
    admin_of(bootstrap).create_topics([topic])[name].result(30)


def produce(bootstrap: str, topic: str, count: int, **options: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **options})
    for number in range(count):
        producer.produce(topic, f"value {number}" * 5, f"key {number % 7}")
        if number % 50 == 49:
            producer.flush(30)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str, isolation: str) -> list[tuple[int, bytes]]:
    place = TopicPartition(topic, 0, 0)
    return [(each.offset(), each.value()) for each in read_to_end(bootstrap, [place], isolation)]


def test_batches_of_all_kinds_are_equal_while_both_are_killed(
    source: MortalKafka, tmp_path: Path
) -> None:
    topics = ["kinds", "wide", "compacted"]
    create(source.bootstrap, "kinds")
    create(source.bootstrap, "wide", 5)
    create(
        source.bootstrap,
        "compacted",
        cleanup_policy="compact",
        segment_bytes="1048576",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.001",
    )
    for _ in range(3):
        produce(source.bootstrap, "compacted", 100)
        time.sleep(0.3)  # Each segment is older than segment.ms.
    eventually(lambda: _has_gap(source.bootstrap, "compacted"), timeout_s=60)
    for codec in CODECS:
        produce(source.bootstrap, "kinds", 100, **{"compression.type": codec})
    mirror = mirror_of(source, tmp_path, "kinds|wide|compacted")
    mirror.start()
    try:
        producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "mirrored"})
        producer.init_transactions(30)
        for round in range(8):
            producer.begin_transaction()
            for number in range(40):
                producer.produce("kinds", f"transaction {round} {number}")
                producer.produce("wide", f"{round} {number}", f"{number}")
            producer.flush(30)
            if round == 3:
                mirror.kill()
                mirror.start()
            (producer.abort_transaction if round % 3 == 1 else producer.commit_transaction)(30)
        await_equal(source.bootstrap, mirror.bootstrap, *topics)
        source.kill()
        produce_refused(mirror.bootstrap, "kinds")
        source.start()
        produce(source.bootstrap, "wide", 200)
        await_equal(source.bootstrap, mirror.bootstrap, *topics)
        for isolation in ("read_committed", "read_uncommitted"):
            expected = read(source.bootstrap, "kinds", isolation)
            assert read(mirror.bootstrap, "kinds", isolation) == expected
        assert _has_gap(mirror.bootstrap, "compacted")
    finally:
        mirror.stop()


def _has_gap(bootstrap: str, topic: str) -> bool:
    """Whether compaction has removed records: offsets between batches, or within them."""
    found = batches_of(bootstrap, topic)
    records = sum(header.count for each in found for _, header in batches(each))
    start, end = offsets_of(bootstrap, topic)
    return records < end - start


def produce_refused(bootstrap: str, topic: str) -> None:
    """Check that a producer is refused, with the reason, and does not try again."""
    failures = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: failures.append(error))
    producer.flush(20)
    [failure] = failures
    assert failure.name() == "POLICY_VIOLATION", failure


def test_a_reader_of_the_mirror_sees_whole_transactions_while_it_follows(
    source: MortalKafka, tmp_path: Path
) -> None:
    create(source.bootstrap, "open")
    mirror = mirror_of(source, tmp_path, "open")
    mirror.start()
    try:
        producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "open"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("open", b"first")
        producer.flush(30)
        await_equal(source.bootstrap, mirror.bootstrap, "open")
        assert read(mirror.bootstrap, "open", "read_uncommitted") == [(0, b"first")]
        assert read(mirror.bootstrap, "open", "read_committed") == []
        producer.commit_transaction(30)
        await_equal(source.bootstrap, mirror.bootstrap, "open")
        assert read(mirror.bootstrap, "open", "read_committed") == [(0, b"first")]
    finally:
        mirror.stop()


def test_a_mirror_is_read_only_until_it_is_promoted(source: MortalKafka, tmp_path: Path) -> None:
    create(source.bootstrap, "moved", 2)
    create(source.bootstrap, "stays")
    produce(source.bootstrap, "moved", 100)
    produce(source.bootstrap, "stays", 100)
    mirror = mirror_of(source, tmp_path, "moved|stays|later")
    mirror.start()
    try:
        await_equal(source.bootstrap, mirror.bootstrap, "moved", "stays")
        produce_refused(mirror.bootstrap, "moved")
        admin = admin_of(mirror.bootstrap)
        with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
            admin.delete_records([TopicPartition("moved", 0, 1)])[
                TopicPartition("moved", 0)
            ].result(20)
        with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
            admin.create_partitions([NewPartitions("moved", 3)])["moved"].result(20)
        writer = Producer({"bootstrap.servers": mirror.bootstrap, "transactional.id": "w"})
        writer.init_transactions(30)
        writer.begin_transaction()
        writer.produce("moved", b"x")
        with pytest.raises(KafkaException, match=r"POLICY_VIOLATION|configured policy"):
            writer.commit_transaction(20)

        printed = wirekafka("mirror", "promote", "moved", "-b", mirror.bootstrap)
        assert (printed.returncode, printed.stdout) == (0, "moved is promoted\n"), printed.stderr
        end = offsets_of(mirror.bootstrap, "moved")[1]
        mirror.kill()
        mirror.start()
        produce(mirror.bootstrap, "moved", 10)
        produce(source.bootstrap, "moved", 50)
        produce(source.bootstrap, "stays", 50)
        await_equal(source.bootstrap, mirror.bootstrap, "stays")
        assert offsets_of(mirror.bootstrap, "moved")[1] <= end + 10
        produce_refused(mirror.bootstrap, "stays")

        printed = wirekafka("mirror", "promote", "-b", mirror.bootstrap)
        assert printed.stdout == "stays is promoted\n", printed
        create(source.bootstrap, "later")
        eventually(lambda: status_of(mirror.bootstrap)["state"] == "promoted")
        mirror.stop()
        mirror.start()
        eventually(lambda: status_of(mirror.bootstrap)["state"] == "promoted")
        produce(mirror.bootstrap, "stays", 10)
        with Client(mirror.bootstrap) as client:
            assert {topic.name for topic in client.metadata().topics} >= {"moved", "stays"}
            assert "later" not in {topic.name for topic in client.metadata().topics}
    finally:
        mirror.stop()


def test_a_group_moves_over_by_its_bootstrap_address_only(
    source: MortalKafka, tmp_path: Path
) -> None:
    create(source.bootstrap, "orders", segment_ms="3600000", retention_ms="-1")
    settings = ("wirekafka.mirror.groups=mov.*", "wirekafka.mirror.configs=true")
    produce(source.bootstrap, "orders", 100)
    seen = consume(source.bootstrap, "orders", 60)
    mirror = mirror_of(source, tmp_path, "orders", *settings)
    mirror.start()
    try:
        await_equal(source.bootstrap, mirror.bootstrap, "orders")
        # A new leader epoch: the group's offset has the epoch of a batch.
        source.kill()
        source.start()
        produce(source.bootstrap, "orders", 100)
        seen += consume(source.bootstrap, "orders", 60)
        await_equal(source.bootstrap, mirror.bootstrap, "orders")
        eventually(lambda: committed(mirror.bootstrap, "orders") == 120)
        seen += consume(mirror.bootstrap, "orders", 80)
        assert [offset for offset, _ in seen] == list(range(200))
        eventually(lambda: config_of(mirror.bootstrap, "orders", "segment.ms") == "3600000")
        with Client(source.bootstrap) as client:
            alter_configs(client, TOPIC, "orders", {"segment.ms": "7200000"})
        eventually(lambda: config_of(mirror.bootstrap, "orders", "segment.ms") == "7200000")
        # The group has gone on here: the source's older offset does not take its place.
        time.sleep(1)
        assert committed(mirror.bootstrap, "orders") == 200
    finally:
        mirror.stop()


def consume(bootstrap: str, topic: str, count: int) -> list[tuple[int, bytes]]:
    """Read as a member of the group, and commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "movers",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
        | ({"auto.offset.reset": "earliest"} if count == 60 else {})
    )
    consumer.subscribe([topic])
    found = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None:
            assert not message.error(), message.error()
            found.append((message.offset(), message.value()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def committed(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "movers"})
    [found] = consumer.committed([TopicPartition(topic, 0)], 20)
    consumer.close()
    return int(found.offset)


def config_of(bootstrap: str, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = admin_of(bootstrap)
    [described] = admin.describe_configs([resource]).values()
    return str(described.result(20)[name].value)


def test_retention_new_partitions_and_recreated_topics_are_noticed(
    source: MortalKafka, tmp_path: Path
) -> None:
    admin = admin_of(source.bootstrap)
    create(source.bootstrap, "grown")
    create(source.bootstrap, "trimmed")
    create(source.bootstrap, "again")
    produce(source.bootstrap, "trimmed", 300)
    produce(source.bootstrap, "again", 100)
    trim(admin, "trimmed", 50)
    mirror = mirror_of(source, tmp_path, "grown|trimmed|again|fresh")
    mirror.start()
    try:
        await_equal(source.bootstrap, mirror.bootstrap, "grown", "trimmed", "again")
        # The copy's start follows the source's.
        trim(admin, "trimmed", 100)
        await_equal(source.bootstrap, mirror.bootstrap, "trimmed")
        # Retention is ahead of the copy.
        mirror.kill()
        produce(source.bootstrap, "trimmed", 100)
        trim(admin, "trimmed", 350)
        mirror.start()
        await_equal(source.bootstrap, mirror.bootstrap, "trimmed")
        [row] = [row for row in status_of(mirror.bootstrap)["partitions"] if row["skipped"]]
        assert (row["topic"], row["skipped"]) == ("trimmed", 50)

        create(source.bootstrap, "fresh", 2)
        admin.create_partitions([NewPartitions("grown", 4)])["grown"].result(20)
        produce(source.bootstrap, "fresh", 50)
        produce(source.bootstrap, "grown", 50)
        await_equal(source.bootstrap, mirror.bootstrap, "fresh", "grown")

        copy = batches_of(mirror.bootstrap, "again")
        admin.delete_topics(["again"])["again"].result(20)
        eventually(lambda: "again" not in admin.list_topics(timeout=20).topics)
        eventually(lambda: "no such topic" in refusal(mirror, "again"))
        eventually(lambda: created(source.bootstrap, "again"))
        produce(source.bootstrap, "again", 5)
        eventually(lambda: "created it again" in refusal(mirror, "again"))
        assert batches_of(mirror.bootstrap, "again") == copy
        admin_of(mirror.bootstrap).delete_topics(["again"])["again"].result(20)
        await_equal(source.bootstrap, mirror.bootstrap, "again")
    finally:
        mirror.stop()


def created(bootstrap: str, topic: str) -> bool:
    try:
        create(bootstrap, topic)
    except KafkaException:
        return False
    return True


def trim(admin: AdminClient, topic: str, offset: int) -> None:
    place = TopicPartition(topic, 0, offset)
    admin.delete_records([place])[TopicPartition(topic, 0)].result(20)


def refusal(mirror: MortalBroker, topic: str) -> str:
    """Why a topic is not copied, as the status has it."""
    printed = wirekafka("mirror", "status", "-b", mirror.bootstrap)
    return "\n".join(line for line in printed.stdout.splitlines() if line.startswith(topic))


def test_a_copy_is_made_once_from_a_time_on_at_a_limited_rate(
    source: MortalKafka, tmp_path: Path
) -> None:
    create(source.bootstrap, "old")
    now_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": source.bootstrap, "batch.num.messages": 100})
    for number in range(1_000):
        timestamp = now_ms - (7_200_000 if number < 500 else 60_000)
        producer.produce("old", b"x" * 1000, timestamp=timestamp)
        if number % 100 == 99:
            producer.flush(20)
    more = (
        "wirekafka.mirror.from=1h",
        "wirekafka.mirror.once=true",
        "wirekafka.mirror.rate.bytes=200000",
    )
    mirror = mirror_of(source, tmp_path, "old", *more)
    began = time.monotonic()
    mirror.start()
    try:
        eventually(lambda: status_of(mirror.bootstrap)["state"] == "complete", timeout_s=60)
        assert time.monotonic() - began > 1.4, "500 kB at 200 kB/s, the first second at once"
        assert offsets_of(mirror.bootstrap, "old") == (500, 1_000)
        found = batches_of(mirror.bootstrap, "old")
        assert found == batches_of(source.bootstrap, "old", start=500)
        produce(source.bootstrap, "old", 10)
        time.sleep(1)
        assert offsets_of(mirror.bootstrap, "old") == (500, 1_000)
        produce_refused(mirror.bootstrap, "old")
    finally:
        mirror.stop()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with apache_kafka_on([tmp_path / "mirror"], scratch) as bootstrap:
        assert batches_of(bootstrap, "old") == found, "Apache Kafka opens the directory"
