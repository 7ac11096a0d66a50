"""Readers of the files of a broker that writes, rolls, compacts, tiers and deletes meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock

import pytest

from tests.eventually import eventually
from tests.raw_client import RawClient
from tests.repetitions import repetitions
from tests.server.serving import Serving
from wirekafka.codec.record import Record, encode_batch
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.reader import Log

RECORDS = repetitions("WIREKAFKA_READ_RECORDS", usual=8_000, thorough=25_000)
"""In each of four topics."""
READERS = repetitions("WIREKAFKA_READERS", usual=5, thorough=20)
IN_A_BATCH = 100
KEYS = 40
POLL_S = 0.05
START_MS = 1_700_000_000_000
SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "10",
    "remote.log.manager.task.interval.ms": "50",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
TOPICS = {
    "plain": {"segment.bytes": "1048576", "retention.ms": "-1"},
    "compacted": {
        "segment.bytes": "1048576",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
    },
    "tiered": {
        "segment.bytes": "1048576",
        "remote.storage.enable": "true",
        "local.retention.bytes": "1",
        "local.retention.ms": "-1",
        "retention.ms": "-1",
    },
    "retained": {"segment.bytes": "1048576", "retention.bytes": "2000000", "retention.ms": "-1"},
}


class Observed:
    """What one reader has seen of a topic."""

    def __init__(self, topic: str):
        self.topic = topic
        self.offsets: list[int] = []
        self.latest: dict[bytes, int] = {}
        self.beyond = 0
        """The furthest that a reader was beyond what the broker says is committed."""


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    options = [each for pair in SETTINGS.items() for each in ("--set", "=".join(pair))]
    started = Serving(tmp_path / "data", "--tier", f"file://{tmp_path}/tier", *options)
    yield started
    started.stop()


@pytest.mark.timeout(600)
def test_readers_miss_nothing_while_a_broker_changes_its_files(
    serving: Serving, tmp_path: Path
) -> None:
    with RawClient(serving.port) as client, ThreadPoolExecutor(READERS) as pool:
        for topic, configs in TOPICS.items():
            _create(client, topic, configs)
        lock, asking = Lock(), RawClient(serving.port)

        def committed(topic: str) -> int:
            with lock:
                return _end(asking, topic)

        names = list(TOPICS)
        futures = [
            pool.submit(_follow, tmp_path, names[number % len(names)], committed)
            for number in range(READERS)
        ]
        for base_offset in range(0, RECORDS, IN_A_BATCH):
            for topic in TOPICS:
                _produce(client, topic, base_offset)
        for future in futures:
            _check(future.result(timeout=500))
    data, tier = tmp_path / "data", tmp_path / "tier"
    assert len(list((data / "plain-0").glob("*.log"))) > 1
    assert list(tier.rglob("*.rsm-manifest"))
    assert min(int(each.stem) for each in (data / "tiered-0").glob("*.log")) > 0


def _check(seen: Observed) -> None:
    assert seen.beyond == 0, seen.topic
    if seen.topic in ("plain", "tiered"):
        assert seen.offsets == list(range(RECORDS)), seen.topic
    assert seen.offsets == sorted(set(seen.offsets)), seen.topic
    assert seen.offsets[-1] == RECORDS - 1
    if seen.topic == "compacted":
        last = {b"%d" % (each % KEYS): each for each in range(RECORDS)}
        assert seen.latest == last


def _follow(root: Path, topic: str, committed: Callable[[str], int]) -> Observed:
    """Read what is new again and again, until all that was written has been read."""
    seen, never = Observed(topic), Event()
    on_error = "skip" if topic == "retained" else "raise"
    tier = f"file://{root}/tier" if topic == "tiered" else None
    with Log.open(root / "data", tier=tier) as log:
        eventually(lambda: topic in log.topics())
        position = 0
        while position < RECORDS:
            _, end = log.offsets(topic, 0)
            if end <= position:
                never.wait(POLL_S)
                continue
            seen.beyond = max(seen.beyond, end - committed(topic))
            found = log.batches(
                topic,
                start={0: position},
                end={0: end},
                columns=["key", "value", "offset"],
                on_error=on_error,  # type: ignore[arg-type]
            )
            for batch in found:
                offsets = batch.column("offset").to_pylist()
                values = batch.column("value").to_pylist()
                assert [int(value[:10]) for value in values] == offsets
                seen.offsets += offsets
                seen.latest.update(zip(batch.column("key").to_pylist(), offsets, strict=True))
            position = end
    return seen


def _produce(client: RawClient, topic: str, base_offset: int) -> None:
    records = encode_batch(
        [
            Record(
                timestamp=START_MS + offset,
                key=b"%d" % (offset % KEYS),
                value=b"%010d" % offset + bytes(300),
            )
            for offset in range(base_offset, base_offset + IN_A_BATCH)
        ]
    )
    data = ProduceRequest.TopicProduceData(name=topic)
    data.partition_data = [data.PartitionProduceData(index=0, records=records)]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    answer = client.call(request, 9).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, base_offset)


def _create(client: RawClient, name: str, configs: dict[str, str]) -> None:
    kind = CreateTopicsRequest.CreatableTopic
    topic = kind(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[
            kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
        ],
    )
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 6)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


def _end(client: RawClient, name: str) -> int:
    kind = ListOffsetsRequest.Topic
    topic = kind(name=name, partitions=[kind.Partition(partition_index=0, timestamp=-1)])
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 9)
    offset: int = answer.topics[0].partitions[0].offset
    return offset
