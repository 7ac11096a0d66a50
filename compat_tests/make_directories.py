"""Makes the log directories of `tests/directories` with real Kafka releases, one after another.

    python -m compat_tests.make_directories [VERSION ...]

Run by hand, when a release is added: it downloads the broker of each version.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, running
from tests import kafka_jars
from tests.directories import contents
from tests.eventually import eventually
from tests.ports import free_ports

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={directory}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def make(version: str) -> Path:
    """Write the archive of one Kafka release, and return its path."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        port, controller_port = free_ports(2)
        properties = directory / "server.properties"
        properties.write_text(
            SMALL_CLEANER
            + PROPERTIES.format(port=port, controller_port=controller_port, directory=directory)
        )
        classes = kafka_jars.class_path(kafka_jars.broker_jars(version))
        java = [kafka_jars.java(), *SMALL_JVM, "-cp", classes]
        subprocess.run(
            [
                *java,
                "kafka.tools.StorageTool",
                "format",
                "-t",
                contents.CLUSTER_ID,
                "-c",
                str(properties),
            ],
            check=True,
            capture_output=True,
        )
        with running([*java, "kafka.Kafka", str(properties)], directory, port) as bootstrap:
            _fill(bootstrap)
        return _archived(directory / "data", version)


def _fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = {
        contents.EVENTS: contents.EVENTS_CONFIG,
        contents.TABLE: contents.TABLE_CONFIG,
        contents.LEDGER: contents.LEDGER_CONFIG,
    }
    for name, config in topics.items():
        eventually(lambda name=name, config=config: _create(admin, name, config), timeout_s=120)
    _produce_events(bootstrap)
    table = Producer({"bootstrap.servers": bootstrap})
    for key, value in contents.TABLE_RECORDS:
        table.produce(contents.TABLE, value, key, partition=0)
        table.flush(30)
    _produce_ledger(bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": contents.GROUP})
    place = TopicPartition(
        contents.EVENTS, 0, contents.GROUP_OFFSET, contents.GROUP_METADATA.rstrip("\0")
    )
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


def _create(admin: AdminClient, name: str, config: dict[str, str]) -> bool:
    """Create the topic; False if it is missing: old releases lose requests while starting."""
    topic = NewTopic(name, 1, 1, config=config)
    try:
        admin.create_topics([topic], request_timeout=5)[name].result(10)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True


def _produce_events(bootstrap: str) -> None:
    events = iter(contents.events())
    for codec in contents.CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 1000}
        )
        for _ in range(contents.RECORDS_PER_CODEC):
            timestamp, key, value = next(events)
            producer.produce(contents.EVENTS, value, key, partition=0, timestamp=timestamp)
        producer.flush(30)


def _produce_ledger(bootstrap: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": contents.TRANSACTIONAL_ID}
    )
    producer.init_transactions(60)
    for values, ends in (
        (contents.COMMITTED[:2], producer.commit_transaction),
        (contents.ABORTED, producer.abort_transaction),
        (contents.COMMITTED[2:], producer.commit_transaction),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(contents.LEDGER, value, partition=0)
        # Without the flush an abort would drop the records before they are sent.
        producer.flush(30)
        ends(60)


def _archived(data: Path, version: str) -> Path:
    target = contents.archive(version)
    with tarfile.open(target, "w:xz", preset=9) as archive:
        archive.add(data, "data")
    return target


if __name__ == "__main__":
    for wanted in sys.argv[1:] or contents.VERSIONS:
        made = make(wanted)
        print(f"{made.name}: {made.stat().st_size} bytes", flush=True)
