"""A transactional producer: what readers see, and who may write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import wirekafka
from tests.client import transaction_cases as cases
from tests.eventually import eventually
from wirekafka.client.client import BrokerConnection, Client, CliError
from wirekafka.client.delivery import REQUEST_BYTES
from wirekafka.client.producer import IdempotentProducer
from wirekafka.client.transactions import (
    AccessRefused,
    DescribedTransaction,
    IdAndEpoch,
    OffsetAndMetadata,
    ProducerFenced,
    TransactionalProducer,
    TransactionRefused,
    producer_of_run,
)
from wirekafka.codec.record import Record, decode_records, encode_batch
from wirekafka.testing import Allow


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


def test_transactions_are_seen_whole_or_not_at_all(broker: wirekafka.Broker) -> None:
    cases.transactions_are_seen_whole_or_not_at_all(broker.bootstrap_servers)


def test_a_second_producer_fences_the_first(broker: wirekafka.Broker) -> None:
    cases.a_second_producer_fences_the_first(broker.bootstrap_servers)


def test_batches_and_offsets_are_committed_together(broker: wirekafka.Broker) -> None:
    cases.batches_and_offsets_are_committed_together(broker.bootstrap_servers)


def test_a_run_goes_on_with_new_connections_until_another_begins(broker: wirekafka.Broker) -> None:
    cases.a_run_goes_on_with_new_connections_until_another_begins(broker.bootstrap_servers)


def test_a_transaction_that_a_run_has_left_open_is_aborted(broker: wirekafka.Broker) -> None:
    cases.a_transaction_that_a_run_has_left_open_is_aborted(broker.bootstrap_servers)


def test_lost_answers_change_nothing(
    broker: wirekafka.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases.lost_answers_change_nothing(broker.bootstrap_servers, monkeypatch)


def test_an_idempotent_producer_writes_without_a_transaction(broker: wirekafka.Broker) -> None:
    cases.an_idempotent_producer_writes_without_a_transaction(broker.bootstrap_servers)


def test_a_lost_connection_neither_loses_nor_doubles_records(broker: wirekafka.Broker) -> None:
    with Client(broker.bootstrap_servers) as client:
        topic = cases.topic_of(client)
        producer = TransactionalProducer(client, f"id-of-{topic}")
        producer.init()
        broker.drop("Produce", applied=True, times=1)
        producer.send(topic, 0, [Record(value=b"once")])
        broker.drop("EndTxn", applied=True, times=1)
        producer.commit()
        producer.send(topic, 0, [Record(value=b"twice")])
        producer.commit()
        assert cases.values(client, topic) == [b"once", b"twice"]


@pytest.mark.parametrize("seed", range(4))
def test_batches_are_appended_once_and_in_order_whatever_fails(
    broker: wirekafka.Broker, seed: int
) -> None:
    random = Random(seed)
    with Client(broker.bootstrap_servers) as client:
        topic = cases.topic_of(client)
        producer = IdempotentProducer(client)
        producer.init()
        errors = ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT")
        rules = []
        for partition in random.choices((None, 0, 1), k=4):
            match = {"topic": topic, "partition": partition, "times": random.randint(1, 3)}
            is_applied = random.random() < 0.5
            if random.random() < 0.5:
                rules.append(broker.drop("Produce", applied=is_applied, topic=topic, times=2))
            rules.append(broker.fail("Produce", random.choice(errors), applied=is_applied, **match))
        batches = [
            encode_batch([Record(value=b"%d" % number)] * random.choice((1, 50)))
            for number in range(40)
        ]
        sent = producer.send_batches({(topic, 0): batches, (topic, 1): batches[:30]})
        assert sum(rule.hits for rule in rules) >= 4
        expected = [record.value for batch in batches for record in decode_records(batch)]
        assert cases.values(client, topic) == expected
        assert sent[topic, 0] == len(expected)


def test_many_partitions_share_few_requests(broker: wirekafka.Broker) -> None:
    broker.create_topic("many", 100)
    with Client(broker.bootstrap_servers) as client:
        producer = TransactionalProducer(client, "id-of-many")
        producer.init()
        batch = cases.finished(bytes(100_000))
        broker.requests.clear()
        producer.send_batches({("many", index): [batch] * 2 for index in range(100)})
        producer.commit()
        count = len([each for each in broker.requests if each.api == "Produce"])
        assert 200 * len(batch) / REQUEST_BYTES <= count <= 8


def test_a_batch_that_the_topic_does_not_allow_is_named(broker: wirekafka.Broker) -> None:
    broker.create_topic("narrow", 2, {"max.message.bytes": 1000})
    with Client(broker.bootstrap_servers) as client:
        producer = TransactionalProducer(client, "id-of-narrow")
        producer.init()
        batch = cases.finished(bytes(2000))
        with pytest.raises(CliError, match=f"narrow-1: a batch of {len(batch)} bytes is larger"):
            producer.send_batches({("narrow", 0): [cases.finished(b"a")], ("narrow", 1): [batch]})
        producer.abort()
        assert not cases.values(client, "narrow")


def test_topics_and_partitions_that_do_not_exist_are_named(broker: wirekafka.Broker) -> None:
    broker.create_topic("short", 2)
    with Client(broker.bootstrap_servers) as client:
        producer = IdempotentProducer(client)
        producer.init()
        batch = cases.encode_batch([Record(value=b"a")])
        with pytest.raises(CliError, match="no topic nowhere"):
            producer.send_batches({("nowhere", 0): [batch]})
        with pytest.raises(CliError, match="topic short has no partition 2"):
            producer.send_batches({("short", 0): [batch], ("short", 2): [batch]})


def test_a_transaction_that_exceeds_its_timeout_is_aborted_and_says_so() -> None:
    with wirekafka.Broker(topics=["t"]) as broker, Client(broker.bootstrap_servers) as client:
        producer = TransactionalProducer(client, "id", timeout_ms=1)
        producer.init()
        producer.send("t", 0, [Record(value=b"late")])
        broker.clock.advance(seconds=60)
        eventually(lambda: producer.describe().state == "CompleteAbort")
        with pytest.raises(ProducerFenced, match="exceeded its timeout of 1 ms and was aborted"):
            producer.commit()
        other = TransactionalProducer(client, "other", timeout_ms=1 << 30)
        with pytest.raises(CliError, match=r"longer than the broker's transaction\.max\.timeout"):
            other.init()


ME, OTHER = IdAndEpoch(7, 3), IdAndEpoch(9, 0)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (None, ME),
        (ME, IdAndEpoch(7, 4)),
        # Below transaction.version 2, where the run could not renew the producer.
        (ME, ME),
        (IdAndEpoch(7, 32_765), IdAndEpoch(7, 32_766)),
        (IdAndEpoch(7, 32_766), OTHER),
    ],
)
def test_a_run_goes_on_with_the_successor_of_its_last_producer(
    last: IdAndEpoch | None, found: IdAndEpoch
) -> None:
    described = DescribedTransaction("CompleteCommit", found)
    assert producer_of_run(described, initial=ME, last=last) == found


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (None, IdAndEpoch(7, 4)),
        (None, OTHER),
        (ME, IdAndEpoch(7, 5)),
        (ME, OTHER),
        # Another run has begun, with the first producer id that has epochs left.
        (IdAndEpoch(7, 32_765), OTHER),
        (IdAndEpoch(7, 32_766), IdAndEpoch(9, 1)),
        (IdAndEpoch(7, 32_766), IdAndEpoch(7, 32_767)),
    ],
)
def test_a_run_ends_where_another_run_has_begun(last: IdAndEpoch | None, found: IdAndEpoch) -> None:
    with pytest.raises(ProducerFenced, match="has begun"):
        producer_of_run(DescribedTransaction("Empty", found), initial=ME, last=last)


def test_a_run_ends_when_its_transactional_id_has_expired() -> None:
    with pytest.raises(ProducerFenced, match="has expired"):
        producer_of_run(None, initial=ME, last=None)


@pytest.mark.parametrize("level", [2, 0])
def test_a_run_goes_on_when_the_epochs_of_its_producer_id_are_used_up(
    broker: wirekafka.Broker, monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    monkeypatch.setattr(BrokerConnection, "finalized_level", lambda *_: level)
    with Client(broker.bootstrap_servers) as client:
        topic = cases.topic_of(client)
        producer = TransactionalProducer(client, f"id-of-{topic}")
        producer.init()
        broker._engine.on_broker(nearly_use_up_epochs, producer.transactional_id)
        initial, last = IdAndEpoch(producer.identity.producer_id, 32_764), None
        for value in (b"a", b"b", b"c", b"d"):
            producer.resume_run(initial=initial, last=last)
            last = producer.identity
            producer.send_batches({(topic, 0): [cases.finished(value)]})
            producer.commit()
            producer.renew()
        assert cases.values(client, topic) == [b"a", b"b", b"c", b"d"]
        assert last.producer_id != initial.producer_id and last.producer_epoch == 0
        TransactionalProducer(client, producer.transactional_id).init()
        with pytest.raises(ProducerFenced):
            producer.resume_run(initial=initial, last=last)


def nearly_use_up_epochs(broker: Any, transactional_id: str) -> None:
    """Give a producer at rest an epoch which two more follow."""
    shard = broker.transactions.shard_for(transactional_id).machine
    transaction = shard._transactions[transactional_id]
    shard._transactions[transactional_id] = replace(transaction, producer_epoch=32_764)


_ALL = [
    Allow("alice", "write", topic="t"),
    Allow("alice", "write", transactional_id="id"),
    Allow("alice", "read", group="g"),
    Allow("alice", "read", topic="t"),
]


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (0, "may not use the topic t: it needs WRITE on it"),
        (1, "may not use the transactional id id: it needs WRITE and DESCRIBE on it"),
        (2, "may not use the offsets of the group g: it needs READ on it"),
        (3, "may not use the topic t: it needs READ on it"),
    ],
)
@pytest.mark.parametrize("level", [2, 0])
def test_a_missing_right_is_named_with_its_resource(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, text: str, level: int
) -> None:
    monkeypatch.setattr(BrokerConnection, "finalized_level", lambda *_: level)
    allowed = [right for number, right in enumerate(_ALL) if number != missing]
    with client_of_alice(tmp_path, allowed) as client:
        producer = TransactionalProducer(client, "id")
        with pytest.raises(AccessRefused, match=text):
            producer.init()
            producer.send("t", 0, [Record(value=b"a")])
            producer.send_offsets("g", {("t", 0): OffsetAndMetadata(1)})


def test_a_user_who_may_write_to_no_topic_cannot_produce(tmp_path: Path) -> None:
    with client_of_alice(tmp_path, []) as client:
        producer = IdempotentProducer(client)
        with pytest.raises(AccessRefused, match="needs WRITE on a topic, or IDEMPOTENT_WRITE"):
            producer.init()


def test_batches_follow_the_leaders_of_a_cluster() -> None:
    with wirekafka.Cluster(brokers=3) as cluster, Client(cluster.bootstrap_servers) as client:
        cluster.create_topic("t", 6, replication_factor=3)
        producer = TransactionalProducer(client, "id")
        producer.init()
        for number in range(4):
            batches = [cases.finished(b"%d" % number), cases.finished(b"%d" % number, b"more")]
            producer.send_batches({("t", index): batches for index in range(6)})
            if number == 1:
                cluster.kill(cluster.leader("t", 0))
            producer.send_offsets("g", {("t", 0): OffsetAndMetadata(number)})
            producer.commit()
        for partition in range(6):
            found = [record.value for record in cluster.records("t", partition)]
            expected = [[b"%d" % number] * 2 + [b"more"] for number in range(4)]
            assert found == [value for each in expected for value in each]
        assert producer.committed_offsets("g") == {("t", 0): (3, "")}


@pytest.mark.parametrize("may_describe", [True, False])
def test_a_user_without_the_transactional_id_is_refused(tmp_path: Path, may_describe: bool) -> None:
    allowed = [Allow("alice", ["read", "write"], topic="t")]
    if may_describe:
        allowed.append(Allow("alice", "describe", transactional_id="id"))
    with client_of_alice(tmp_path, allowed) as client:
        producer = TransactionalProducer(client, "id")
        with pytest.raises(TransactionRefused, match="may not use the transactional id id"):
            producer.init()


@contextmanager
def client_of_alice(directory: Path, allowed: Sequence[Allow]) -> Iterator[Client]:
    """A client of a user with these rights, of a broker with the topic t."""
    file = directory / "alice.properties"
    with wirekafka.Broker(users={"alice": "secret"}, acls=allowed, topics=["t"]) as broker:
        settings = broker.client_config("java", user="alice")
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with Client(broker.bootstrap_servers, file) as client:
            yield client
