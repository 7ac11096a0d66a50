"""Would one event loop per core in one process pay on a CPython without the GIL?

`python3.14t -m benchmarks.free_threads` serves Produce requests through the pipeline in one
thread, and in two at once: with a broker each, which share nothing but the code, and with one
broker, where each thread has a partition of its own. Nothing is handed from one thread to the
other, so that the result is the most that a broker with two loops could reach. There are no
sockets and no load generator. It needs two idle cores: threads that take turns on one core do not
get into each other's way.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.bare_loop import decoded_frame
from benchmarks.driver import batch_of, produce_frame
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.apis.shared.call import Call
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.connections.replies import Replies

_SECONDS, _TURNS, _REQUESTS = 1.0, 3, 50
_TOPICS = ("first", "second")


class Work(NamedTuple):
    """What one thread does."""

    call: Call
    frame: memoryview


class Result(NamedTuple):
    """Of all threads of a run."""

    requests_per_s: float
    cpu_us: float
    """For each request."""


def run(jobs: Sequence[Work]) -> Result:
    """Serve in one thread for each job, all at the same time."""
    start = threading.Barrier(len(jobs))
    done = [0] * len(jobs)
    cpu_s = [0.0] * len(jobs)

    def serve(number: int, job: Work) -> None:
        serve_one = Pipeline().serve
        frame, size = job.frame, len(job.frame)
        start.wait()
        begun_s = time.thread_time()
        deadline = time.perf_counter() + _SECONDS
        while time.perf_counter() < deadline:
            replies = Replies()
            for _ in range(_REQUESTS):
                serve_one(frame, 4, size, job.call, replies)
            done[number] += _REQUESTS
        cpu_s[number] = time.thread_time() - begun_s

    threads = [threading.Thread(target=serve, args=each) for each in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Result(sum(done) / _SECONDS, sum(cpu_s) / sum(done) * 1e6)


def main() -> None:
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"CPython {sys.version.split()[0]}, {'with' if has_gil else 'without'} the GIL")
    with tempfile.TemporaryDirectory() as directory:
        brokers = [_broker(Path(directory, name)) for name in _TOPICS]
        first, second = (Call(each.broker) for each in brokers)
        for kind, frame_of in (("repeated", _repeated_frame), ("decoded", decoded_frame)):
            frames = [frame_of(topic) for topic in _TOPICS]
            cases = {
                "one thread": [Work(first, frames[0])],
                "two, a broker each": [Work(first, frames[0]), Work(second, frames[1])],
                "two, one broker": [Work(first, frame) for frame in frames],
            }
            results: dict[str, list[Result]] = {name: [] for name in cases}
            for _ in range(_TURNS):
                for name, jobs in cases.items():
                    results[name].append(run(jobs))
            _report(kind, results)
        for broker in brokers:
            broker.stop()


def _broker(directory: Path) -> InProcessBroker:
    broker = InProcessBroker(directory, ManualClock(time.time_ns() // 1_000_000))
    for topic in _TOPICS:
        broker.create(topic)
    return broker


def _repeated_frame(topic: str) -> memoryview:
    """A request that the cache serves from the second time on."""
    return memoryview(bytearray(produce_frame(topic, batch_of(1, 200), 1)))


def _report(kind: str, results: dict[str, list[Result]]) -> None:
    """Print the median of each case, and its rate and cost as multiples of the first."""
    base: Result | None = None
    for name, found in results.items():
        rate, cpu_us = (statistics.median(each) for each in zip(*found, strict=True))
        base = base or Result(rate, cpu_us)
        print(
            f"{kind}, {name}: {rate:,.0f} requests/s, ×{rate / base.requests_per_s:.2f};"
            f" {cpu_us:.1f} µs of CPU each, ×{cpu_us / base.cpu_us:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
