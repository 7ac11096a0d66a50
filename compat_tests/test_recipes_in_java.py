"""Java clients against a broker that is nothing to do with Python for them: a process with a
control port, over which they set the faults themselves."""

import subprocess
import sys

import pytest

from compat_tests.java_recipes import EXPECTED, outcomes
from compat_tests.java_tools import JavaTools
from wirekafka import Broker


@pytest.fixture(scope="module")
def told(java_tools: JavaTools) -> dict[str, str]:
    command = [sys.executable, "-m", "wirekafka.testing"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            _, _, bootstrap, _, control = broker.stdout.readline().split()
            return outcomes(bootstrap, control, java_tools)
        finally:
            broker.terminate()


@pytest.mark.parametrize("recipe", EXPECTED)
def test_recipe(told: dict[str, str], recipe: str) -> None:
    assert told.get(recipe) == EXPECTED[recipe]


def test_every_recipe_is_known(told: dict[str, str]) -> None:
    assert list(told) == list(EXPECTED)


def test_javas_own_tools_outlive_lost_answers(java_tools: JavaTools) -> None:
    with Broker(topics=["orders"]) as broker:
        bootstrap = ("--bootstrap-server", broker.bootstrap_servers)
        with (broker.drop("Produce", applied=True, times=1, required=True),
              broker.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", times=1)):
            java_tools.run("kafka-console-producer", *bootstrap, "--topic", "orders",
                           stdin="one\ntwo\n")
        assert [record.value for record in broker.records("orders")] == [b"one", b"two"]
        with (broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", times=2,
                          required=True),
              broker.fail("JoinGroup", "UNKNOWN_MEMBER_ID", times=1, required=True)):
            read = java_tools.run(
                "kafka-console-consumer", *bootstrap, "--topic", "orders", "--group", "billing",
                "--from-beginning", "--max-messages", "2")
        assert read.split() == ["one", "two"]
        broker.wait_for(lambda: broker.committed("billing") == {("orders", 0): 2})
