"""`wirekafka quotas`, and throttled clients as `wirekafka clients --throttled` shows them."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cli.conftest import Run


def listed(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("quotas", "list", "--json").out)
    return rows


def test_quotas_are_set_listed_and_removed(run: Run) -> None:
    assert run("quotas", "set", "request_percentage=12.5", "--user", "ann").status == 0
    run("quotas", "set", "producer_byte_rate=1048576", "--user", "", "--client", "app")
    row = {"user": None, "client-id": None, "ip": None}
    assert listed(run) == [
        row | {"user": "ann", "quota": "request_percentage", "value": 12.5},
        row | {"user": "", "client-id": "app", "quota": "producer_byte_rate", "value": 1_048_576},
    ]
    table = [line.split() for line in run("quotas", "list").out.splitlines()]
    assert table == [
        ["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"],
        ["ann", "-", "-", "request_percentage", "12.5"],
        ["(default)", "app", "-", "producer_byte_rate", "1048576"],
    ]
    run("quotas", "remove", "request_percentage", "--user", "ann")
    run("quotas", "remove", "producer_byte_rate", "--user", "", "--client", "app")
    assert listed(run) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("producer_byte_rate=1",), "whose quota"),
        (("producer_byte_rate=much", "--user", "ann"), "expected a number"),
        (("producer_byte_rate", "--user", "ann"), "expected KEY=VALUE"),
        (("speed=1", "--user", "ann"), "Invalid configuration key speed"),
    ],
)
def test_a_wrong_quota_is_refused_in_one_line(
    run: Run, words: tuple[str, ...], reason: str
) -> None:
    outcome = run("quotas", "set", *words)
    assert outcome.status == 1 and reason in outcome.err and outcome.err.count("\n") == 1


def test_a_throttled_client_is_shown(run: Run, bootstrap: str) -> None:
    run("quotas", "set", "producer_byte_rate=10", "--client", "fast")
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "fast"})
    producer.produce("limited", "v" * 2000)
    producer.flush(10)
    [row] = json.loads(run("clients", "--throttled", "--json").out)
    assert (row["client"], row["user"], row["quota"]) == ("fast", None, "producer_byte_rate")
    assert row["limit"] == 10 and row["rate"] > 10 and row["throttled_s"] > 60
    run("quotas", "remove", "producer_byte_rate", "--client", "fast")
    assert json.loads(run("clients", "--throttled", "--json").out) == []
