"""A transactional producer: what readers see, and who may write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import wirekafka
from tests.client import transaction_cases as cases
from wirekafka.client.client import Client
from wirekafka.client.transactions import TransactionalProducer, TransactionRefused
from wirekafka.codec.record import Record
from wirekafka.testing import Allow


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


def test_transactions_are_seen_whole_or_not_at_all(broker: wirekafka.Broker) -> None:
    cases.transactions_are_seen_whole_or_not_at_all(broker.bootstrap_servers)


def test_a_second_producer_fences_the_first(broker: wirekafka.Broker) -> None:
    cases.a_second_producer_fences_the_first(broker.bootstrap_servers)


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


@pytest.mark.parametrize("may_describe", [True, False])
def test_a_user_without_the_transactional_id_is_refused(tmp_path: Path, may_describe: bool) -> None:
    allowed = [Allow("alice", ["read", "write"], topic="t")]
    if may_describe:
        allowed.append(Allow("alice", "describe", transactional_id="id"))
    with wirekafka.Broker(users={"alice": "secret"}, acls=allowed, topics=["t"]) as broker:
        file = tmp_path / "alice.properties"
        settings = broker.client_config("java", user="alice")
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with Client(broker.bootstrap_servers, file) as client:
            producer = TransactionalProducer(client, "id")
            with pytest.raises(TransactionRefused, match="may not use the transactional id id"):
                producer.init()
