"""Kafka's DumpLogSegments reads every file that wirekafka writes, without a complaint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.java_tools import JavaTools
from spark_examples.live_broker import live_broker

COMPLAINTS = re.compile(r"mismatch|corrupt|isvalid: false|exception|error|could not", re.IGNORECASE)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a broker that had transactions, commits in and out of them, and rolls."""
    data = tmp_path_factory.mktemp("dumped") / "data"
    with live_broker(data) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topic = NewTopic("moved", 2, config={"segment.bytes": "1048576"})
        admin.create_topics([topic])["moved"].result(30)
        _move(bootstrap)
    return data


def _move(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "movers"})
    consumer.subscribe(["moved"])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    producer.init_transactions(30)
    for number in range(10):
        producer.begin_transaction()
        for partition in range(2):
            for _ in range(200):
                producer.produce("moved", key=b"k", value=b"v" * 1000, partition=partition)
        consumer.poll(0.1)
        producer.send_offsets_to_transaction(
            [TopicPartition("moved", 0, number)], consumer.consumer_group_metadata(), 30
        )
        if number % 3:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    consumer.commit(offsets=[TopicPartition("moved", 1, 7)], asynchronous=False)
    consumer.close()


def test_transaction_log_is_decoded(directory: Path, java_tools: JavaTools) -> None:
    printed = _dump(
        java_tools, _largest(directory, "__transaction_state-*/*.log"), "--transaction-log-decoder"
    )
    payloads = [json.loads(each) for each in re.findall(r"payload: (\{.*\})", printed)]
    assert len(payloads) > 30, "a start, and three records for each transaction"
    assert '"transactionalId":"mover"' in printed


def test_offsets_log_is_decoded(directory: Path, java_tools: JavaTools) -> None:
    printed = _dump(
        java_tools, _largest(directory, "__consumer_offsets-*/*.log"), "--offsets-decoder"
    )
    assert '"group":"movers"' in printed
    assert printed.count("endTxnMarker: COMMIT") == 6
    assert printed.count("endTxnMarker: ABORT") == 4


def test_every_other_file_is_read(directory: Path, java_tools: JavaTools) -> None:
    logs = sorted(directory.glob("moved-*/*.log"))
    assert len(logs) > 2, "segments were rolled"
    for kind in ("log", "index", "timeindex", "txnindex", "snapshot"):
        files = sorted(directory.glob(f"moved-*/*.{kind}"))
        assert files, kind
        _dump(java_tools, *files, *(["--deep-iteration"] if kind == "log" else []))
    _dump(java_tools, *sorted(directory.glob("moved-*/*index")), "--index-sanity-check")
    metadata = directory / "__cluster_metadata-0"
    _dump(java_tools, *sorted(metadata.glob("*.log")), "--cluster-metadata-decoder")


def _largest(directory: Path, pattern: str) -> Path:
    return max(directory.glob(pattern), key=lambda path: path.stat().st_size)


def _dump(java_tools: JavaTools, *words: Path | str) -> str:
    files = ",".join(str(word) for word in words if isinstance(word, Path))
    options = [word for word in words if isinstance(word, str)]
    done = java_tools.finish("kafka-dump-log", "--files", files, *options)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert not COMPLAINTS.search(said), COMPLAINTS.search(said)
    return done.stdout
