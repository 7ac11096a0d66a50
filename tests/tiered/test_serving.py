"""`wirekafka serve --tier`: a process that tiers a topic in a directory, and is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.raw_client import RawClient
from tests.server.test_monitoring import Monitored
from wirekafka.codec.batch import batches
from wirekafka.codec.record import Record, encode_batch
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.produce import ProduceRequest

_RECORDS = 60
"""Of 70 kB, so that 14 fill a segment of 1 MiB."""
_LOCAL_START, _LAST_TIERED = -4, -5


@pytest.mark.timeout(120)
def test_a_process_serves_what_it_has_tiered_after_a_kill(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    options = (
        "--tier",
        f"file://{tier}",
        "--set",
        "remote.log.manager.task.interval.ms=100",
        "--set",
        "log.retention.check.interval.ms=100",
        "--set",
        "rlmm.config.remote.log.metadata.topic.num.partitions=1",
    )
    served = Monitored(tmp_path / "data", *options)
    with served.serving, RawClient(served.serving.port) as client:
        _create(client)
        _produce(client, _RECORDS)
        eventually(lambda: _offset(client, _LOCAL_START) == 56)
        assert _offset(client, _LAST_TIERED) == 55
        assert _read(client) == _RECORDS
        copied = "kafka_server_brokertopicmetrics_remotecopybytes_total"
        assert served.value(copied, topic="t") == served.value(copied) > 56 * 70_000
        assert (
            served.value("kafka_server_brokertopicmetrics_remotelogmetadatacount", topic="t") == 4
        )
        manager = "kafka_log_remote_remotelogmanager_"
        times = f"{manager}remotelogreaderfetchrateandtimems"
        assert served.value(times, quantile="0.99") > 0
        assert served.value(f"{manager}remotelogmanagertasksavgidle_percent") == 1
        pool = "kafka_log_remote_remotestoragethreadpool_remotelogreader"
        assert served.value(f"{pool}avgidle_percent") > 0
        assert served.value(f"{pool}taskqueuesize") == 0
        of_log = {"topic": "t", "partition": "0"}
        assert served.value(f"{manager}retentionsizein_percent", **of_log) == 10
        assert served.value(f"{manager}localretentionsizein_percent", **of_log) > 28_000_000
        _check(served, tier)
        served.serving.process.kill()
        served.serving.process.wait()
    assert len(list(tier.rglob("*.rsm-manifest"))) == 4

    served = Monitored(tmp_path / "data", *options)
    with served.serving, RawClient(served.serving.port) as client:
        eventually(lambda: _offset(client, _LAST_TIERED) == 55)
        assert _read(client) == _RECORDS


def test_without_tiered_storage_nothing_of_it_is_imported() -> None:
    code = (
        "import sys, wirekafka.server.run, wirekafka.server.monitoring.service\n"
        "from wirekafka.apis.shared import registry; registry.load()\n"
        "print([name for name in sys.modules if name.startswith("
        "('wirekafka.tiered', 'wirekafka.server.tiering', 'obstore'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def _check(served: Monitored, tier: Path) -> None:
    """The command finds the segments, an object of none of them, and one that is missing."""
    bootstrap = ("--bootstrap-server", f"127.0.0.1:{served.serving.port}")
    store = (*bootstrap, "--tier", f"file://{tier}")
    [row] = json.loads(_run("status", *bootstrap, "--json"))
    assert (row["segments"], row["start"], row["end"], row["unfinished"]) == (4, 0, 56, 0)
    assert json.loads(_run("verify", *store, "--json")) == []
    (tier / "t-x").mkdir()
    (tier / "t-x" / "left.log").write_bytes(b"left")
    assert "t-x/left.log" in _run("scrub", *store)
    assert "deleted 1 objects" in _run("scrub", *store, "--fix")
    assert not (tier / "t-x" / "left.log").exists()
    manifest = min(tier.rglob("*.rsm-manifest"))
    kept = manifest.read_bytes()
    manifest.unlink()
    [hole] = json.loads(_run("verify", *store, "--json", status=1))
    assert (hole["problem"], hole["start"]) == ("hole", 0)
    manifest.write_bytes(kept)


def _run(*arguments: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "wirekafka", "tier", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def _create(client: RawClient) -> None:
    configs = {
        "remote.storage.enable": "true",
        "segment.bytes": "1048576",
        "local.retention.bytes": "1",
        "retention.ms": "-1",
        "retention.bytes": "42000000",
        "local.retention.ms": "-1",
    }
    topic = CreateTopicsRequest.CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[
            CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name=name, value=value)
            for name, value in configs.items()
        ],
    )
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 6)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


def _produce(client: RawClient, count: int) -> None:
    for number in range(count):
        records = encode_batch([Record(timestamp=1_700_000_000_000 + number, value=bytes(70_000))])
        topic = ProduceRequest.TopicProduceData(name="t")
        topic.partition_data = [topic.PartitionProduceData(index=0, records=records)]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0


def _offset(client: RawClient, timestamp: int) -> int:
    kind = ListOffsetsRequest.Topic
    topic = kind(name="t", partitions=[kind.Partition(partition_index=0, timestamp=timestamp)])
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 9)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def _read(client: RawClient) -> int:
    """Read all records from the beginning; how many there are."""
    offset, kind = 0, FetchRequest.Topic
    while offset < _RECORDS:
        part = kind.Partition(partition=0, fetch_offset=offset, partition_max_bytes=300_000)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[kind(topic="t", partitions=[part])],
        )
        found = client.call(request, 11).responses[0].partitions[0]
        assert found.error_code == 0
        for _, header in batches(memoryview(bytes(found.records or b""))):
            if header.base_offset >= offset:
                assert header.base_offset == offset
                offset = header.end_offset
    return offset
