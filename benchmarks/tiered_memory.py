"""The memory of a broker with much data in remote storage, while all kinds of offsets are read.

    python -m benchmarks.tiered_memory                  # 100 GiB in segments of 1 GiB
    python -m benchmarks.tiered_memory --gib 1000 --read-gib 8

The objects are sparse: a store in the broker's process makes up the batches of each segment when
they are read. A client reads some GiB from the beginning, then at offsets all over the log.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import psutil

from benchmarks.driver import Connection, batch_of, fetch_frame
from wirekafka.codec.batch import Buffer
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log.epochs import EpochEntry
from wirekafka.metadata.controller.topics import CreateTopics, NewTopic
from wirekafka.server.node import Node, Platform
from wirekafka.server.run import loop_factory, tune_interpreter
from wirekafka.server.tiering.tiering import Tiering
from wirekafka.tiered.remote_segment import (
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)
from wirekafka.tiered.store import ObjectMissing, StoredObject

_TOPIC = "sparse"
_RECORDS, _RECORD_BYTES = 100, 160
"""Of each batch, which has about 16 KiB."""
_SEGMENT_BYTES = 1 << 30
_FETCH_BYTES = 1 << 20
_MOST_MIB = 150


class SparseStore:
    """A `Store` whose segments all consist of the same batch at other offsets."""

    def __init__(self) -> None:
        self.batch = batch_of(_RECORDS, _RECORD_BYTES)
        self.batches = _SEGMENT_BYTES // len(self.batch)
        """In each segment."""
        self.segment_bytes = self.batches * len(self.batch)
        entry = struct.Struct(">II")
        size_bytes = len(self.batch)
        self._index = b"".join(
            entry.pack((number + 1) * _RECORDS - 1, number * size_bytes)
            for number in range(1, self.batches)
        )

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        raise AssertionError("nothing is copied")

    def get(self, key: str) -> Buffer:
        if key.endswith(".index"):
            return bytearray(self._index)  # Each index takes its own memory.
        raise ObjectMissing(key)

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        start_offset = int(key.rpartition("/")[2].partition("-")[0])
        size_bytes = len(self.batch)
        first, last = start // size_bytes, -(-end // size_bytes)
        data = bytearray(self.batch) * (last - first)
        for number in range(first, last):
            at = (number - first) * size_bytes
            data[at : at + 8] = (start_offset + number * _RECORDS).to_bytes(8, "big")
        # As from a real store: one buffer, which is what is kept.
        return memoryview(data)[start - first * size_bytes : end - first * size_bytes]

    def delete(self, key: str) -> None:
        raise AssertionError("nothing is deleted")

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return iter(())


async def _serve(directory: str, segments: int, pipe: Pipe) -> None:
    store = SparseStore()
    config = BrokerConfig.of(
        {
            "log.dirs": directory,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": (
                "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
            ),
            "rsm.config.dir": directory,
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        }
    )
    node = Node(config, Platform(store=store, store_blocks=True))
    await node.start()
    assert node.tiering is not None
    await _make(node, node.tiering, store, segments)
    tune_interpreter()
    end_offset = segments * store.batches * _RECORDS
    pipe.send((node.address[1], end_offset))
    await asyncio.Event().wait()


async def _make(node: Node, tiering: Tiering, store: SparseStore, segments: int) -> None:
    """Let a log end after segments that are in remote storage only."""
    configs = {"remote.storage.enable": "true", "retention.ms": "-1"}
    topic = NewTopic(name=_TOPIC, num_partitions=1, replication_factor=1, configs=configs)
    broker = node.broker
    await broker.controller.submit(CreateTopics([topic]))
    while (_TOPIC, 0) not in tiering.tiers or tiering.tiers[_TOPIC, 0].states is None:
        await asyncio.sleep(0.01)
    partition, now_ms = broker.partition(_TOPIC, 0), broker.clock.now_ms()
    identity = TieredPartition(_TOPIC, partition.topic_id, 0)
    length = store.batches * _RECORDS
    log = partition.log
    log.restart_after_remote(0, segments * length, [EpochEntry(0, 0)], None, now_ms)
    partition.restore_high_watermark(segments * length)
    for number in range(segments):
        segment = RemoteSegment(
            partition=identity,
            id=broker.new_id(),
            start_offset=number * length,
            end_offset=(number + 1) * length,
            max_timestamp_ms=now_ms,
            broker_id=broker.node_id,
            event_ms=now_ms,
            size_bytes=store.segment_bytes,
            epochs=(EpochEntry(0, number * length),),
            has_no_transactions=True,
        )
        await tiering.metadata.publish(segment)
        finished = SegmentUpdate(
            partition=identity,
            id=segment.id,
            broker_id=broker.node_id,
            event_ms=now_ms,
            state=SegmentState.COPY_FINISHED,
        )
        await tiering.metadata.publish(finished)


def _run(directory: str, segments: int, pipe: Pipe) -> None:
    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        runner.run(_serve(directory, segments, pipe))


def _read(connection: Connection, offset: int) -> int:
    """One Fetch; the bytes of the response, which is empty while the store is slow."""
    connection.send(fetch_frame(_TOPIC, offset, _FETCH_BYTES))
    return len(connection.response())


def measure(gib: int, read_gib: int, randoms: int) -> None:
    """Read, and print the memory after each part."""
    segments = gib * (1 << 30) // SparseStore().segment_bytes
    here, there = multiprocessing.get_context("spawn").Pipe()
    with tempfile.TemporaryDirectory() as scratch:
        process = multiprocessing.get_context("spawn").Process(
            target=_run, args=(str(Path(scratch) / "data"), segments, there)
        )
        process.start()
        try:
            port, end_offset = here.recv()
            broker = psutil.Process(process.pid)
            _print("at the beginning", broker)
            connection = Connection("127.0.0.1", port)
            began_s, offset, read_bytes = time.perf_counter(), 0, 0
            step = _FETCH_BYTES // len(SparseStore().batch) * _RECORDS
            while read_bytes < read_gib << 30:
                size_bytes = _read(connection, offset)
                if size_bytes > _FETCH_BYTES // 2:
                    read_bytes += size_bytes
                    offset += step
            elapsed_s = time.perf_counter() - began_s
            _print(f"after {read_gib} GiB at {read_bytes / 1e6 / elapsed_s:.0f} MB/s", broker)
            chosen = random.Random(1)
            for _ in range(randoms):
                _read(connection, chosen.randrange(end_offset))
            found = _print(f"after {randoms} reads at any offset of {gib} GiB", broker)
            connection.close()
            print("within" if found < _MOST_MIB else "over", f"{_MOST_MIB} MiB")
        finally:
            process.kill()
            process.join()


def _print(when: str, broker: psutil.Process) -> float:
    memory = broker.memory_info()
    mib: float = memory.rss / (1 << 20)
    print(f"{mib:5.0f} MiB resident {when}", flush=True)
    return mib


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gib", type=int, default=100)
    parser.add_argument("--read-gib", type=int, default=2)
    parser.add_argument("--randoms", type=int, default=2_000)
    given = parser.parse_args(arguments)
    measure(given.gib, given.read_gib, given.randoms)


if __name__ == "__main__":
    main()
