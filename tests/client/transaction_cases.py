"""What a transactional producer does with any broker: called with wirekafka and Apache Kafka."""

from __future__ import annotations

import secrets

import pytest

from wirekafka.client.client import Client
from wirekafka.client.fetcher import TopicFetcher
from wirekafka.client.topic_changes import TopicCreation, create_topics
from wirekafka.client.transactions import ProducerFenced, TransactionalProducer
from wirekafka.codec.record import Record


def values(client: Client, topic: str, *, committed_only: bool = True) -> list[bytes | None]:
    """The values of partition 0, from its start to the end of the committed records."""
    fetcher = TopicFetcher(client, topic, committed_only=committed_only)
    [end] = fetcher.offsets([0], -1).values()
    fetcher.assign({0: 0})
    found: list[bytes | None] = []
    while not fetcher.has_reached({0: end}):
        found += [record.value for record in fetcher.fetch(0.2)]
    return found


def topic_of(client: Client) -> str:
    """A new topic with two partitions."""
    name = f"written-{secrets.token_hex(4)}"
    [made] = create_topics(client, [name], TopicCreation(partitions=2, replication_factor=1))
    assert not made.error_code
    client.topic(name)
    return name


def transactions_are_seen_whole_or_not_at_all(bootstrap: str) -> None:
    with Client(bootstrap) as client:
        topic = topic_of(client)
        producer = TransactionalProducer(client, f"id-of-{topic}")
        producer.init()
        assert producer.send(topic, 0, [Record(value=b"a"), Record(value=b"b")]) == 0
        assert producer.send(topic, 0, [Record(value=b"c")]) == 2
        producer.send(topic, 1, [Record(value=b"elsewhere")])
        producer.commit()
        assert producer.send(topic, 0, [Record(value=b"dropped")]) == 4
        producer.abort()
        producer.send(topic, 0, [Record(value=b"d")])
        producer.commit()
        assert values(client, topic) == [b"a", b"b", b"c", b"d"]


def a_second_producer_fences_the_first(bootstrap: str) -> None:
    with Client(bootstrap) as client, Client(bootstrap) as other:
        topic = topic_of(client)
        first = TransactionalProducer(client, f"id-of-{topic}")
        second = TransactionalProducer(other, f"id-of-{topic}")
        first.init()
        first.send(topic, 0, [Record(value=b"lost")])
        second.init()
        with pytest.raises(ProducerFenced):
            first.commit()
        with pytest.raises(ProducerFenced):
            first.send(topic, 0, [Record(value=b"late")])
        second.send(topic, 0, [Record(value=b"kept")])
        second.commit()
        assert values(client, topic) == [b"kept"]
        first.init()
        first.send(topic, 0, [Record(value=b"again")])
        first.commit()
        assert values(client, topic) == [b"kept", b"again"]
