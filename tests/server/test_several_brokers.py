"""Several brokers of one machine as processes: in service, killed, stopped and continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tests.eventually import eventually
from tests.server.several_brokers import SeveralBrokers
from wirekafka.cli.brokers import CONTROLLER_ID

_PARTITIONS = 6


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("several") / "data"


@pytest.fixture(scope="module")
def brokers(data: Path) -> Iterator[SeveralBrokers]:
    with SeveralBrokers(data, 3) as brokers:
        yield brokers


def create(bootstrap: str, name: str, partitions: int, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(name, partitions, replicas)])
    created[name].result(30)


def leaders(bootstrap: str, topic: str) -> Counter[int]:
    """How many partitions of the topic each broker leads."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, 20).topics[topic]
    return Counter(partition.leader for partition in found.partitions.values())


def stored(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """The values of each partition, in order, up to the ends of now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    partitions = consumer.list_topics(topic, 20).topics[topic].partitions
    found: dict[int, list[bytes]] = {id: [] for id in partitions}
    ends = {
        id: consumer.get_watermark_offsets(TopicPartition(topic, id), 30)[1] for id in partitions
    }
    consumer.assign([TopicPartition(topic, id, 0) for id in partitions])

    def are_read() -> bool:
        for message in consumer.consume(1000, 0.1):
            assert message.error() is None, message.error()
            found[message.partition()].append(message.value())
        return all(len(found[id]) >= ends[id] for id in partitions)

    eventually(are_read, every_s=0)
    consumer.close()
    return found


class Load:
    """An idempotent producer with acks=all, in a thread of its own, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str):
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._topic = topic
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop when all is acknowledged."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def give_up(self) -> None:
        """Stop at once; what is not acknowledged fails."""
        self._stopping.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(1)

    def await_progress(self, records: int = 300) -> None:
        wanted = len(self.acknowledged) + records
        eventually(lambda: len(self.acknowledged) >= wanted, timeout_s=60)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.002):
            for _ in range(5):
                self._producer.produce(
                    self._topic,
                    b"%d" % number,
                    partition=number % _PARTITIONS,
                    on_delivery=self._delivered,
                )
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(message.value())


def test_new_topics_are_spread_over_all_brokers(brokers: SeveralBrokers) -> None:
    brokers.await_all()
    # An address of any broker is enough, for each of two client libraries.
    for (host, port), topic in zip(brokers.addresses, "abc", strict=True):
        producer = KafkaProducer(bootstrap_servers=f"{host}:{port}")
        producer.send(topic, b"v").get(30)
        producer.close()
        assert leaders(f"{host}:{port}", topic) == {1: 1, 2: 1, 3: 1}
    consumer = KafkaConsumer(
        "a",
        bootstrap_servers=brokers.bootstrap.split(","),
        group_id="g",
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    assert next(consumer).value == b"v"
    consumer.close()
    topics = AdminClient({"bootstrap.servers": brokers.bootstrap}).list_topics(timeout=20).topics
    partitions = topics["__consumer_offsets"].partitions.values()
    assert {len(partition.replicas) for partition in partitions} == {3}


def test_killed_nodes_are_back_within_seconds_and_nothing_acknowledged_is_lost(
    brokers: SeveralBrokers,
) -> None:
    create(brokers.bootstrap, "t", _PARTITIONS, 3)
    brokers.await_all()
    load = Load(brokers.bootstrap, "t")
    taken = {}
    try:
        for id in (1, 2, 3, CONTROLLER_ID):
            load.await_progress()
            killed = brokers.children()[id]
            killed.kill()
            began = time.monotonic()
            load.await_progress()  # Meanwhile the others serve, once they lead its partitions.
            psutil.wait_procs([killed], 10)
            eventually(lambda id=id: id in brokers.children(), timeout_s=30)
            if id == CONTROLLER_ID:
                create(brokers.bootstrap, "created-after-the-kill", 3, 3)
            brokers.await_all()
            taken[id] = round(time.monotonic() - began, 1)
    finally:
        load.stop()
    print(f"seconds from the kill until every broker lists all: {taken}")
    assert max(taken.values()) < 20, taken
    assert load.failed == []
    found = stored(brokers.bootstrap, "t")
    values = [int(value) for each in found.values() for value in each]
    assert len(values) == len(set(values)), "no record twice"
    assert set(map(int, load.acknowledged)) <= set(values), "every acknowledged record"
    for partition, each in found.items():
        numbers = [int(value) for value in each]
        assert numbers == sorted(numbers), f"partition {partition} in order"
        assert {number % _PARTITIONS for number in numbers} == {partition}
    assert "was ended by SIGKILL; restart in 0.1 s" in brokers.log


def test_ctrl_c_stops_all_cleanly_and_more_brokers_continue(
    brokers: SeveralBrokers, data: Path
) -> None:
    before = stored(brokers.bootstrap, "t")
    load = Load(brokers.bootstrap, "t")
    load.await_progress()
    began = time.monotonic()
    assert brokers.stop(signal.SIGINT) == 0, brokers.log
    taken_s = time.monotonic() - began
    load.give_up()
    print(f"stopped under load within {taken_s:.2f} s")
    assert taken_s < 5
    nodes = ["broker1", "broker2", "broker3", "controller"]
    assert sorted(path.name for path in data.iterdir()) == nodes
    for node in nodes:
        assert (data / node / ".kafka_cleanshutdown").exists(), node
        assert not (data / node / ".lock").exists(), node
    with SeveralBrokers(data, 4) as later:
        later.await_all()
        assert "ecover" not in later.log, "no log had to be recovered"
        assert leaders(later.bootstrap, "t").keys() <= {1, 2, 3}
        create(later.bootstrap, "on-four", 8, 1)
        assert leaders(later.bootstrap, "on-four") == {1: 2, 2: 2, 3: 2, 4: 2}
        after = stored(later.bootstrap, "t")
        for partition, values in before.items():
            assert after[partition][: len(values)] == values
        written = {value for values in after.values() for value in values}
        assert written.issuperset(load.acknowledged)
        assert later.stop() == 0
    with SeveralBrokers(data, 3) as fewer:
        assert fewer.process.wait(20) == 1
        [line] = fewer.log.strip().splitlines()
        assert f"{data} has a broker 4 with 2 replicas" in line


def test_brokers_stop_cleanly_when_their_parent_is_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with SeveralBrokers(data, 2) as brokers:
        brokers.await_all()
        create(brokers.bootstrap, "t", 4, 2)
        children = brokers.children()
        brokers.process.kill()
        gone, alive = psutil.wait_procs(children.values(), timeout=30)
        assert len(gone) == 3 and not alive
    for node in ("broker1", "broker2", "controller"):
        assert (data / node / ".kafka_cleanshutdown").exists(), node
    handed_over = subprocess.run(
        [sys.executable, "-m", "wirekafka", "handover", str(data / "broker1")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert handed_over.returncode == 1
    assert "node 1 is one of a cluster with the controllers [3000]" in handed_over.stderr


def test_a_node_that_cannot_start_is_named_in_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broken = data / "broker2"
    broken.mkdir(parents=True)
    (broken / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=2\n")
    with SeveralBrokers(data, 2) as brokers:
        assert brokers.process.wait(60) == 1
        assert brokers.ready == ""
        [line] = [line for line in brokers.log.splitlines() if "wirekafka: " in line][:1]
        assert line.startswith("broker 2: wirekafka: ") and str(broken) in line
        assert brokers.log.splitlines()[-1] == "wirekafka: broker 2 did not start"


def test_a_node_that_cannot_start_again_is_retried_after_growing_pauses(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with SeveralBrokers(data, 1) as brokers:
        brokers.await_all()
        properties = data / "broker1" / "meta.properties"
        before = properties.read_text()
        properties.write_text(before.replace("node.id=1", "node.id=7"))
        brokers.children()[1].kill()
        eventually(lambda: "broker 1 has ended with status 1; restart in 0.4 s" in brokers.log)
        assert "broker 1: wirekafka: " in brokers.log
        properties.write_text(before)
        eventually(lambda: "broker 1 is in service again" in brokers.log, timeout_s=60)
        assert brokers.stop() == 0


def test_a_second_signal_kills_the_nodes(tmp_path: Path) -> None:
    with SeveralBrokers(tmp_path / "data", 1) as brokers:
        child = brokers.children()[1]
        child.suspend()  # It cannot stop.
        os.kill(brokers.process.pid, signal.SIGTERM)
        eventually(lambda: "supervisor: Stopping" in brokers.log)
        os.kill(brokers.process.pid, signal.SIGTERM)
        assert brokers.process.wait(30) == 1
        assert "Not stopped cleanly: " in brokers.log and "broker 1" in brokers.log
