"""The cost of a cluster for a test run: the time to its first record, and no leaks."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.testing.test_cost import _load, _what_exists
from wirekafka import Cluster


def test_50_clusters_leave_nothing_behind() -> None:
    # In a process of its own: what other tests have left in this one is not of these clusters.
    script = "from tests.testing.test_cluster_cost import count_what_stays; count_what_stays()"
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
    stayed = json.loads(ended.stdout)
    print(stayed)
    assert stayed["sockets and files"] == stayed["threads"] == stayed["tasks"] == 0
    assert stayed["bytes"] < 40 << 20
    assert stayed["CPU ms to the first record"] < 500
    assert stayed["ms to the first record"] < 500 * _load()


def count_what_stays() -> None:
    """Print as JSON what a process has more of after 50 clusters than after the first five."""
    for turn in range(5):
        _start_use_and_stop(turn)
    before = _what_exists()
    costs = [_start_use_and_stop(turn) for turn in range(50)]
    after = _what_exists()
    stayed: dict[str, float] = {name: after[name] - before[name] for name in after}
    stayed["ms to the first record"] = statistics.median(cost[0] for cost in costs)
    stayed["CPU ms to the first record"] = statistics.median(cost[1] for cost in costs)
    print(json.dumps(stayed))


def _start_use_and_stop(turn: int) -> tuple[float, float]:
    """Returns how long the first acknowledged record took, and with how much CPU time."""
    began, used = time.perf_counter(), time.process_time()
    with Cluster(topics=["t"]) as cluster:
        cluster.produce("t", ["1"])
        cost = (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000
        directory = Path(cluster.directory)
        if turn % 5 == 0:
            cluster.kill(2)
        elif turn % 5 == 1:
            cluster.isolate(1)
        elif turn % 5 == 2:
            cluster.pause(3)
        elif turn % 5 == 3:
            cluster.kill(101)
    assert not directory.exists()
    return cost
