"""The replication rate over windows like Kafka's, and the lists of throttled replicas."""

from __future__ import annotations

import pytest

from wirekafka.replication.fetching.throttle import ReplicationThrottle


def throttle(limit: int | None = 100) -> ReplicationThrottle:
    return ReplicationThrottle(2, lambda: limit, 3, 1000)


def test_rate_is_measured_over_at_least_one_window() -> None:
    limited = throttle()
    assert limited.rate(5_000) == 0
    limited.record(80, 5_000)
    limited.record(40, 5_010)
    assert limited.rate(5_020) == 120
    assert limited.is_exceeded(5_020)


def test_rate_is_measured_since_the_oldest_window() -> None:
    limited = throttle()
    limited.record(150, 5_000)
    limited.record(50, 6_000)
    assert limited.rate(7_000) == 100
    assert not limited.is_exceeded(7_000), "a rate equal to the limit is within it"
    limited.record(2, 7_000)
    assert limited.is_exceeded(7_000)


def test_old_windows_no_longer_count() -> None:
    limited = throttle()
    limited.record(1_000_000, 5_000)
    assert limited.is_exceeded(7_999)
    assert not limited.is_exceeded(8_000)
    assert limited.rate(8_000) == 0


def test_nothing_is_exceeded_without_a_limit() -> None:
    unlimited = throttle(None)
    unlimited.record(1 << 40, 5_000)
    assert not unlimited.is_exceeded(5_000)


@pytest.mark.parametrize(
    ("listed", "index", "applies"),
    [
        ((), 0, False),
        (("*",), 7, True),
        (("none",), 0, False),
        (("0:2", "1:3"), 0, True),
        (("0:2", "1:3"), 1, False),
        (("0:2", "1:3"), 2, False),
    ],
)
def test_replicas_are_listed_by_partition_and_broker(
    listed: tuple[str, ...], index: int, applies: bool
) -> None:
    assert throttle().applies_to(index, listed) == applies
