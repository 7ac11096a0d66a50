"""A broker as an object: start, records, inspection, reset, snapshots, stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.testing.clients import (
    CLIENTS,
    confluent_consumer,
    confluent_producer,
    polled,
    read,
    send,
)
from wirekafka import Broker
from wirekafka.errors import Error, KafkaError
from wirekafka.testing import Record


@pytest.mark.parametrize("client", CLIENTS)
def test_any_client_writes_and_reads(broker: Broker, client: str) -> None:
    broker.create_topic("t")
    assert send(client, broker, "t", b"hello") is None
    assert read(client, broker, "t", 1, group="g") == [b"hello"]


def test_records_are_returned_with_all_their_fields(broker: Broker) -> None:
    offsets = broker.produce(
        "t",
        [
            "text",
            b"bytes",
            ("key", "value"),
            Record(None, key=b"k", headers=(("h", b"1"), ("n", None)), timestamp_ms=7),
        ],
    )
    assert offsets == [0, 1, 2, 3]
    stored = broker.records("t")
    assert [(each.key, each.value) for each in stored] == [
        (None, b"text"),
        (None, b"bytes"),
        (b"key", b"value"),
        (b"k", None),
    ]
    assert stored[3].headers == (("h", b"1"), ("n", None)) and stored[3].timestamp_ms == 7
    assert {(each.producer_id, each.transaction) for each in stored} == {(-1, None)}


def test_many_records_over_many_partitions(broker: Broker) -> None:
    broker.create_topic("t", partitions=3)
    broker.produce("t", [str(number) for number in range(20_000)])
    assert [len(broker.records("t", index)) for index in range(3)] == [6667, 6667, 6666]
    assert {int(each.value or b"") for each in broker.records("t")} == set(range(20_000))


def test_topics_given_at_the_start_exist() -> None:
    with Broker(topics={"a": 2, "b": 1}, num_partitions=5) as broker:
        assert broker.topics() == {"a": 2, "b": 1}
        broker.delete_topic("a")
        assert broker.topics() == {"b": 1}
    with Broker(topics=["c"], config={"num.partitions": 5}) as broker:
        assert broker.topics() == {"c": 5}


def test_a_group_is_described(broker: Broker) -> None:
    broker.produce("t", [b"1"])
    assert broker.groups() == [] and broker.committed("g") == {}
    consumer = confluent_consumer(broker, "g", **{"client.id": "c"})
    consumer.subscribe(["t"])
    consumer.commit(polled(consumer), asynchronous=False)
    (group,) = broker.groups()
    assert (group.id, group.state, [each.client_id for each in group.members]) == (
        "g",
        "Stable",
        ["c"],
    )
    assert broker.committed("g") == {("t", 0): 1}
    consumer.close()


def test_a_reset_broker_is_empty(broker: Broker) -> None:
    address = broker.bootstrap_servers
    broker.produce("t", [b"1"])
    assert read("confluent-kafka", broker, "t", 1, group="g") == [b"1"]
    broker.fail("Produce", "REQUEST_TIMED_OUT")
    broker.clock.advance(days=1)
    broker.reset()
    assert broker.topics() == {} and broker.groups() == [] and not list(broker.requests)
    assert broker.bootstrap_servers == address
    broker.create_topic("t")
    assert send("confluent-kafka", broker, "t") is None
    assert [each.offset for each in broker.records("t")] == [0]


def test_a_snapshot_is_restored(broker: Broker) -> None:
    broker.produce("t", [b"1"])
    snapshot = broker.snapshot()
    for _ in range(2):
        broker.produce("t", [b"2"])
        broker.produce("u", [b"3"])
        broker.restore(snapshot)
        assert [each.value for each in broker.records("t")] == [b"1"]
        assert broker.topics() == {"t": 1}


def test_a_directory_is_kept(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        broker.produce("t", [b"1"])
        cluster_id = broker.cluster_id
    with Broker(tmp_path / "data") as broker:
        assert [each.value for each in broker.records("t")] == [b"1"]
        assert broker.cluster_id == cluster_id


def test_a_temporary_directory_is_removed() -> None:
    with Broker(topics=["t"]) as broker:
        directory = Path(broker.directory)
        assert directory.is_dir()
    assert not directory.parent.exists()


def test_acknowledged_records_outlive_a_crash(broker: Broker) -> None:
    producer = confluent_producer(broker)
    broker.create_topic("t")
    for number in range(100):
        producer.produce("t", str(number))
    assert producer.flush(10) == 0
    broker.crash()
    with pytest.raises(RuntimeError, match=r"restart\(\)"):
        broker.records("t")
    broker.restart()
    assert len(broker.records("t")) == 100


def test_a_restart_keeps_the_port_and_the_clients(broker: Broker) -> None:
    producer = confluent_producer(broker)
    for _ in range(2):
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        broker.restart()
    assert len(broker.records("t")) == 2


def test_a_broker_in_a_process_of_its_own() -> None:
    with Broker(topics=["t"], process=True) as broker:
        with broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1) as rule:
            assert send("confluent-kafka", broker, "t") is None
            assert rule.hits == 1
        assert len(broker.requests.of("Produce")) == 2
        broker.crash()
        broker.restart()
        assert len(broker.records("t")) == 1
        with pytest.raises(KafkaError) as raised:
            broker.create_topic("t")
        assert raised.value.error is Error.TOPIC_ALREADY_EXISTS
        with pytest.raises(ValueError, match="leave out when="):
            broker.fail("Produce", "REQUEST_TIMED_OUT", when=lambda request: True)


def test_an_async_test_starts_it_without_blocking() -> None:
    async def run() -> list[bytes | None]:
        async with Broker() as broker:
            broker.produce("t", ["1"])
            return [each.value for each in broker.records("t")]

    assert asyncio.run(run()) == [b"1"]


def test_two_brokers_are_two_clusters() -> None:
    with Broker(topics=["t"]) as one, Broker(topics=["t"]) as other:
        with one.fail("Produce", "INVALID_TIMESTAMP"):
            assert send("confluent-kafka", one, "t") == "INVALID_TIMESTAMP"
            assert send("confluent-kafka", other, "t") is None
        assert one.cluster_id != other.cluster_id
        assert (len(one.records("t")), len(other.records("t"))) == (0, 1)


def test_many_threads_use_one_broker(broker: Broker) -> None:
    broker.create_topic("t")
    threads = [
        threading.Thread(target=lambda: [broker.produce("t", [b"v"]) for _ in range(20)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.offset for each in broker.records("t")] == list(range(160))


def test_a_wait_that_times_out_reports_what_came(broker: Broker) -> None:
    assert send("confluent-kafka", broker, "t") is None
    with pytest.raises(TimeoutError, match=r"Produce v\d+ \(t-0\) -> ok"):
        broker.wait_for(lambda: False, timeout_s=0.01)


def test_the_test_process_is_not_changed() -> None:
    """No signal handler, no logging, no collector setting, no import of a broker before use."""
    check = """
import gc, logging, signal, sys
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
thresholds, level = gc.get_threshold(), logging.getLogger().level
import wirekafka
assert "asyncio" not in sys.modules and "wirekafka.testing" not in sys.modules
with wirekafka.Broker(topics=["t"]) as broker:
    broker.produce("t", ["1"])
assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
assert gc.get_threshold() == thresholds and gc.get_freeze_count() == 0
assert not logging.getLogger().handlers and logging.getLogger().level == level
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", check], check=True, cwd=root)


def test_a_broker_needs_no_state_of_the_test_process() -> None:
    assert signal.getsignal(signal.SIGTERM) is not None and logging.getLogger() is not None
    with Broker(host="::1") as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), 5):
            pass


@pytest.mark.parametrize("process", [False, True])
def test_a_reset_restarts_a_crashed_broker(process: bool) -> None:
    with Broker(topics=["t"], process=process) as broker:
        address = broker.bootstrap_servers
        broker.produce("t", ["1"])
        broker.crash()
        broker.reset()
        assert (broker.bootstrap_servers, broker.records("t")) == (address, [])


def test_many_large_records_are_seeded_in_batches_that_fit(broker: Broker) -> None:
    assert broker.produce("t", [b"x" * 1000] * 3000) == list(range(3000))
    assert len(broker.records("t")) == 3000
