"""The benchmark of a follower's Fetch: the follower gets batches from the leader over a socket."""

from __future__ import annotations

from benchmarks.follower_cost import Load, costs


def test_the_cpu_of_a_follower_is_measured() -> None:
    for load in (Load(), Load(record_bytes=10_000, batches=(1, 9))):
        found = costs(0.2, load)
        assert found == sorted(found)
        assert all(5 < each < 100_000 for each in found)
