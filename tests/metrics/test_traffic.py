"""The counters of topics and clients."""

from __future__ import annotations

from wirekafka.metrics.requests import Clients
from wirekafka.metrics.traffic import Traffic


def test_the_total_keeps_the_counts_of_deleted_topics() -> None:
    traffic = Traffic()
    traffic.of("a").appended(100, 3)
    traffic.of("b").appended(10, 1)
    traffic.of("b").refused()
    before = traffic.total()
    traffic.forget(lambda topic: topic == "a")
    assert [topic for topic, _ in traffic.topics()] == ["a"]
    after = traffic.total()
    assert (after.bytes_in, after.messages_in, after.produces) == (110, 4, 3)
    assert (before.bytes_in, before.failed_produces) == (after.bytes_in, after.failed_produces)


def test_fetches_of_followers_and_consumers_are_counted_but_only_consumers_get_bytes_out() -> None:
    counters = Traffic().of("t")
    counters.read(100, is_follower=False)
    counters.read(10, is_follower=True)
    assert (counters.fetches, counters.bytes_out, counters.replication_bytes_out) == (2, 100, 10)


def test_clients_cannot_make_the_counters_grow_without_limit() -> None:
    clients = Clients()
    for number in range(3 * Clients.MOST):
        clients.of("PLAINTEXT", ("client", str(number))).requests += 1
    rows = clients.rows()
    assert len(rows) <= Clients.MOST + 1
    assert sum(row.requests for _, row in rows) == 3 * Clients.MOST
