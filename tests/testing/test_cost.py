"""The cost of a broker for a test run: its start time, and no leaks."""

from __future__ import annotations

import gc
import os
import statistics
import threading
import time
from pathlib import Path

import psutil

from tests.testing.clients import confluent_consumer, confluent_producer, deliver, polled
from wirekafka import Broker


def test_200_brokers_leave_nothing_behind() -> None:
    for _ in range(10):
        _start_use_and_stop()
    process = psutil.Process()
    gc.collect()
    before = process.num_fds(), threading.active_count(), process.memory_info().rss
    started = time.monotonic()
    for _ in range(200):
        _start_use_and_stop()
    took_s = time.monotonic() - started
    gc.collect()
    after = process.num_fds(), threading.active_count(), process.memory_info().rss
    print(f"200 brokers: {took_s:.1f} s, {(after[2] - before[2]) / (1 << 20):.1f} MiB grown")
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 20 << 20
    assert took_s < 20


def test_a_broker_starts_and_serves_quickly() -> None:
    starts, whole = [], []
    for _ in range(7):
        began = time.perf_counter()
        with Broker(topics=["t"]) as broker:
            starts.append(time.perf_counter() - began)
            assert deliver(confluent_producer(broker), "t") is None
            consumer = confluent_consumer(broker, "g")
            consumer.subscribe(["t"])
            assert polled(consumer).value() == b"v"
            whole.append(time.perf_counter() - began)
            consumer.close()
    start_ms, whole_ms = statistics.median(starts) * 1000, statistics.median(whole) * 1000
    print(f"start {start_ms:.1f} ms, to the first record consumed {whole_ms:.0f} ms")
    # The machine may be busy with other tests: these are bounds, benchmarks/ has the figures.
    assert start_ms < 50 * _load() and whole_ms < 300 * _load()


def _start_use_and_stop() -> None:
    with Broker(topics=["t"]) as broker:
        broker.produce("t", ["1"])
        directory = Path(broker.directory)
    assert not directory.exists()


def _load() -> float:
    """The number of runnable processes per processor, at least one."""
    return max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)
