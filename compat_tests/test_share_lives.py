"""Random histories ("lives") of share groups: the same responses and records as from Kafka."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from compat_tests import apache_kafka
from compat_tests.consumer_pair import Difference
from compat_tests.differential_share import ShareLife
from compat_tests.share_pair import BothShareBrokers
from wirekafka.coordinator.java_order import uuid_hash_code
from wirekafka.coordinator.share.config import ShareGroupOptions

_SESSION_MS = 6000
_SETTINGS = f"""offsets.topic.num.partitions=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.append.linger.ms=0
group.coordinator.append.linger.ms=0
group.share.min.session.timeout.ms=1000
group.share.session.timeout.ms={_SESSION_MS}
group.share.min.heartbeat.interval.ms=100
group.share.heartbeat.interval.ms=500
group.share.assignment.interval.ms=0
"""
_CANDIDATES = 49
"""Enough topics for four to share one of the 16 buckets of a Java map, whatever their ids."""
_ALIKE = (3, 1, 17, 3)
"""How many partitions each of those four has; the others decide when a map grows."""
_OTHERS = 9
_LATER = 6
"""The partitions of a topic that is created in the middle of the lives."""
_ROUNDS = 10
_STEPS = 3
_LIVES = int(os.environ.get("WIREKAFKA_SHARE_LIVES", "12"))
"""How many groups are compared at once."""
_FIRST = int(os.environ.get("WIREKAFKA_SHARE_SEED", "0"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothShareBrokers]:
    directory = tmp_path_factory.mktemp("kafka")
    port, command = apache_kafka.prepare(
        directory, apache_kafka.SMALL_JVM, apache_kafka.SMALL_CLEANER + _SETTINGS
    )
    with apache_kafka.running(command, directory, port):
        both = BothShareBrokers(("127.0.0.1", port), Path(directory) / "data")
        both.ours.share_options = ShareGroupOptions(_SESSION_MS, 500, 0)
        yield both


def test_random_histories_of_groups_are_as_on_apache_kafka(both: BothShareBrokers) -> None:
    """A history that differs is played again: Kafka ends sessions by the clock, so a busy machine
    may put a step on the other side of such a moment. A real difference shows again."""
    differences = _differences(both, range(_FIRST, _FIRST + _LIVES), "life")
    if differences:
        differences = _differences(both, sorted(differences), "again")
    assert not differences, "\n\n".join(
        f"seed {seed}: {text}" for seed, text in differences.items()
    )[:6000]


def _differences(both: BothShareBrokers, seeds: Iterable[int], prefix: str) -> dict[int, str]:
    """Play the history of one group per seed; the first difference of each, by seed."""
    topics = _topics_alike(both, prefix)
    gone, grown = list(topics)[:2]
    later = f"{prefix}-later"
    lives = [ShareLife(seed, f"{prefix}-{seed}", {**topics, later: _LATER}, both) for seed in seeds]
    differences: dict[int, str] = {}
    for turn in range(_ROUNDS):
        _play(lives, differences, turn)
        if turn == _ROUNDS // 2:
            both.create_topics({later: _LATER})
            both.grow_topics({grown: 4})
        if turn == _ROUNDS // 2 + 2:
            both.delete_topics([gone])
            both.await_states(life.group_id for life in lives)
        if turn in (3, 8):
            _lose_some(lives, differences, both)
    records = both.record_differences(life.group_id for life in lives)
    return {_seed(group_id): text for group_id, text in records.items()} | differences


def _topics_alike(both: BothShareBrokers, prefix: str) -> dict[str, int]:
    """Create topics, the first of which have ids that share a bucket; their partition counts.

    Kafka chooses the ids. The order of those that share a bucket depends on a map's history.
    """
    names = [f"{prefix}-{number}" for number in range(_CANDIDATES)]
    both.create_topics(dict.fromkeys(names, 1))
    ids = both.topic_ids()
    alike: dict[int, list[str]] = defaultdict(list)
    for name in names:
        code = uuid_hash_code(ids[name])
        alike[(code ^ code >> 16) % 16].append(name)
    first = max(alike.values(), key=len)[: len(_ALIKE)]
    others = [name for name in names if name not in first][:_OTHERS]
    topics = dict(zip(first, _ALIKE, strict=True)) | dict.fromkeys(others, 3)
    both.grow_topics({name: count for name, count in topics.items() if count > 1})
    return topics


def _seed(group_id: str) -> int:
    return int(group_id.rpartition("-")[2])


def _play(lives: list[ShareLife], differences: dict[int, str], turn: int) -> None:
    for life in list(lives):
        try:
            for _ in range(_STEPS):
                life.step()
            life.beat_all()
        except Difference as difference:
            differences[_seed(life.group_id)] = f"round {turn}: {difference}"
            lives.remove(life)


def _lose_some(lives: list[ShareLife], differences: dict[int, str], both: BothShareBrokers) -> None:
    """Let the sessions of silent members end."""
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
