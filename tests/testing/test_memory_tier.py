"""`Broker(tier="memory:")`: tiered topics, whose store is slow or fails as a test wants."""

from __future__ import annotations

from threading import Thread

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import wirekafka
from tests.eventually import eventually
from wirekafka.testing.memory_tier import MemoryTier
from wirekafka.tiered.store import StoredObject, StoreError

_RECORDS = 60


def _filled(broker: wirekafka.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topic = NewTopic(
        "t",
        1,
        config={
            "remote.storage.enable": "true",
            "segment.bytes": "1048576",
            "local.retention.bytes": "1",
        },
    )
    admin.create_topics([topic])["t"].result(10)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(_RECORDS):
        producer.produce("t", bytes(70_000))
        producer.flush(10)


def _read(broker: wirekafka.Broker) -> int:
    """Read all records; how many there are."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    offsets: list[int] = []

    def has_ended() -> bool:
        for message in consumer.consume(100, 0.2):
            if message.error():
                raise KafkaException(message.error())
            offsets.append(message.offset())
        return offsets[-1:] == [_RECORDS - 1]

    eventually(has_ended)
    consumer.close()
    assert offsets == list(range(_RECORDS))
    return len(offsets)


def test_segments_are_in_the_tier_and_a_store_that_fails_is_survived() -> None:
    with wirekafka.Broker(tier="memory:") as broker:
        assert broker.tier is not None
        broker.tier.fail(3)
        _filled(broker)
        # Three objects for each of four closed segments.
        eventually(lambda: broker.tier is not None and len(broker.tier.objects) == 4 * 3)
        broker.tier.fail(1)
        assert _read(broker) == _RECORDS
        broker.crash()
        broker.restart()
        assert _read(broker) == _RECORDS


def test_lost_objects_are_named() -> None:
    with wirekafka.Broker(tier="memory:") as broker:
        assert broker.tier is not None
        _filled(broker)
        eventually(lambda: broker.tier is not None and len(broker.tier.objects) == 4 * 3)
        assert broker.tier.lose(".log") == 4
        assert not any(key.endswith(".log") for key in broker.tier.objects)


def test_each_kind_of_request_fails_as_often_as_a_test_wants() -> None:
    store = MemoryTier()
    store.put("key", [b"content"])
    store.fail(5)
    for request in (
        lambda: store.put("key", [b""]),
        lambda: store.get("key"),
        lambda: store.get_range("key", 0, 1),
        lambda: store.delete("key"),
        lambda: list(store.list("")),
    ):
        with pytest.raises(StoreError):
            request()
    assert list(store.list("")) == [StoredObject("key", 7)]


def test_a_fault_acts_on_the_requests_that_it_names() -> None:
    store = MemoryTier()
    with store.fail(times=None, request="put", containing=".log") as fault:
        for _ in range(2):
            with pytest.raises(StoreError):
                store.put("a.log", [b"content"])
        store.put("a.indexes", [b"content"])
        assert fault.hits == 2
    store.put("a.log", [b"content"])
    with pytest.raises(ValueError, match="it is one of put, get, delete, list"):
        store.fail(request="PUT")  # type: ignore[arg-type]


def test_a_delayed_request_takes_effect_when_the_fault_ends() -> None:
    store = MemoryTier()
    delay = store.delay(60, times=1)
    thread = Thread(target=store.put, args=("key", [b"content"]), daemon=True)
    thread.start()
    eventually(lambda: delay.hits == 1)
    assert not store.objects
    assert list(store.list("")) == []  # Only the first request is delayed.
    delay.remove()
    thread.join(10)
    assert store.objects == {"key": 7}


def test_clients_are_served_while_the_store_is_slow() -> None:
    with wirekafka.Broker(tier="memory:") as broker:
        assert broker.tier is not None
        with broker.tier.delay(60) as delay:
            _filled(broker)
            eventually(lambda: delay.hits > 0)
            assert _read(broker) == _RECORDS
            assert not broker.tier.objects
        eventually(lambda: broker.tier is not None and len(broker.tier.objects) == 4 * 3)


def test_only_a_store_in_memory_can_be_had() -> None:
    with pytest.raises(ValueError, match="it is 'memory:'"):
        wirekafka.Broker(tier="s3://bucket")
    with pytest.raises(ValueError, match="process=True"):
        wirekafka.Broker(tier="memory:", process=True)
