"""`wirekafka transactions`."""

from collections.abc import Iterator

import confluent_kafka
import pytest

from tests.cli.admin.conftest import RunJson, assert_refused, table
from tests.cli.conftest import Run, command_line
from tests.console.hanging import ORPHAN, leave_hanging
from wirekafka import Broker
from wirekafka.client.client import Client


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(
        topics={"orders": 2, "bills": 1}, transaction_partition_verification_enable=False
    ) as broker:
        yield broker


@pytest.fixture
def run(broker: Broker, monkeypatch: pytest.MonkeyPatch, capfdbinary: object) -> Run:
    return command_line(broker.bootstrap_servers, monkeypatch, capfdbinary)


@pytest.fixture
def opened(broker: Broker) -> Iterator[confluent_kafka.Producer]:
    """A producer within a transaction, which writes to orders-1."""
    producer = begun(broker, "pay")
    yield producer
    producer.abort_transaction(10)


def begun(broker: Broker, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "log_level": 0,
        }
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", "x", partition=1)
    assert producer.flush(10) == 0
    return producer


def test_open_transactions_are_listed(
    run: Run, run_json: RunJson, opened: confluent_kafka.Producer
) -> None:
    [found] = run_json("transactions", "list")
    assert (found["id"], found["state"], found["partitions"]) == ("pay", "Ongoing", ["orders-1"])
    assert found["age_s"] < 60 and found["coordinator"] == 1
    header, row = table(run("transactions", "list"))
    assert header == ["ID", "STATE", "PRODUCER", "COORDINATOR", "STARTED", "AGE_S", "PARTITIONS"]
    assert row[:2] == ["pay", "Ongoing"] and row[-1] == "orders-1"
    assert run_json("transactions", "list", "--older-than", "60") == []


def test_a_transaction_is_described(
    run: Run, run_json: RunJson, opened: confluent_kafka.Producer
) -> None:
    found = run_json("transactions", "describe", "pay")
    assert found["state"] == "Ongoing" and found["timeout_s"] == 60 and found["epoch"] >= 0
    assert "coordinator" not in found
    first, *partitions = run("transactions", "describe", "pay").out.splitlines()
    assert first.startswith("pay  Ongoing  producer ") and partitions == ["orders-1"]
    assert_refused(run("transactions", "describe", "x"), "There is no transactional id x")


def test_ended_transactions_are_listed_on_request(
    run: Run, run_json: RunJson, broker: Broker
) -> None:
    begun(broker, "done").commit_transaction(10)
    outcome = run("transactions", "list")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "no open transactions\n")
    ended = {each["id"]: each["state"] for each in run_json("transactions", "list", "--ended")}
    assert ended["done"] == "CompleteCommit"


def test_producers_have_their_transactional_ids(
    run: Run, run_json: RunJson, opened: confluent_kafka.Producer
) -> None:
    [found] = [
        each
        for each in run_json("transactions", "producers", "--topic", "orders", "-p", "1")
        if each["start_offset"] is not None
    ]
    assert (found["transaction"], found["partition"]) == ("pay", 1)
    outcome = run(
        *("transactions", "abort", "--topic", "orders", "--partition", "1"),
        *("--start-offset", str(found["start_offset"])),
    )
    assert_refused(outcome, "the transaction of pay is not hanging; its coordinator ends it")
    assert run("transactions", "producers", "--topic", "bills").err == "no producers\n"


def test_a_hanging_transaction_is_found_and_aborted(
    run: Run, run_json: RunJson, broker: Broker, opened: confluent_kafka.Producer
) -> None:
    outcome = run("transactions", "find-hanging")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "no hanging transactions\n")
    with Client(broker.bootstrap_servers) as client:
        leave_hanging(client, "orders", 0)
    [found] = run_json("transactions", "find-hanging")
    assert (found["topic"], found["partition"], found["producer"]) == ("orders", 0, ORPHAN)
    assert found["transaction"] == "hanging"
    assert run_json("transactions", "find-hanging", "--topic", "bills") == []
    where = ("transactions", "abort", "--topic", "orders", "--partition", "0", "--start-offset")
    assert_refused(run(*where, "77"), "orders-0: no open transaction starts at 77")
    outcome = run(*where, str(found["start_offset"]))
    assert outcome.err == f"aborted the transaction of producer {ORPHAN} in orders-0\n"
    assert run_json("transactions", "find-hanging") == []
    assert "no topic nope" in run("transactions", "find-hanging", "--topic", "nope").err
