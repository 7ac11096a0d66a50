"""Cases with librdkafka and with Kafka's own Java tools."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from benchmarks import raw
from benchmarks.driver import Load, RequestFailed, create_topic
from benchmarks.measure import (
    CPU_PER_MB,
    JOIN,
    MB_RATE,
    RATE,
    RATIO,
    RESIDENT,
    Meter,
    Metrics,
    latencies,
)
from benchmarks.peers import Target
from compat_tests.java_tools import JavaTools
from tests import kafka_jars

_TOPIC = "librdkafka"
_QUEUED = 100_000
_COMMIT_EVERY_S = 0.1
_TURNS = 4
# Little is queued when it is time to commit, or a commit would wait for seconds.
_TRANSACTED = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "queue.buffering.max.kbytes": 8192,
}
_DELIVERY_LIMIT_S = 60
_JAVA_TRANSACTED_PER_S = 50_000
_PARTITIONS_LIMIT_S = 10
_VALUES = 100
_SILENT = {"log_level": 0}
"""librdkafka logs nothing: errors are raised, and do not matter after an interruption."""

Settings = Mapping[str, Any]


def produce(
    target: Target, seconds: float, settings: Settings, record_bytes: int, per_request: int = 0
) -> Metrics:
    """As fast as it goes, for a time. `per_request` is how many records go in one, where known."""
    producer = _producer(target, settings)
    values = _texts(record_bytes)
    create_topic(target.host, target.port, _TOPIC)
    producer.produce(_TOPIC, values[0])
    _flush(producer)
    meter = Meter(target)
    count = _produce_until(producer, values, time.perf_counter() + seconds)
    _flush(producer)
    return meter.metrics(
        records=count,
        size_bytes=count * record_bytes,
        requests=count / per_request if per_request else 0,
    )


def produce_unacknowledged(target: Target, seconds: float, per_request: int) -> Metrics:
    """acks=0; done when the end offset shows that all records have arrived."""
    settings = {
        "acks": 0,
        "batch.num.messages": per_request,
        "linger.ms": 0 if per_request == 1 else 5,
        "queue.buffering.max.messages": 5000 if per_request == 1 else _QUEUED,
    }
    with closing(_Watcher(target, _TOPIC)) as watcher:
        _create_with_first(target)  # Where there is no leader yet, records would be lost.
        producer = _producer(target, settings)
        end_offset = watcher.end_offset()
        meter = Meter(target)
        count = _produce_until(producer, _texts(200), time.perf_counter() + seconds)
        _flush(producer)
        while watcher.end_offset() < end_offset + count:
            if meter.elapsed_s > seconds + _DELIVERY_LIMIT_S:
                raise RequestFailed("not all unacknowledged records arrived")
            time.sleep(0.002)
        return meter.metrics(records=count, requests=count / per_request)


def consume(target: Target, seconds: float, settings: Settings | None = None) -> Metrics:
    """One consumer reads a topic from its start; librdkafka itself is the limit."""
    raw.fill(target, 100e6)
    own = {"auto.offset.reset": "earliest", **(settings or {})}
    consumer = _consumer(target, "reader", own)
    with closing(consumer):
        consumer.subscribe([raw.FILLED])
        _some(consumer)
        meter = Meter(target)
        count = 0
        while meter.elapsed_s < seconds:
            records = consumer.consume(10_000, 0.1)
            if not records and count:
                break  # The end of the topic.
            count += len(records)
        return meter.metrics(records=count, size_bytes=count * 200)


def ping(target: Target, seconds: float) -> Metrics:
    """The time from `produce` to the record's arrival at a waiting consumer, one at a time."""
    topic = f"ping-{time.monotonic_ns()}"
    create_topic(target.host, target.port, topic)
    producer = _producer(target, {"linger.ms": 0, "acks": "all"})
    consumer = _consumer(target, topic, {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 500})
    taken = []
    with closing(consumer):
        consumer.subscribe([topic])
        producer.produce(topic, bytes(200))
        _flush(producer)
        _some(consumer)
        deadline = time.perf_counter() + seconds
        while (start := time.perf_counter()) < deadline:
            producer.produce(topic, bytes(200))
            producer.poll(0)
            _some(consumer)
            taken.append(time.perf_counter() - start)
    _flush(producer)
    return latencies(taken)


def join(target: Target, seconds: float) -> Metrics:
    """From a consumer's start in a new group to its first record."""
    _create_with_first(target)
    start = time.perf_counter()
    consumer = _consumer(target, f"group-{time.monotonic_ns()}", {"auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe([_TOPIC])
        _some(consumer)
        return {JOIN: (time.perf_counter() - start) * 1e3}


def transactions(target: Target, seconds: float) -> Metrics:
    """1 KB records, committed every 100 ms, against the same without transactions, in turn."""
    create_topic(target.host, target.port, _TOPIC)
    values = _texts(1000)
    plain = _producer(target, _TRANSACTED)
    producer = _producer(target, _TRANSACTED | {"transactional.id": f"t-{target.port}"})
    producer.init_transactions(30)
    plain.produce(_TOPIC, values[0])
    _flush(plain)
    plain_rates, rates, costs, commits = [], [], [], 0
    for _ in range(_TURNS):
        meter = Meter(target)
        count = _produce_until(plain, values, time.perf_counter() + seconds / _TURNS)
        _flush(plain)
        plain_rates.append(meter.metrics(records=count)[RATE])
        meter, count = Meter(target), 0
        while meter.elapsed_s < seconds / _TURNS:
            producer.begin_transaction()
            count += _produce_until(producer, values, time.perf_counter() + _COMMIT_EVERY_S)
            producer.commit_transaction(30)
            commits += 1
        found = meter.metrics(records=count, size_bytes=count * 1000)
        rates.append(found[RATE])
        costs.append(found[CPU_PER_MB])
    rate = fmean(rates)
    return {
        RATE: rate,
        MB_RATE: rate / 1000,
        CPU_PER_MB: fmean(costs),
        RATIO: rate / fmean(plain_rates),
        "commits": commits,
    }


def partitions(target: Target, seconds: float, count: int, records: int) -> Metrics:
    """A number of records over random new partitions, or as many as are sent in 10 s."""
    topic = f"wide-{count}-{time.monotonic_ns()}"
    create_topic(target.host, target.port, topic, count)
    delivered = 0

    def on_delivery(error: KafkaError | None, _: object) -> None:
        nonlocal delivered
        delivered += error is None

    producer = _producer(
        target,
        {
            "linger.ms": 5,
            "sticky.partitioning.linger.ms": 0,
            "delivery.report.only.error": False,
            "on_delivery": on_delivery,
            "queue.buffering.max.messages": 2 * records,
            "queue.buffering.max.kbytes": records,
        },
    )
    value = bytes(200)
    meter = Meter(target)
    for number in range(records):
        producer.produce(topic, value)
        if number % 1000 == 0:
            producer.poll(0)
    while delivered < records and meter.elapsed_s < _PARTITIONS_LIMIT_S:
        producer.poll(0.01)
    metrics = meter.metrics(records=delivered, size_bytes=delivered * len(value))
    metrics[RATE] = delivered / meter.elapsed_s  # Reported even if no record arrived in time.
    metrics[RESIDENT] = target.resident_mib()
    producer.purge()
    return metrics


def mixed(target: Target, seconds: float) -> Metrics:
    """A bit of everything on one broker, and its memory afterwards.

    A third of a run's time each: 200-byte records batched and one by one, 10 KB records with
    acks=all, 50 raw connections with 5 requests in flight, 10 consumers of 100 MB, offset commits,
    100 active of 500 connections, and transactions.
    """
    each = seconds / 3
    produce(target, each, {"linger.ms": 5}, 200)
    # A short queue, since queued records are sent after the end of the time.
    produce(target, each, {"batch.num.messages": 1, "queue.buffering.max.messages": 5000}, 200)
    produce(target, each, {"acks": "all"}, 10_000)
    raw.produce(target, each, Load(connections=50, depth=5))
    raw.consume(target, each, 10)
    raw.offset_commits(target, each)
    raw.connections(target, each, 500)
    transactions(target, each)
    return {RESIDENT: target.resident_mib()}


def java_producer(
    target: Target, seconds: float, records_per_s: int, settings: Settings
) -> Metrics:
    """Kafka's own kafka-producer-perf-test, 200-byte records."""
    create_topic(target.host, target.port, _TOPIC)
    count = max(int(records_per_s * seconds), 1000)
    meter = Meter(target)
    rate = _java_rate(target, count, 200, settings)
    metrics = meter.metrics(size_bytes=count * 200)
    return metrics | {RATE: rate, MB_RATE: rate * 200 / 1e6}


def java_transactions(target: Target, seconds: float) -> Metrics:
    """The same tool with 1 KB records and a commit every 100 ms; an idempotent one before, after.

    Against the mean of both, since whoever comes later finds brokers and machine changed.
    """
    create_topic(target.host, target.port, _TOPIC)
    count = int(_JAVA_TRANSACTED_PER_S * seconds)
    settings = {"acks": "all", "linger.ms": 5}
    before = _java_rate(target, count, 1000, settings)
    meter = Meter(target)
    rate = _java_rate(
        target,
        count,
        1000,
        settings,
        "--transactional-id",
        f"j-{target.port}",
        "--transaction-duration-ms",
        str(int(_COMMIT_EVERY_S * 1000)),
    )
    metrics = meter.metrics(size_bytes=count * 1000)
    plain = fmean((before, _java_rate(target, count, 1000, settings)))
    return metrics | {RATE: rate, MB_RATE: rate / 1000, RATIO: rate / plain}


def _java_rate(
    target: Target, count: int, record_bytes: int, settings: Settings, *more: str
) -> float:
    props = {"bootstrap.servers": target.bootstrap} | dict(settings)
    output = _java_tool(
        "kafka-producer-perf-test",
        "--topic",
        _TOPIC,
        "--num-records",
        str(count),
        "--record-size",
        str(record_bytes),
        "--throughput",
        "-1",
        *more,
        "--producer-props",
        *(f"{name}={value}" for name, value in props.items()),
    )
    last = output.strip().splitlines()[-1]
    found = re.search(r"([\d.]+) records/sec \(([\d.]+) MB/sec\)", last)
    if found is None:
        raise RequestFailed(f"kafka-producer-perf-test said {last!r}")
    return float(found[1])


def java_consumer(target: Target, seconds: float) -> Metrics:
    """Kafka's own kafka-consumer-perf-test."""
    raw.fill(target, 100e6)
    count = int(400e6 / 1000 * min(1.0, seconds))
    output = _java_tool(
        "kafka-consumer-perf-test",
        "--bootstrap-server",
        target.bootstrap,
        "--topic",
        raw.FILLED,
        "--num-records",
        str(count),
        "--timeout",
        "60000",
    )
    heads, figures = (line.split(", ") for line in output.strip().splitlines()[-2:])
    row = dict(zip((head.strip() for head in heads), figures, strict=True))
    return {MB_RATE: float(row["fetch.MB.sec"]) * 1.048576, RATE: float(row["fetch.nMsg.sec"])}


class _Watcher:
    """Requests the end offset of a topic's partition 0."""

    def __init__(self, target: Target, topic: str):
        self._consumer = _consumer(target, "watcher", {})
        self._topic = topic

    def end_offset(self) -> int:
        wanted = TopicPartition(self._topic, 0)
        end_offset: int = self._consumer.get_watermark_offsets(wanted, timeout=10)[1]
        return end_offset

    def close(self) -> None:
        self._consumer.close()


def _create_with_first(target: Target) -> None:
    """The topic, once it has taken a record."""
    if create_topic(target.host, target.port, _TOPIC):
        producer = _producer(target, {})
        producer.produce(_TOPIC, b"first")
        _flush(producer)


def _java_tool(name: str, *arguments: str) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        tools = JavaTools(kafka_jars.tools_jars(), Path(scratch))
        done = subprocess.run(
            tools.command(name, *arguments, jvm=("-Xmx512m",)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    if done.returncode:
        raise RequestFailed(f"{name}: {done.stderr[-500:]}")
    return done.stdout


def _produce_until(producer: Producer, values: Sequence[bytes], deadline: float) -> int:
    produce, count = producer.produce, 0
    while time.perf_counter() < deadline:
        for value in values:
            while True:
                try:
                    produce(_TOPIC, value)
                    break
                except BufferError:
                    producer.poll(0.005)
        count += len(values)
        producer.poll(0)
    return count


def _texts(size_bytes: int) -> list[bytes]:
    """Records that compress like lines of a log: to about a third."""
    numbers = random.Random(1)
    texts = []
    for _ in range(_VALUES):
        text = b""
        while len(text) < size_bytes:
            text += b'{"id": %d, "delay": %d, "name": "flight"}, ' % (
                numbers.getrandbits(48),
                numbers.getrandbits(10),
            )
        texts.append(text[:size_bytes])
    return texts


def _producer(target: Target, settings: Settings) -> Producer:
    return Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "acks": 1,
            "linger.ms": 0,
            "queue.buffering.max.messages": _QUEUED,
            "queue.buffering.max.kbytes": 1 << 15,
            "delivery.report.only.error": True,
            "on_delivery": _refuse_errors,
        }
        | _SILENT
        | dict(settings)
    )


def _consumer(target: Target, group: str, settings: Settings) -> Consumer:
    return Consumer(
        {"bootstrap.servers": target.bootstrap, "group.id": group, "enable.auto.commit": False}
        | _SILENT
        | dict(settings)
    )


def _refuse_errors(error: KafkaError | None, _: object) -> None:
    if error is not None:
        raise RequestFailed(str(error))


def _flush(producer: Producer) -> None:
    left = producer.flush(_DELIVERY_LIMIT_S)
    if left:
        raise RequestFailed(f"{left} records were not delivered in {_DELIVERY_LIMIT_S} s")


def _some(consumer: Consumer) -> list[Any]:
    """The next records; waits for them."""
    deadline = time.monotonic() + _DELIVERY_LIMIT_S
    while time.monotonic() < deadline:
        records = [record for record in consumer.consume(1, 1.0) if record.error() is None]
        if records:
            return records
    raise RequestFailed("no record came")
