"""wirekafka and Apache Kafka take turns on one log directory, and clients see no difference."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.apache_kafka import apache_kafka_on, handover, running
from compat_tests.consumer_members import Member, Requests
from compat_tests.visible_state import START_MS, view
from compat_tests.wire import Wire
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from tests.ports import free_ports
from wirekafka.codec.message import Request

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ROUNDS = 3


@pytest.mark.timeout(400)
def test_engines_alternate_on_one_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with live_broker(data) as bootstrap:
        create(bootstrap)
        work(bootstrap, "first")
        before, last = view(bootstrap), "first"
    for number in range(ROUNDS):
        for name, engine in (
            (f"kafka-{number}", apache_kafka_on([data], tmp_path)),
            (f"ours-{number}", live_broker(data)),
        ):
            with engine as bootstrap:
                assert view(bootstrap) == before
                abandon(bootstrap, last)
                work(bootstrap, name)
                before, last = view(bootstrap), name


@pytest.mark.timeout(200)
def test_metadata_names_the_directory_of_each_log(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    data = ",".join(map(str, directories))
    (port,) = free_ports(1)
    serve = [
        sys.executable,
        "-m",
        "wirekafka",
        "serve",
        "--data",
        data,
        "--listen",
        f"127.0.0.1:{port}",
    ]
    with running(serve, tmp_path, port) as bootstrap:
        create(bootstrap)
        _produce(bootstrap, "first")
        before = view(bootstrap)
    placed, assigned = _placed(tmp_path), _assignments(directories[0])
    assert assigned, "with several directories somebody has to say where a replica is"
    with apache_kafka_on(directories, tmp_path) as bootstrap:
        assert view(bootstrap) == before
    assert _assignments(directories[0]) == assigned, "Kafka had nothing to put right"
    assert {name: where for name, where in _placed(tmp_path).items() if name in placed} == placed
    with running(serve, tmp_path, port) as bootstrap:
        assert view(bootstrap) == before
    assert not [*tmp_path.glob("[ab]/*-stray")]


def _placed(above: Path) -> dict[str, str]:
    return {log.name: log.parent.name for log in above.glob("[ab]/*-[0-9]*")}


def _assignments(directory: Path) -> int:
    """The number of metadata records that assign a replica to a directory."""
    logs = sorted(map(str, directory.glob("__cluster_metadata-0/*.log")))
    command = [sys.executable, "-m", "wirekafka", "dump-log", "--json", *logs]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return dumped.stdout.count('"directories": ["')


def test_handover_refuses_a_directory_that_kafka_would_not_start_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert "no meta.properties" in handover(data).stderr
    with live_broker(data) as bootstrap:
        create(bootstrap)
        assert "is in use" in handover(data).stderr
    assert handover(data).returncode == 0
    (data / "notes").mkdir()
    refused = handover(data)
    assert refused.returncode == 1
    assert "notes" in refused.stderr


def create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": "1048576",
    }
    topics = [NewTopic(f"codec-{codec}", 2) for codec in CODECS]
    topics += [
        NewTopic("compacted", 1, config=compacted),
        NewTopic("transactions", 2),
        NewTopic("doomed", 1),
        NewTopic("configured", 3, config={"retention.ms": "-1"}),
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)


def work(bootstrap: str, name: str) -> None:
    """Write everything that the next engine must find in the directory; every round adds to it."""
    _produce(bootstrap, name)
    _transact(bootstrap, name)
    _commit(bootstrap, name)
    _share(bootstrap, name)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(
        ResourceType.TOPIC,
        "configured",
        incremental_configs=[
            ConfigEntry(
                "segment.ms",
                str(3_600_000 + len(name)),
                incremental_operation=AlterConfigOpType.SET,
            )
        ],
    )
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)
    if name == "first":
        for deleted in admin.delete_topics(["doomed"]).values():
            deleted.result(30)
    for made in admin.create_topics([NewTopic(f"made-by-{name}", 1)]).values():
        made.result(30)


def _produce(bootstrap: str, name: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 20,
            }
        )
        for number in range(200):
            producer.produce(
                f"codec-{codec}",
                key=f"{name}-{number % 7}",
                value=f"{name} {number}" * 5,
                timestamp=START_MS + number,
                partition=number % 2,
                headers=[("round", name.encode()), ("empty", None)],
            )
            producer.produce("compacted", key=str(number % 10), value=f"{name} {codec} {number}")
        assert producer.flush(30) == 0


def _transact(bootstrap: str, name: str) -> None:
    """A committed, an aborted and an open transaction; the open one outlives this engine."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        for number in range(50):
            producer.produce(
                "transactions", key=name, value=f"{commits} {number}", partition=number % 2
            )
        producer.flush(30)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    left_open = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"open-{name}",
            "transaction.timeout.ms": 900_000,
        }
    )
    left_open.init_transactions(30)
    left_open.begin_transaction()
    left_open.produce("transactions", key=name, value="undecided", partition=0)
    assert left_open.flush(30) == 0
    del left_open  # The connection stays open, as when a client crashes.


def abandon(bootstrap: str, name: str) -> None:
    """Abort the transaction left open on the other broker by initializing its producer again."""
    Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"open-{name}"}
    ).init_transactions(60)


def _share(bootstrap: str, name: str) -> None:
    """Let static members of a group with server-side assignment return, commit and go away.

    They keep their assignments while they are away, so the next engine needs all of its records.
    """
    wire = Wire.to(bootstrap)
    members = [
        Member(f"{name}-{number}", f"instance-{number}", topics=["codec-none"])
        for number in range(2)
    ]
    members.append(Member(f"{name}-2", "instance-2", regex="codec-(gzip|zst.*)"))
    requests = Requests("shared", {})
    for member in members:
        eventually(lambda member=member: _take(wire, member, requests.join(member, 1)), 30)
    deadline = time.monotonic() + 30
    while any(sum(map(len, member.owned.values())) == 0 for member in members):
        assert time.monotonic() < deadline, members
        for member in members:
            member.owned = member.given
            assert _take(wire, member, requests.beat(member, owned=member.owned))
        time.sleep(0.1)
    for member in members:
        topic = member.topics[0] if member.topics else "codec-gzip"
        commit = requests.commit(member, member.epoch, topic, 0)
        (answer,) = wire.ask(commit, 9).topics
        assert answer.partitions[0].error_code == 0, answer
        assert wire.ask(requests.beat(member, epoch=-2), 1).error_code == 0
    wire.close()


def _take(wire: Wire, member: Member, request: Request) -> bool:
    """Whether the coordinator accepts the heartbeat; it may still be loading."""
    answer = wire.ask(request, 1)
    assert answer.error_code in (0, 14, 15, 16), answer
    member.take(answer)
    return not answer.error_code


def _commit(bootstrap: str, name: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "workers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["codec-none", "codec-gzip"])
    seen = 0
    while seen < 300:
        message = consumer.poll(30)
        assert message is not None, "the group gets its records"
        seen += message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()
    other = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-{name}"})
    other.commit(
        offsets=[TopicPartition("compacted", 0, len(name), metadata=f"by {name}")],
        asynchronous=False,
    )
    other.close()
