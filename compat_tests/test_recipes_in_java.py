"""Java clients against a broker process, whose faults they set over its control port."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from compat_tests.java_recipes import EXPECTED, EXPECTED_OF_STREAMS, STREAMS_SOURCE, outcomes
from compat_tests.java_tools import JavaTools
from wirekafka import Broker


@pytest.fixture(scope="module")
def reported(java_clients: JavaTools) -> dict[str, str]:
    with _controlled_broker() as (bootstrap, control):
        return outcomes(bootstrap, control, java_clients)


@pytest.fixture(scope="module")
def reported_of_streams(java_tools: JavaTools) -> dict[str, str]:
    with _controlled_broker() as (bootstrap, control):
        return outcomes(bootstrap, control, java_tools, STREAMS_SOURCE)


@contextmanager
def _controlled_broker() -> Iterator[tuple[str, str]]:
    """A broker in a process of its own: its address and that of its control port."""
    command = [sys.executable, "-m", "wirekafka.testing"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            _, _, bootstrap, _, control = broker.stdout.readline().split()
            yield bootstrap, control
        finally:
            broker.terminate()


@pytest.mark.parametrize("recipe", EXPECTED)
def test_recipe(reported: dict[str, str], recipe: str) -> None:
    assert reported.get(recipe) == EXPECTED[recipe]


@pytest.mark.parametrize("recipe", EXPECTED_OF_STREAMS)
def test_recipe_for_kafka_streams(reported_of_streams: dict[str, str], recipe: str) -> None:
    assert reported_of_streams.get(recipe) == EXPECTED_OF_STREAMS[recipe]


def test_every_recipe_is_known(
    reported: dict[str, str], reported_of_streams: dict[str, str]
) -> None:
    assert list(reported) == list(EXPECTED)
    assert list(reported_of_streams) == list(EXPECTED_OF_STREAMS)


def test_javas_own_tools_retry_after_lost_responses(java_tools: JavaTools) -> None:
    with Broker(topics=["orders"]) as broker:
        bootstrap = ("--bootstrap-server", broker.bootstrap_servers)
        with (
            broker.drop("Produce", applied=True, times=1, required=True),
            broker.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", times=1),
        ):
            java_tools.run(
                "kafka-console-producer", *bootstrap, "--topic", "orders", stdin="one\ntwo\n"
            )
        assert [record.value for record in broker.records("orders")] == [b"one", b"two"]
        with (
            broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", times=2, required=True),
            broker.fail("JoinGroup", "UNKNOWN_MEMBER_ID", times=1, required=True),
        ):
            read = java_tools.run(
                "kafka-console-consumer",
                *bootstrap,
                "--topic",
                "orders",
                "--group",
                "billing",
                "--from-beginning",
                "--max-messages",
                "2",
            )
        assert read.split() == ["one", "two"]
        broker.wait_for(lambda: broker.committed("billing") == {("orders", 0): 2})
