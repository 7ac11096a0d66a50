"""What a transactional producer does with any broker: called with wirekafka and Apache Kafka."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.eventually import eventually
from wirekafka.client.client import BrokerConnection, Client, ConnectionFailure
from wirekafka.client.fetcher import TopicFetcher
from wirekafka.client.producer import IdempotentProducer
from wirekafka.client.topic_changes import TopicCreation, create_topics
from wirekafka.client.transactions import OffsetAndMetadata, ProducerFenced, TransactionalProducer
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch


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
    eventually(lambda: client.topic(name))  # Apache Kafka's broker knows it a moment later.
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


def finished(*values: bytes, **options: Any) -> bytes:
    """A batch that has no producer yet."""
    records = [Record(value=value) for value in values]
    return encode_batch(records, options=BatchOptions(is_transactional=True, **options))


def batches_and_offsets_are_committed_together(bootstrap: str) -> None:
    with Client(bootstrap) as client:
        topic = topic_of(client)
        group = f"group-of-{topic}"
        producer = TransactionalProducer(client, f"id-of-{topic}")
        producer.init()
        # The second transaction follows the control records of the first.
        for value, end, ends in (
            (b"dropped", producer.abort, (3, 2)),
            (b"a", producer.commit, (7, 5)),
        ):
            batches = {
                (topic, 0): [finished(value, b"b", compression=Codec.LZ4), finished(b"c")],
                (topic, 1): [finished(b"elsewhere", b"2")],
            }
            sent = producer.send_batches(batches)
            assert (sent[topic, 0], sent[topic, 1]) == ends
            committed = {(topic, 0): OffsetAndMetadata(ends[0], value.decode())}
            producer.send_offsets(group, committed)
            end()
        assert producer.committed_offsets(group) == committed
        assert values(client, topic) == [b"a", b"b", b"c"]
        assert producer.send_batches({(topic, 0): []}) == {}


def a_run_goes_on_with_new_connections_until_another_begins(bootstrap: str) -> None:
    with Client(bootstrap) as client:
        topic = topic_of(client)
        first = TransactionalProducer(client, f"id-of-{topic}")
        assert first.describe() is None
        first.init()
        initial, last = first.identity, None
        for value in (b"a", b"b", b"c"):
            with Client(bootstrap) as next_client:
                producer = TransactionalProducer(next_client, first.transactional_id)
                producer.resume_run(initial=initial, last=last)
                last = producer.identity
                producer.send_batches({(topic, 0): [finished(value)]})
                producer.commit()
                producer.renew()
        assert values(client, topic) == [b"a", b"b", b"c"]
        first.init()
        with Client(bootstrap) as next_client:
            producer = TransactionalProducer(next_client, first.transactional_id)
            for known in (None, last):
                with pytest.raises(ProducerFenced, match="has begun: producer id and epoch are"):
                    producer.resume_run(initial=initial, last=known)


def a_transaction_that_a_run_has_left_open_is_aborted(bootstrap: str) -> None:
    with Client(bootstrap) as client, Client(bootstrap) as next_client:
        topic = topic_of(client)
        left = TransactionalProducer(client, f"id-of-{topic}")
        left.init()
        left.send_batches({(topic, 0): [finished(b"left", b"open")]})
        producer = TransactionalProducer(next_client, left.transactional_id)
        producer.resume_run(initial=left.identity)
        producer.send_batches({(topic, 0): [finished(b"kept")]})
        producer.commit()
        assert values(client, topic) == [b"kept"]
        with pytest.raises(ProducerFenced):
            left.commit()


def lost_answers_change_nothing(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer to each of the requests of three transactions is lost."""
    take, lost = BrokerConnection._take, list[str]()

    def losing(self: BrokerConnection, number: int, request: Any, *rest: Any) -> Any:
        response = take(self, number, request, *rest)
        name = type(request).__name__
        if name in lossy:
            lossy.remove(name)
            lost.append(name)
            self.close()
            raise ConnectionFailure(f"lost the answer to {name}")
        return response

    lossy = list[str]()
    monkeypatch.setattr(BrokerConnection, "_take", losing)
    with Client(bootstrap) as client:
        topic = topic_of(client)
        group = f"group-of-{topic}"
        producer = TransactionalProducer(client, f"id-of-{topic}")
        producer.init()
        for number in range(3):
            lossy += ["ProduceRequest", "TxnOffsetCommitRequest", "EndTxnRequest"]
            lossy += ["AddPartitionsToTxnRequest", "AddOffsetsToTxnRequest"]
            lossy += ["InitProducerIdRequest"]
            batches = [finished(b"%d" % number), finished(b"%d" % number, b"more")]
            producer.send_batches({(topic, index): batches for index in range(2)})
            producer.send_offsets(group, {(topic, 0): OffsetAndMetadata(number)})
            producer.commit()
            producer.renew()
            lossy.clear()
        assert {"ProduceRequest", "TxnOffsetCommitRequest", "EndTxnRequest"} <= set(lost)
        expected = [b"%d" % number for number in range(3) for _ in range(2)]
        found = values(client, topic)
        assert [value for value in found if value != b"more"] == expected
        assert producer.committed_offsets(group) == {(topic, 0): (2, "")}


def an_idempotent_producer_writes_without_a_transaction(bootstrap: str) -> None:
    with Client(bootstrap) as client:
        topic = topic_of(client)
        producer = IdempotentProducer(client)
        producer.init()
        plain = [encode_batch([Record(value=b"%d" % number)]) for number in range(20)]
        assert producer.send_batches({(topic, 0): plain}) == {(topic, 0): 20}
        assert producer.send(topic, 0, [Record(value=b"20")]) == 20
        assert values(client, topic) == [b"%d" % number for number in range(21)]
