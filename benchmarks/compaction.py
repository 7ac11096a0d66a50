"""Latency of producing, with and without compaction of a topic, in turn.

`python -m benchmarks.compaction [ROUNDS]` prints the median, p90, p99 and p99.9 in ms of an open
loop of 200 requests a second; each is timed from when it was due. Meant for an idle machine.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.wire import Wire
from spark_examples.live_broker import live_broker
from wirekafka.codec.record import Record, encode_batch
from wirekafka.protocol.produce import ProduceRequest

RATE = 200
SECONDS = 6
BATCHES = 600
KEYS = 100_000
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1",
    "segment.bytes": "16777216",
}


def request(topic: str, count: int) -> ProduceRequest:
    records = [
        Record(timestamp=1_780_000_000_000, key=b"%d" % random.randrange(KEYS), value=b"v" * 60)
        for _ in range(count)
    ]
    topic_data = ProduceRequest.TopicProduceData
    partition = topic_data.PartitionProduceData(index=0, records=encode_batch(records))
    return ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[topic_data(name=topic, partition_data=[partition])]
    )


def measure(wire: Wire) -> list[float]:
    one = request("timed", 1)
    latencies = []
    begun_s = time.perf_counter()
    for number in range(SECONDS * RATE):
        due_s = begun_s + number / RATE
        while (early_s := due_s - time.perf_counter()) > 0:
            time.sleep(early_s)
        wire.ask(one, 11)
        latencies.append(time.perf_counter() - due_s)
    latencies.sort()
    return [
        round(1000 * latencies[int(len(latencies) * quantile)], 2)
        for quantile in (0.5, 0.9, 0.99, 0.999)
    ]


def set_ratio(admin: AdminClient, ratio: str) -> None:
    resource = ConfigResource(
        ResourceType.TOPIC,
        "compacted",
        incremental_configs=[
            ConfigEntry(
                "min.cleanable.dirty.ratio", ratio, incremental_operation=AlterConfigOpType.SET
            )
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result(30)


def main(rounds: int) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        live_broker(Path(directory) / "data", "log.cleaner.backoff.ms=200") as bootstrap,
    ):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic("timed", 1, 1), NewTopic("compacted", 1, 1, config=COMPACTED)]
        for made in admin.create_topics(topics).values():
            made.result(30)
        host, _, port = bootstrap.rpartition(":")
        wire = Wire((host, int(port)))
        dirt = [request("compacted", 1000) for _ in range(20)]
        for _ in range(rounds):
            for number in range(BATCHES):
                wire.ask(dirt[number % len(dirt)], 11)
            print("without", *measure(wire), flush=True)
            set_ratio(admin, "0.01")
            time.sleep(0.3)
            print("with   ", *measure(wire), flush=True)
            set_ratio(admin, "1")
            time.sleep(SECONDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rounds", type=int, nargs="?", default=5, help="with and without")
    main(parser.parse_args().rounds)
