"""The metrics that clients push are bounded, by client and over all clients."""

from wirekafka.metrics.client_metrics import (
    MOST_NAMES,
    MOST_OF_CLIENT,
    MOST_SERIES,
    ClientIdentity,
    ClientMetrics,
    Point,
)

WHO = ClientIdentity("client", "id", ("x", "1"))


def points(count: int, *, names: int = 1, topic: str = "t") -> list[Point]:
    return [
        Point(f"name{number % names}", {"topic": topic, "partition": str(number)}, 1.0, False)
        for number in range(count)
    ]


def test_series_of_one_client_are_bounded() -> None:
    metrics = ClientMetrics()
    metrics.take(b"1", WHO, points(MOST_OF_CLIENT + 5), 10)
    assert len(list(metrics.rows())) == MOST_OF_CLIENT and metrics.dropped == 5
    metrics.take(b"1", WHO, points(1), 10)
    assert len(list(metrics.rows())) == 1


def test_series_of_all_clients_are_bounded_until_some_expire() -> None:
    metrics = ClientMetrics()
    clients = MOST_SERIES // MOST_OF_CLIENT
    for number in range(clients + 1):
        metrics.take(b"%d" % number, WHO, points(MOST_OF_CLIENT), 10 + number)
    assert len(list(metrics.rows())) == MOST_SERIES and metrics.dropped == MOST_OF_CLIENT
    metrics.expire(10)
    metrics.take(b"new", WHO, points(MOST_OF_CLIENT), 50)
    assert metrics.dropped == MOST_OF_CLIENT
    metrics.expire(50)
    assert len(metrics) == 0 and list(metrics.rows()) == []
    metrics.take(b"1", WHO, points(MOST_OF_CLIENT), 60)
    assert metrics.dropped == MOST_OF_CLIENT


def test_names_and_lengths_are_bounded() -> None:
    metrics = ClientMetrics()
    metrics.take(b"1", WHO, points(MOST_NAMES + 5, names=MOST_NAMES + 5), 10)
    assert metrics.dropped == 5
    metrics.take(b"1", WHO, points(1, topic="t" * 1000), 10)
    assert metrics.dropped == 6 and list(metrics.rows()) == []
