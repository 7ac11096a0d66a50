"""`wirekafka elect`."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.admin.conftest import RunJson, assert_refused, table
from tests.cli.conftest import Run, command_line
from wirekafka import Cluster
from wirekafka.client.admin.elections import LeaderChoice, elect_leaders
from wirekafka.client.client import CliError


@pytest.fixture(scope="module")
def led_by_others() -> Any:
    """A cluster in which a broker was away, so that others lead its partitions."""
    with Cluster(
        brokers=2, topics={"orders": 4}, config={"auto.leader.rebalance.enable": False}
    ) as cluster:
        yield cluster


def leave_and_return(cluster: Cluster) -> list[int]:
    """Let broker 1 lose its leaderships; returns the partitions that it led."""
    cluster.wait_for_full_isr()
    led = [index for index in range(4) if cluster.leader("orders", index) == 1]
    cluster.restart(1)
    cluster.wait_for_full_isr()
    return [index for index in led if cluster.leader("orders", index) != 1]


def test_preferred_leaders_are_elected(
    led_by_others: Cluster, monkeypatch: pytest.MonkeyPatch, capfdbinary: object
) -> None:
    run = command_line(led_by_others.bootstrap_servers, monkeypatch, capfdbinary)
    lost = leave_and_return(led_by_others)
    assert lost
    results = {str(index): ["not", "needed"] for index in range(4)}
    results |= {str(index): ["elected"] for index in lost}
    outcome = run("elect", "--topic", "orders")
    assert outcome.status == 0, outcome.err
    header, *rows = table(outcome)
    assert header == ["TOPIC", "PARTITION", "RESULT"]
    assert {row[1]: row[2:] for row in rows} == results
    led_by_others.wait_for(
        lambda: all(led_by_others.leader("orders", index) == 1 for index in lost)
    )
    outcome = run("elect", "--all")
    assert (outcome.status, outcome.err) == (0, "no partition needed an election\n")


def test_partitions_that_have_the_leader_are_reported_so(run_json: RunJson, cluster: Any) -> None:
    if "elected" not in cluster.topics():
        cluster.create_topic("elected", 2)
    result = {"topic": "elected", "partition": 1, "result": "not needed"}
    assert run_json("elect", "--topic", "elected", "--partition", "1") == [result]
    assert run_json("elect", "--topic", "elected", "--partition", "1", "--unclean") == [result]


def test_a_partition_that_does_not_exist_is_a_failure(run: Run, cluster: Any) -> None:
    if "elected" not in cluster.topics():
        cluster.create_topic("elected", 2)
    outcome = run("elect", "--topic", "elected", "-p", "1", "-p", "7")
    assert outcome.status == 1 and outcome.err.count("\n") == 1
    assert "elected-7: " in outcome.err and "elected-1" not in outcome.err
    assert table(outcome)[1:] == [["elected", "1", "not", "needed"], ["elected", "7", "failed"]]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "of which partitions? give --topic, or --all"),
        (("--all", "--topic", "t"), "of which partitions?"),
        (("--topic", "t", "--topic", "u", "-p", "0"), "--partition needs one --topic"),
        (("--topic", "no-such-topic"), "no topic no-such-topic"),
    ],
)
def test_a_wrong_election_is_refused_in_one_line(
    run: Run, words: tuple[str, ...], reason: str
) -> None:
    assert_refused(run("elect", *words), reason)


def test_an_old_broker_is_not_asked_for_an_unclean_election() -> None:
    old: Any = SimpleNamespace(any=lambda: SimpleNamespace(version_of=lambda request: 0))
    with pytest.raises(CliError, match="too old for unclean elections"):
        elect_leaders(old, LeaderChoice.UNCLEAN, None)
