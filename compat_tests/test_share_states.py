"""The states of share partitions: the same responses and records as Apache Kafka's coordinator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from compat_tests.share_states import KINDS, BothCoordinators, Scenario
from tests import share_state_topic
from tests.repetitions import repetitions
from wirekafka.errors import Error

SCENARIOS = repetitions("WIREKAFKA_SHARE_SCENARIOS", usual=12, thorough=40)
STEPS = 60
SETTINGS = {
    **share_state_topic.settings(2),
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothCoordinators]:
    directory = tmp_path_factory.mktemp("apache-kafka")
    settings = "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
    port, command = prepare(directory, SMALL_JVM, SMALL_CLEANER + settings)
    with running(command, directory, port):
        pair = BothCoordinators(
            ("127.0.0.1", port), directory / "data", tmp_path_factory.mktemp("ours"), SETTINGS
        )
        yield pair
        pair.stop()


def test_requests_before_the_topic_exists_get_the_same_responses(both: BothCoordinators) -> None:
    for kafkas, ours in both.before_topic:
        assert ours == kafkas
        assert ours.results[0].partitions[0].error_code == Error.NOT_COORDINATOR


def test_generated_requests_get_the_same_responses_and_write_the_same_records(
    both: BothCoordinators,
) -> None:
    for seed in range(SCENARIOS):
        scenario = Scenario(random.Random(seed), both, f"group-{seed}")
        for _ in range(STEPS):
            scenario.step()
    both.compare_records()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_requests_without_group_topics_or_partitions_get_the_same_responses(
    both: BothCoordinators, kind: Any
) -> None:
    id = both.topic_ids[0]
    topic = next(part for part in vars(kind).values() if isinstance(part, type))
    empty, full = topic(topic_id=id), topic(topic_id=id, partitions=[topic.PartitionData()])
    for request in (
        kind(),
        kind(group_id="g"),
        kind(group_id="", topics=[full]),
        kind(group_id="g", topics=[empty]),
        kind(group_id="g", topics=[full, empty]),
        kind(group_id=" ", topics=[full]),
        kind(group_id="g", topics=[full, full]),
    ):
        for version in range(kind.versions[0], kind.versions[1] + 1):
            both.ask(request, version)
    both.compare_records()


def test_deleting_a_topic_deletes_its_states_alike(both: BothCoordinators) -> None:
    both.create_topic("doomed", 3)
    scenario = Scenario(random.Random("doomed"), both, "doomed")
    scenario.topic_ids = (both.topic_ids[-1],)
    for _ in range(STEPS):
        scenario.step()
    both.delete_topic("doomed")
    both.compare_records()
