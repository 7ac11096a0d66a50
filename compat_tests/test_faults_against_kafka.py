"""Stock clients react to a fault of `wirekafka.Broker` as to the same fault of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compat_tests import fault_table, java_recipes, real_faults
from compat_tests.fault_clients import CLIENTS, Plan
from compat_tests.faulty_kafka import FaultyKafka
from compat_tests.java_tools import JavaTools
from tests.repetitions import swept
from wirekafka import Broker

PLAYS = swept([pytest.param(*case) for case in fault_table.CASES], every=2)
"""Each play with at least one client; with each of them in `make test-all`."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyKafka]:
    with FaultyKafka(tmp_path_factory.mktemp("faulty-kafka")) as started:
        yield started


@pytest.fixture(scope="module")
def ours() -> Iterator[Broker]:
    with Broker(group_min_session_timeout_ms=100) as started:
        yield started


# This test is the first, while Kafka has little to recover.
def test_clients_recover_from_a_crash_as_they_do_with_kafka(
    ours: Broker, kafka: FaultyKafka
) -> None:
    reacted, expected = _both(
        lambda: fault_table.outlive_a_crash(ours), lambda: fault_table.outlive_a_crash(kafka)
    )
    assert reacted == expected


def test_javas_recipes_have_the_same_results_with_kafka(
    kafka: FaultyKafka, java_tools: JavaTools
) -> None:
    outcomes = java_recipes.outcomes(kafka.bootstrap_servers, kafka.serve_control(), java_tools)
    assert outcomes == java_recipes.EXPECTED


@pytest.mark.parametrize(("play", "client"), PLAYS)
def test_a_client_reacts_as_with_kafka(
    ours: Broker, kafka: FaultyKafka, play: str, client: str
) -> None:
    reacted, expected = _both(
        lambda: fault_table.reaction(ours, play, client),
        lambda: fault_table.reaction(kafka, play, client),
    )
    assert reacted == expected


@pytest.mark.parametrize(("fault", "client"), real_faults.CASES)
def test_a_client_reacts_to_a_rule_as_to_kafkas_own_fault(
    ours: Broker, kafka: FaultyKafka, fault: str, client: str
) -> None:
    by_rule, by_itself = real_faults.PAIRS[fault]
    name = f"true {fault} {client}".replace(" ", "-")
    reacted, expected = _both(
        lambda: by_rule(CLIENTS[client], Plan(ours, name, name)),
        lambda: by_itself(CLIENTS[client], Plan(kafka, name, name)),
    )
    assert reacted == expected


def _both(ours: Callable[[], Any], kafkas: Callable[[], Any]) -> tuple[Any, Any]:
    """The results of both, which run at the same time because they mostly wait."""
    with ThreadPoolExecutor(1) as other:
        expected = other.submit(kafkas)
        return ours(), expected.result()
