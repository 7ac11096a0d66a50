"""The duration of recovery after a kill: `python -m benchmarks.recovery [MB]`.

Four logs, from the page cache; by the broker itself, and by as many processes as
num.recovery.threads.per.data.dir asks for by default. Seconds for each GB, the start of the
processes included.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.driver import batch_of
from wirekafka.codec.batch import PREFIX
from wirekafka.codec.record import BatchOptions, decode_records, encode_batch
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories.log_directory import LogDirectory, NewLog
from wirekafka.log.directories.recovery_job import Recover
from wirekafka.log.files import RealDisk
from wirekafka.server.background import recovery_pool


class Shape(NamedTuple):
    """The records and batches of a log."""

    records: int
    """In each batch."""
    record_bytes: int
    is_idempotent: bool = False


SHAPES = (
    Shape(1, 200),
    Shape(1, 200, is_idempotent=True),
    Shape(1, 1000),
    Shape(75, 200),
    Shape(100, 10_000),
)
LOGS = 4
ROUNDS = 3
APPENDED_BYTES = 1 << 20


def main(megabytes: int) -> None:
    processes = BrokerConfig.of({}).num_recovery_threads_per_data_dir
    several = partial(recovery_pool.recover, processes=processes)
    print(f"s/GB of {LOGS} logs with {megabytes} MB together, best of {ROUNDS}")
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as directory:
            size_bytes = fill(Path(directory), shape, megabytes)
            alone, shared = (
                min(recovered(Path(directory), recover) for _ in range(ROUNDS))
                for recover in (None, several)
            )
        kind = "idempotent" if shape.is_idempotent else "plain"
        print(
            f"{shape.records:4} × {shape.record_bytes:6} bytes in a batch, {kind:10}:"
            f" one process {alone / size_bytes * 1e9:.2f},"
            f" {processes} processes {shared / size_bytes * 1e9:.2f}",
            flush=True,
        )


def fill(path: Path, shape: Shape, megabytes: int) -> int:
    """Write logs as a killed broker leaves them; returns the number of bytes."""
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: TopicConfig(), 0)
    wanted_bytes = megabytes * 1_000_000 // LOGS
    for partition in range(LOGS):
        log = directory.create(
            NewLog(topic="t", topic_id=bytes(16), partition=partition, config=TopicConfig()), 0
        )
        batches = _batches(shape)
        while log.size_bytes < wanted_bytes:
            number = APPENDED_BYTES // (shape.records * shape.record_bytes) + 1
            log.append_as_follower(b"".join(islice(batches, number)), 0)
    size_bytes = sum(log.size_bytes for log in directory.logs.values())
    directory.release()
    return size_bytes


def _batches(shape: Shape) -> Iterator[bytes]:
    """One behind the other without end; those of an idempotent producer with its sequences."""
    batch = batch_of(shape.records, shape.record_bytes)
    records = decode_records(batch)
    for first in count(0, shape.records):
        if shape.is_idempotent:
            yield encode_batch(
                records,
                options=BatchOptions(
                    base_offset=first,
                    leader_epoch=0,
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=first,
                ),
            )
        else:
            yield PREFIX.pack(first, len(batch) - 12, 0) + batch[16:]


def recovered(path: Path, recover: Recover | None) -> float:
    """The duration of recovering all logs."""
    start = time.perf_counter()
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: TopicConfig(), 0, recover)
    elapsed_s = time.perf_counter() - start
    assert len(directory.logs) == LOGS and not directory.offline
    directory.release()
    return elapsed_s


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("megabytes", type=int, nargs="?", default=500, help="of the logs together")
    main(parser.parse_args().megabytes)
