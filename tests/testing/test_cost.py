"""The cost of a broker for a test run: its start time, and no leaks."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from tests.testing.clients import confluent_consumer, confluent_producer, deliver, polled
from wirekafka import Broker


def test_200_brokers_leave_nothing_behind() -> None:
    # In a process of its own: what other tests have left in this one is not of these brokers.
    script = "from tests.testing.test_cost import count_what_stays; count_what_stays()"
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    stayed = json.loads(ended.stdout)
    print(stayed)
    assert stayed["sockets and files"] == stayed["threads"] == stayed["tasks"] == 0
    assert stayed["bytes"] < 20 << 20
    assert stayed["seconds"] < 20
    assert not ended.stderr


def count_what_stays() -> None:
    """Print as JSON what a process has more of after 200 brokers than after the first ten."""
    for _ in range(10):
        _start_use_and_stop()
    before = _what_exists()
    started = time.monotonic()
    for _ in range(200):
        _start_use_and_stop()
    took_s = time.monotonic() - started
    after = _what_exists()
    print(json.dumps({name: after[name] - before[name] for name in after} | {"seconds": took_s}))


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


def _what_exists() -> dict[str, int]:
    gc.collect()
    process = psutil.Process()
    return {
        "sockets and files": process.num_fds(),
        "threads": threading.active_count(),
        "tasks": sum(isinstance(found, asyncio.Task) for found in gc.get_objects()),
        "bytes": process.memory_info().rss,
    }


def _load() -> float:
    """The number of runnable processes per processor, at least one."""
    return max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)
