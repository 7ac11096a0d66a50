"""One cluster for the commands that administer clusters: three brokers in two racks."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.conftest import Outcome, Run, command_line
from wirekafka import Cluster
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER

RACKS = {1: "a", 2: "a", 3: "b"}

RunJson = Callable[..., Any]


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "transaction.partition.verification.enable": False,
        "auto.leader.rebalance.enable": False,
    }
    racks = {broker: {"broker.rack": rack} for broker, rack in RACKS.items()}
    with Cluster(brokers=3, nodes=racks, config=settings) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Run:
    """`run("acls", "list")` on the cluster."""
    return command_line(cluster.bootstrap_servers, monkeypatch, capfdbinary)


@pytest.fixture
def run_json(run: Run) -> RunJson:
    """The JSON that a command prints, which must succeed."""

    def run_json(*words: str, given: str = "") -> Any:
        outcome = run(*words, "--json", given=given)
        assert outcome.status == 0, outcome.err
        return json.loads(outcome.out)

    return run_json


def table(outcome: Outcome) -> list[list[str]]:
    """The cells of a table in a pipe, whose cells have no spaces."""
    return [line.split() for line in outcome.out.splitlines()]


def assert_refused(outcome: Outcome, reason: str) -> None:
    """A failure in one line, without anything printed."""
    assert (outcome.status, outcome.out) == (1, ""), outcome
    assert reason in outcome.err and outcome.err.count("\n") == 1, outcome
