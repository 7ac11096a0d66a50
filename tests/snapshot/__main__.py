"""`python -m tests.snapshot`: snapshots of a node under load, each opened and checked.

Records, transactions, commits of groups, compaction and changing topics go on meanwhile. Every
tenth snapshot is opened by Apache Kafka too. Prints figures as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from compat_tests.apache_kafka import apache_kafka_on
from spark_examples.live_broker import live_broker
from tests.snapshot.checks import check_by_kafka, check_by_wirekafka, check_extent
from tests.snapshot.load import Load
from wirekafka.log.files import RealDisk
from wirekafka.snapshot.manifest import Manifest, read_manifest

SETTINGS = (
    "log.segment.bytes=8388608",
    "log.cleaner.backoff.ms=500",
    "log.retention.check.interval.ms=1000",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.snapshot", description=__doc__)
    parser.add_argument("--snapshots", type=int, default=200)
    parser.add_argument("--rate", type=int, default=50_000, help="records a second")
    parser.add_argument("--kafka-every", type=int, default=10, help="0: never")
    parser.add_argument("--partitions", type=int, default=0, help="of a further, idle topic")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        above = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="snapshots-")))
        bootstrap = stack.enter_context(live_broker(above / "data", *SETTINGS))
        load = Load(bootstrap, chosen.rate, idle_partitions=chosen.partitions)
        stack.callback(load.stop)
        load.start()
        figures = []
        for number in range(chosen.snapshots):
            figures.append(_one(above, load, number, chosen.kafka_every))
        sent, seconds = load.sent, load.seconds
    print(
        json.dumps(
            {
                "snapshots": len(figures),
                "records_per_s": round(sent / seconds),
                "held_us_max": max(each["held_us"] for each in figures),
                "held_us_median": statistics.median(each["held_us"] for each in figures),
                "seconds_max": max(each["seconds"] for each in figures),
                "seconds_median": statistics.median(each["seconds"] for each in figures),
                "bytes_max": max(each["bytes"] for each in figures),
                "own_bytes_max": max(each["own_bytes"] for each in figures),
                "by_kafka": sum(each["by_kafka"] for each in figures),
            }
        )
    )


def _one(above: Path, load: Load, number: int, kafka_every: int) -> dict[str, float]:
    target = above / f"snapshot-{number}"
    time.sleep(0.2)  # So that each has records of its own.
    began = time.monotonic()
    command = [sys.executable, "-m", "wirekafka", "snapshot", "create", "--json"]
    done = subprocess.run(
        [*command, str(above / "data"), str(target)], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    manifest = read_manifest(RealDisk(), str(target))
    check_extent(manifest, load)
    check_by_wirekafka(target, manifest)
    by_kafka = bool(kafka_every) and number % kafka_every == 0
    if by_kafka:
        _open_by_kafka(above, target, manifest)
    shutil.rmtree(target)
    print(f"{number}: {manifest.held_us} µs, {seconds:.2f} s", file=sys.stderr, flush=True)
    return {
        "held_us": manifest.held_us,
        "seconds": round(seconds, 3),
        "bytes": made["size_bytes"],
        "own_bytes": made["copied_bytes"],
        "by_kafka": by_kafka,
    }


def _open_by_kafka(above: Path, target: Path, manifest: Manifest) -> None:
    with apache_kafka_on([target], above) as bootstrap:
        check_by_kafka(bootstrap, manifest)


if __name__ == "__main__":
    main()
