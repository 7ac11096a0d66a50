"""Transactions and producers, and the abort of hanging ones."""

from collections.abc import Iterator

import confluent_kafka
import pytest

from tests.console.hanging import ORPHAN, leave_hanging
from wirekafka import Broker
from wirekafka.client.admin import transactions as tested
from wirekafka.client.admin.transactions import (
    abort,
    describe_transaction,
    list_transactions,
    producers,
)
from wirekafka.client.client import Client, CliError


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(
        topics={"orders": 2, "bills": 1}, transaction_partition_verification_enable=False
    ) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.bootstrap_servers) as client:
        yield client


def producer(broker: Broker, transactional_id: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 50_000,
        }
    )
    made.init_transactions(10)
    return made


def begin(made: confluent_kafka.Producer, *partitions: tuple[str, int]) -> None:
    made.begin_transaction()
    for topic, index in partitions:
        made.produce(topic, "x", partition=index)
    assert made.flush(10) == 0


def test_transactions_are_listed_oldest_first(broker, client):
    old, new, done = (producer(broker, name) for name in ("old", "new", "done"))
    begin(done, ("bills", 0))
    done.commit_transaction(10)
    begin(old, ("orders", 1), ("bills", 0))
    broker.clock.advance(seconds=20)
    begin(new, ("orders", 0))
    found = list_transactions(client)
    assert [(each.transactional_id, each.state) for each in found.listed] == [
        ("old", "Ongoing"),
        ("new", "Ongoing"),
    ]
    first, second = found.listed
    assert first.partitions == [("bills", 0), ("orders", 1)]
    assert second.start_ms - first.start_ms >= 20_000
    assert first.timeout_ms == 50_000
    assert not first.is_overdue(first.start_ms + 50_000)
    assert first.is_overdue(first.start_ms + 50_001)
    everything = list_transactions(client, ended=True)
    states = {each.transactional_id: each.state for each in everything.listed}
    assert states == {"old": "Ongoing", "new": "Ongoing", "done": "CompleteCommit"}
    assert not everything.failed


def test_one_transaction_is_described(broker, client):
    made = producer(broker, "one")
    begin(made, ("orders", 0), ("orders", 1))
    found = describe_transaction(client, "one")
    assert (found.state, found.partitions) == ("Ongoing", [("orders", 0), ("orders", 1)])
    assert found.producer_id >= 0 and found.start_ms > 0
    with pytest.raises(CliError, match="There is no transactional id missing"):
        describe_transaction(client, "missing")


def test_producers_have_their_transactions(broker, client):
    made = producer(broker, "one")
    begin(made, ("orders", 1))
    idempotent = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
    )
    idempotent.produce("orders", "y", partition=0)
    assert idempotent.flush(10) == 0
    opened, plain = producers(client, "orders")
    assert (opened.partition, opened.is_open, opened.is_hanging) == (("orders", 1), True, False)
    assert opened.transaction is not None and opened.transaction.transactional_id == "one"
    assert (plain.partition, plain.is_open, plain.is_hanging) == (("orders", 0), False, False)
    assert [each.partition[1] for each in producers(client, "orders", [0])] == [0]
    made.commit_transaction(10)
    assert not any(each.is_open for each in producers(client, "orders"))


def test_a_hanging_transaction_is_found_and_aborted(broker, client):
    leave_hanging(client, "orders", 0)
    [hanging] = producers(client, "orders")
    assert (hanging.producer_id, hanging.is_hanging) == (ORPHAN, True)
    abort(client, ("orders", 0), ORPHAN, hanging.start_offset)
    [ended] = producers(client, "orders")
    assert not ended.is_open
    assert [each.transaction for each in broker.records("orders")] == ["aborted"]


def test_a_transaction_that_has_ended_meanwhile_is_not_hanging(broker, client, monkeypatch):
    """The leader was asked before the marker was written, the coordinator after that."""
    made = producer(broker, "one")
    begin(made, ("orders", 0))
    find = tested._find_transactions

    def end_and_find(*arguments):
        made.commit_transaction(10)
        find(*arguments)

    monkeypatch.setattr(tested, "_find_transactions", end_and_find)
    [found] = producers(client, "orders")
    assert not found.is_hanging and not found.is_open


def test_only_a_hanging_transaction_can_be_aborted(broker, client):
    made = producer(broker, "one")
    begin(made, ("orders", 0))
    [opened] = producers(client, "orders")
    with pytest.raises(CliError, match="the transaction of one is not hanging"):
        abort(client, ("orders", 0), opened.producer_id, opened.start_offset)
    with pytest.raises(CliError, match="no open transaction of producer 5"):
        abort(client, ("orders", 0), 5, 0)
    made.commit_transaction(10)
    assert [each.transaction for each in broker.records("orders")] == ["committed"]
