"""What recovery takes after a kill: `python -m benchmarks.recovery [MB]`.

Four logs, from the page cache; by the broker itself, and by as many processes as
num.recovery.threads.per.data.dir asks for by default. Seconds for each GB, the start of the
processes included.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.driver import batch_of
from wirekafka.codec.batch import PREFIX, read_header
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.files import RealDisk
from wirekafka.log.log_directory import LogDirectory, NewLog
from wirekafka.log.recovery_job import Recover
from wirekafka.server import recovery_pool

SHAPES = ((1, 200), (1, 1000), (75, 200), (100, 10_000))
"""Records in a batch, and bytes in a record."""
LOGS = 4
ROUNDS = 3
APPENDED_BYTES = 1 << 20


def main(megabytes: int) -> None:
    processes = BrokerConfig.of({}).num_recovery_threads_per_data_dir
    several = partial(recovery_pool.recover, processes=processes)
    print(f"s/GB of {LOGS} logs with {megabytes} MB together, best of {ROUNDS}")
    for records, record_bytes in SHAPES:
        with tempfile.TemporaryDirectory() as directory:
            size_bytes = fill(Path(directory), records, record_bytes, megabytes)
            alone, shared = (min(recovered(Path(directory), recover) for _ in range(ROUNDS))
                             for recover in (None, several))
        print(f"{records:4} × {record_bytes:6} bytes in a batch: one process"
              f" {alone / size_bytes * 1e9:.2f}, {processes} processes"
              f" {shared / size_bytes * 1e9:.2f}", flush=True)


def fill(path: Path, records: int, record_bytes: int, megabytes: int) -> int:
    """Logs as a killed broker leaves them; how many bytes."""
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: TopicConfig(), 0)
    batch = batch_of(records, record_bytes)
    delta, length = read_header(batch).last_offset_delta, len(batch) - 12
    wanted_bytes = megabytes * 1_000_000 // LOGS
    for partition in range(LOGS):
        log = directory.create(
            NewLog(topic="t", topic_id=bytes(16), partition=partition, config=TopicConfig()), 0)
        while log.size_bytes < wanted_bytes:
            count = APPENDED_BYTES // len(batch) + 1
            log.append_as_follower(b"".join(
                PREFIX.pack(log.end_offset + number * (delta + 1), length, 0) + batch[16:]
                for number in range(count)), 0)
    size_bytes = sum(log.size_bytes for log in directory.logs.values())
    directory.release()
    return size_bytes


def recovered(path: Path, recover: Recover | None) -> float:
    """How long all is gone through."""
    start = time.perf_counter()
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: TopicConfig(), 0, recover)
    elapsed_s = time.perf_counter() - start
    assert len(directory.logs) == LOGS and not directory.offline
    directory.release()
    return elapsed_s


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("megabytes", type=int, nargs="?", default=500, help="of the logs together")
    main(parser.parse_args().megabytes)
