"""Checks of a snapshot against what clients had observed at its instant."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.eventually import eventually
from tests.snapshot.load import GROUP, PAIRS, PARTITIONS, RECORDS, Load
from wirekafka.errors import KafkaError
from wirekafka.snapshot.manifest import Manifest
from wirekafka.testing.broker import Broker

_SLACK_MS = 1
"""Times are rounded down to milliseconds."""


def check_extent(manifest: Manifest, load: Load) -> None:
    """All that was acknowledged before the instant is there, and nothing that was sent later."""
    ends = {(log.topic, log.partition): log.end_offset for log in manifest.logs}
    for at_ms, topic, partition, offset in list(load.noted.acknowledged):
        if at_ms < manifest.at_ms - _SLACK_MS:
            assert offset < ends[topic, partition], (topic, partition, offset, "is missing")
    for at_ms, topic, partition, offset in list(load.noted.sent):
        if at_ms > manifest.at_ms + _SLACK_MS:
            assert offset >= ends[topic, partition], (topic, partition, offset, "is too new")


def check_by_wirekafka(path: Path, manifest: Manifest) -> None:
    """A broker on a branch of the snapshot has its logs, whole transactions, and its commits."""
    ends = {(log.topic, log.partition): log.end_offset for log in manifest.logs}
    with Broker.from_snapshot(path) as broker:
        commits = eventually(lambda: _commits(broker), timeout_s=60)
        for (topic, partition), offset in commits.items():
            assert offset <= ends[topic, partition], (topic, partition, offset)
        if PAIRS not in broker.topics():
            return
        eventually(lambda: "open" not in _outcomes(broker) or None)
        committed = [
            {
                record.value
                for record in broker.records(PAIRS, partition)
                if record.transaction == "committed"
            }
            for partition in (0, 1)
        ]
        assert committed[0] == committed[1], committed[0] ^ committed[1]


def _commits(broker: Broker) -> dict[tuple[str, int], int] | None:
    """The commits of the group; None while its coordinator reads them."""
    try:
        return broker.committed(GROUP)
    except KafkaError:
        return None


def _outcomes(broker: Broker) -> set[str | None]:
    return {record.transaction for record in broker.records(PAIRS)}


def check_by_kafka(bootstrap: str, manifest: Manifest) -> None:
    """Apache Kafka has the same ends and whole transactions."""
    ends = {(log.topic, log.partition): log.end_offset for log in manifest.logs}
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    )
    places = [TopicPartition(RECORDS, partition) for partition in range(PARTITIONS)]
    for place in places:
        end = eventually(lambda place=place: _end(consumer, place), timeout_s=60)
        assert end == ends[RECORDS, place.partition], (place, end)
    for found in eventually(lambda: _committed(consumer, places), timeout_s=60):
        assert found.offset <= ends[RECORDS, found.partition], found
    values = defaultdict(set)
    for partition in (0, 1):
        # The open transaction, if any, is in neither.
        consumer.assign([TopicPartition(PAIRS, partition, 0)])
        while (message := consumer.poll(2)) is not None:
            assert message.error() is None, message.error()
            values[partition].add(message.value())
    assert values[0] == values[1], values[0] ^ values[1]
    consumer.close()


def _end(consumer: Consumer, place: TopicPartition) -> int | None:
    """The end of a partition; None while Kafka starts."""
    try:
        return consumer.get_watermark_offsets(place, 30)[1]
    except KafkaException:
        return None


def _committed(consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition] | None:
    try:
        return consumer.committed(places, 30)
    except KafkaException:
        return None
