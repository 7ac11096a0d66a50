"""Random histories ("lives") of streams groups: the same responses and records as from Kafka."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from compat_tests import apache_kafka
from compat_tests.consumer_pair import Difference
from compat_tests.differential_streams import Life
from compat_tests.streams_pair import BothStreams
from wirekafka.coordinator.streams.config import StreamsGroupOptions

_SESSION_MS = 6000
_SETTINGS = f"""offsets.topic.num.partitions=1
group.streams.min.session.timeout.ms=1000
group.streams.session.timeout.ms={_SESSION_MS}
group.streams.min.heartbeat.interval.ms=100
group.streams.heartbeat.interval.ms=500
group.streams.assignment.interval.ms=0
group.streams.initial.rebalance.delay.ms=0
"""
_TOPICS = {"a": 3, "b": 1, "c": 17, "d": 6}
_ROUNDS = 12
_STEPS = 3
_LIVES = int(os.environ.get("WIREKAFKA_STREAMS_LIVES", "8"))
"""How many groups are compared at once."""
_FIRST = int(os.environ.get("WIREKAFKA_STREAMS_SEED", "24"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothStreams]:
    directory = tmp_path_factory.mktemp("kafka")
    port, command = apache_kafka.prepare(
        directory, apache_kafka.SMALL_JVM, apache_kafka.SMALL_CLEANER + _SETTINGS
    )
    with apache_kafka.running(command, directory, port):
        both = BothStreams(("127.0.0.1", port), Path(directory) / "data")
        both.ours.streams_options = _options()
        yield both


def test_random_histories_of_groups_are_as_on_apache_kafka(both: BothStreams) -> None:
    """A history that differs is played again: Kafka ends sessions by the clock, so a busy machine
    may put a step on the other side of such a moment. A real difference shows again."""
    differences = _differences(both, range(_FIRST, _FIRST + _LIVES), "life")
    if differences:
        print("\n\n".join(f"first, seed {seed}: {text}" for seed, text in differences.items()))
        differences = _differences(both, sorted(differences), "again")
    assert not differences, "\n\n".join(
        f"seed {seed}: {text}" for seed, text in differences.items()
    )[:6000]


def _options(
    standby_replicas: int = 0, rack_tags: tuple[str, ...] = (), initial_delay_ms: int = 0
) -> StreamsGroupOptions:
    return StreamsGroupOptions(
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=500,
        assignment_interval_ms=0,
        initial_rebalance_delay_ms=initial_delay_ms,
        standby_replicas=standby_replicas,
        rack_tags=rack_tags,
    )


def _differences(both: BothStreams, seeds: Iterable[int], prefix: str) -> dict[int, str]:
    """Play the history of one group per seed; the first difference of each, by seed."""
    names = {seed: f"{prefix}-{seed}" for seed in seeds}
    both.create_topics(
        {
            f"{name}-{topic}": count
            for name in names.values()
            for topic, count in _TOPICS.items()
            if topic != "d"
        }
    )
    lives = [
        Life(seed, name, [f"{name}-{topic}" for topic in _TOPICS], both)
        for seed, name in names.items()
    ]
    for life in lives:
        _configure(both, life)
    differences: dict[int, str] = {}
    for turn in range(_ROUNDS):
        _play(lives, differences, turn)
        if turn == _ROUNDS // 2:
            both.create_topics({f"{name}-d": _TOPICS["d"] for name in names.values()})
            both.grow_topics({f"{name}-b": 4 for name in names.values()})
        if turn in (3, 8):
            _lose_some(lives, differences, both)
    records = both.record_differences(life.group_id for life in lives)
    return {_seed(group_id): text for group_id, text in records.items()} | differences


def _configure(both: BothStreams, life: Life) -> None:
    options = life.options()
    both.configure_group(life.group_id, options)
    tags = options.get("streams.rack.aware.assignment.tags", "")
    both.ours.streams_options_of[life.group_id] = _options(
        int(options["streams.num.standby.replicas"]),
        tuple(tag for tag in tags.split(",") if tag),
        int(options.get("streams.initial.rebalance.delay.ms", 0)),
    )


def _seed(group_id: str) -> int:
    return int(group_id.rpartition("-")[2])


def _play(lives: list[Life], differences: dict[int, str], turn: int) -> None:
    for life in list(lives):
        try:
            for _ in range(_STEPS):
                life.step()
            life.beat_all()
        except Difference as difference:
            differences[_seed(life.group_id)] = f"round {turn}: {difference}"
            lives.remove(life)


def _lose_some(lives: list[Life], differences: dict[int, str], both: BothStreams) -> None:
    """Let the sessions of silent members, and of static members that are away, end."""
    for pause in range(2):
        for life in list(lives):
            try:
                life.beat_all()
                if not pause:
                    life.silence_a_member()
            except Difference as difference:
                differences[_seed(life.group_id)] = f"lost: {difference}"
                lives.remove(life)
        both.wait(_SESSION_MS / 1000 * 0.57)
    for life in lives:
        life.remove_silent_members()
