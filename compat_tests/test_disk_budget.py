"""A disk budget under a real consumer that stops and returns, and Apache Kafka on what is left."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.wire import Wire
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from tests.in_process import now
from wirekafka.codec.message import Request
from wirekafka.coordinator.routing import NoLinks
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.server.space.other_coordinators import OtherCoordinators, Positions

BUDGET = "wirekafka.disk.budget.bytes=4000000"
KEPT = {"wirekafka.retention.keep.unread": "true", "segment.bytes": "1048576"}
VALUE_BYTES = 20_000
Named = MetadataRequest.Topic


def produce(bootstrap: str, first: int, count: int) -> int:
    """Send numbered values, one after the other, up to the first that is refused."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "message.timeout.ms": 3_000}
    )
    for number in range(first, first + count):
        failed: list[KafkaError] = []

        def delivered(
            error: KafkaError | None, _: Message, failed: list[KafkaError] = failed
        ) -> None:
            failed.extend([error] if error is not None else [])

        producer.produce("orders", f"{number}".ljust(VALUE_BYTES).encode(), on_delivery=delivered)
        producer.flush(20)
        if failed:
            return number
    return first + count


def consumed(bootstrap: str, count: int, group: str = "billing") -> list[int]:
    """The next numbers that a group reads, and commits; it ends on an offset out of range."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    [committed] = consumer.committed([TopicPartition("orders", 0)], 20)
    consumer.assign([TopicPartition("orders", 0, max(committed.offset, 0))])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None, f"{len(found)} of {count} were read"
        if message.error():
            raise KafkaException(message.error())
        found.append(int(message.value()))
    consumer.commit(offsets=[TopicPartition("orders", 0, found[-1] + 1)], asynchronous=False)
    consumer.close()
    return found


def bounds(bootstrap: str) -> tuple[int, int, int]:
    """Start and end of the topic, and where the group is."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    start, end = consumer.get_watermark_offsets(TopicPartition("orders", 0), 20)
    [committed] = consumer.committed([TopicPartition("orders", 0)], 20)
    consumer.close()
    return start, end, committed.offset


class WireLinks(NoLinks):
    """Connections to brokers that all are one broker."""

    def __init__(self, bootstrap: str):
        self._wire = Wire.to(bootstrap)

    async def send(self, broker_id: int, client_id: str, request: Request) -> Any:
        return self._wire.ask(request, type(request).versions.last)


def positions_elsewhere(bootstrap: str) -> Positions:
    """What a leader finds out about the groups of another coordinator."""
    names = [Named(name=name) for name in ("orders", "__consumer_offsets")]
    topics = {}
    for topic in Wire.to(bootstrap).ask(MetadataRequest(topics=names), 13).topics:
        partitions = {
            each.partition_index: SimpleNamespace(leader=each.leader_id)
            for each in topic.partitions
        }
        topics[topic.name] = SimpleNamespace(
            id=topic.topic_id, name=topic.name, partitions=partitions
        )
    assert {each.leader for each in topics["__consumer_offsets"].partitions.values()} == {1}
    image = SimpleNamespace(topics=topics, topics_by_id={each.id: each for each in topics.values()})
    routing = SimpleNamespace(links=WireLinks(bootstrap))
    broker: Any = SimpleNamespace(routing=routing, image=image)
    found: Positions = now(OtherCoordinators(broker).read([1], [("orders", 0)]))
    return found


@pytest.mark.timeout(120)
def test_a_consumer_continues_after_the_budget_was_exhausted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with live_broker(data, BUDGET) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics([NewTopic("orders", 1, config=KEPT)]).values():
            made.result(20)
        produce(bootstrap, 0, 60)
        assert consumed(bootstrap, 60) == list(range(60))
        # The budget is looked at once a second: until then it is exceeded.
        refused = produce(bootstrap, 60, 10_000)
        assert 200 <= refused < 10_000, "the segment that was read made room"
        start, end, position = bounds(bootstrap)
        assert (0 < start <= 60, end, position) == (True, refused, 60)
        assert consumed(bootstrap, refused - 60) == list(range(60, refused))
        # Without further help, once the group has read.
        assert produce(bootstrap, refused, 20) == refused + 20
        left = bounds(bootstrap)
        assert start < left[0] <= refused
    log = (tmp_path / "data.log").read_text()
    assert log.count("Appends are refused, reads are served") == 1
    assert log.count("appends are accepted") == 1
    with apache_kafka_on([data], tmp_path, settings=f"{BUDGET}\n") as bootstrap:
        # Kafka accepts connections before its partitions have leaders.
        assert eventually(lambda: bounds(bootstrap)) == left
        assert consumed(bootstrap, 20) == list(range(refused, refused + 20))
        assert positions_elsewhere(bootstrap) == {("orders", 0): {"billing": refused + 20}}
        assert produce(bootstrap, refused + 20, 2) == refused + 22
    with live_broker(data, BUDGET) as bootstrap:
        assert consumed(bootstrap, 2) == [refused + 20, refused + 21]
