"""Random histories ("lives") of groups of each kind: the same responses and records as from Kafka.

WIREKAFKA_CONSUMER_LIVES, WIREKAFKA_SHARE_LIVES and WIREKAFKA_STREAMS_LIVES are how many groups
are compared, some at once, WIREKAFKA_CONSUMER_SEED and so on the first seed. `pytest -s` shows
how far a long run is: three seconds for each group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compat_tests import apache_kafka
from compat_tests.alike_topics import AlikeTopics
from compat_tests.consumer_pair import BothBrokers
from compat_tests.differential_consumer import Life as ConsumerLife
from compat_tests.differential_share import ShareLife
from compat_tests.differential_streams import Life as StreamsLife
from compat_tests.lives import SESSION_MS, Lives, Topics
from compat_tests.share_pair import BothShareBrokers
from compat_tests.streams_pair import BothStreams
from tests import share_state_topic
from tests.repetitions import repetitions
from wirekafka.coordinator.groups.streams.config import StreamsGroupOptions
from wirekafka.coordinator.groups.times import GroupTimes

_HEARTBEAT_MS = 500
_SETTINGS = "offsets.topic.num.partitions=1\n" + "".join(
    f"""group.{kind}.min.session.timeout.ms=1000
group.{kind}.session.timeout.ms={SESSION_MS}
group.{kind}.min.heartbeat.interval.ms=100
group.{kind}.heartbeat.interval.ms={_HEARTBEAT_MS}
group.{kind}.assignment.interval.ms=0
"""
    for kind in ("consumer", "share", "streams")
)
_OF_SHARE_GROUPS = f"""{share_state_topic.lines()}\
share.coordinator.append.linger.ms=0
group.coordinator.append.linger.ms=0
"""
_OF_STREAMS_GROUPS = "group.streams.initial.rebalance.delay.ms=0\n"

Kafka = tuple[tuple[str, int], Path]
"""The address of Apache Kafka, and its log directory."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    directory = tmp_path_factory.mktemp("kafka")
    settings = apache_kafka.SMALL_CLEANER + _SETTINGS + _OF_SHARE_GROUPS + _OF_STREAMS_GROUPS
    port, command = apache_kafka.prepare(directory, apache_kafka.SMALL_JVM, settings)
    with apache_kafka.running(command, directory, port):
        yield ("127.0.0.1", port), directory / "data"


CONSUMER_LIVES = repetitions("WIREKAFKA_CONSUMER_LIVES", usual=4, thorough=20)
SHARE_LIVES = repetitions("WIREKAFKA_SHARE_LIVES", usual=3, thorough=12)
STREAMS_LIVES = repetitions("WIREKAFKA_STREAMS_LIVES", usual=2, thorough=8)


def _seeds(kind: str, count: int, first: int = 0) -> range:
    first = int(os.environ.get(f"WIREKAFKA_{kind}_SEED", first))
    return range(first, first + count)


def _limit(lives: int) -> pytest.MarkDecorator:
    """The usual time limit, and more for the longer runs."""
    return pytest.mark.timeout(300 + 10 * lives)


@_limit(CONSUMER_LIVES)
def test_random_histories_of_consumer_groups_are_as_on_apache_kafka(kafka: Kafka) -> None:
    both = BothBrokers(*kafka)
    both.ours.consumer_options = GroupTimes(SESSION_MS, _HEARTBEAT_MS, 0)
    lives = Lives(
        Topics(both), lambda *life: ConsumerLife(life[0], life[1], life[2], both), kind="consumer"
    )
    lives.assert_same(_seeds("CONSUMER", CONSUMER_LIVES))


@_limit(SHARE_LIVES)
def test_random_histories_of_share_groups_are_as_on_apache_kafka(kafka: Kafka) -> None:
    both = BothShareBrokers(*kafka)
    both.ours.share_options = GroupTimes(SESSION_MS, _HEARTBEAT_MS, 0)

    topics = AlikeTopics(both)

    def delete_a_topic(group_ids: list[str]) -> None:
        both.delete_topics([topics.gone])
        both.await_states(group_ids)

    lives = Lives(
        topics,
        lambda *life: ShareLife(life[0], life[1], life[2], both),
        kind="share",
        rounds=10,
        at_round={7: delete_a_topic},
    )
    lives.assert_same(_seeds("SHARE", SHARE_LIVES))


@_limit(STREAMS_LIVES)
def test_random_histories_of_streams_groups_are_as_on_apache_kafka(kafka: Kafka) -> None:
    both = BothStreams(*kafka)
    both.ours.streams_options = _streams_options()

    def life_of(seed: int, group_id: str, topics: Mapping[str, int]) -> StreamsLife:
        life = StreamsLife(seed, group_id, topics, both)
        _configure(both, life)
        return life

    lives = Lives(Topics(both), life_of, kind="streams")
    lives.assert_same(_seeds("STREAMS", STREAMS_LIVES, first=24))


def _configure(both: BothStreams, life: StreamsLife) -> None:
    options = life.options()
    both.configure_group(life.group_id, options)
    tags = options.get("streams.rack.aware.assignment.tags", "")
    both.ours.streams_options_of[life.group_id] = _streams_options(
        int(options["streams.num.standby.replicas"]),
        tuple(tag for tag in tags.split(",") if tag),
        int(options.get("streams.initial.rebalance.delay.ms", 0)),
    )


def _streams_options(
    standby_replicas: int = 0, rack_tags: tuple[str, ...] = (), initial_delay_ms: int = 0
) -> StreamsGroupOptions:
    return StreamsGroupOptions(
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=_HEARTBEAT_MS,
        assignment_interval_ms=0,
        initial_rebalance_delay_ms=initial_delay_ms,
        standby_replicas=standby_replicas,
        rack_tags=rack_tags,
    )
