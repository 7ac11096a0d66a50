"""A thousand seeds pass, each is repeatable, and defects of a broker are detected."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.repetitions import seeds
from tests.simulation.seeds import assert_every_seed_passes
from tests.simulation.simulation import _Simulation, has_shares, simulate
from wirekafka.coordinator.groups.share.leader import ShareLeader
from wirekafka.coordinator.transactions.markers import MarkerWriter
from wirekafka.log.log import Log
from wirekafka.log.producers import ProducerStates
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.share.partition import SharePartition

SEEDS = seeds("WIREKAFKA_SEEDS", usual=50, thorough=1_000)
_DIGESTS = (
    "import gc; gc.set_threshold({threshold}, 10, 10)\n"
    "elsewhere = [object() for _ in range({threshold} * 37)]\n"
    "from tests.simulation.simulation import simulate\n"
    "for seed in range({first}, {end}): print(simulate(seed).digest)"
)


@pytest.mark.timeout(1_200)
def test_every_seed_keeps_what_kafka_promises() -> None:
    assert_every_seed_passes(range(SEEDS), simulate)


def test_the_same_seed_sends_the_same_bytes() -> None:
    """In processes whose hashes and addresses differ, and therefore the order of sets."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", _DIGESTS.format(first=5_000, end=5_020, threshold=threshold)],
            check=True,
            text=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout.split()
        for hash_seed, threshold in (("1", 700), ("2", 50))
    ]
    assert len(set(runs[0])) == 20, "different seeds move different bytes"
    assert runs[0] == runs[1]


def test_a_broker_that_appends_retries_again_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStates, "check", lambda *_: None)
    assert "DUPLICATE" in _kinds_found(20)


def test_a_broker_that_commits_aborted_transactions_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = MarkerWriter.write

    def commit(self: Any, ending: Any, where: Any) -> Any:
        object.__setattr__(ending, "marker", ending.marker._replace(is_commit=True))
        return write(self, ending, where)

    monkeypatch.setattr(MarkerWriter, "write", commit)
    assert {"ABORTED_READ", "ABORTED_OFFSETS"} & _kinds_found(20)


def test_a_broker_that_loses_open_transactions_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))
    assert {"UNCOMMITTED_READ", "ABORTED_READ"} & _kinds_found(20)


def test_a_broker_that_does_not_sync_is_detected_by_power_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Partition, "sync_or_defer", lambda self: True)
    assert {"LOST_WRITE", "UNSEEN", "DUPLICATE", "INCONSISTENT_OFFSETS"} & _kinds_found(20)


def test_a_broker_that_loses_aborts_in_a_power_cut_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut_power = _Simulation._cut_power

    async def forget(self: _Simulation) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Log, "aborted_transactions", lambda *_: [])
            await cut_power(self)

    monkeypatch.setattr(_Simulation, "_cut_power", forget)
    assert _kinds_found(20) == {"ABORTED_READ"}


def test_a_broker_that_does_not_store_acknowledgements_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def write(*_: Any) -> None:
        pass

    monkeypatch.setattr(ShareLeader, "_write", write)
    assert _is_found("DELIVERED_AGAIN", has_shares)


def test_a_broker_whose_locks_never_expire_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharePartition, "deadline", lambda _: None)
    assert _is_found("STUCK", has_shares)


def _kinds_found(seeds: int) -> set[str]:
    """The violations of the first seed that has any, among this number of seeds."""
    return next(filter(None, map(_kinds, range(seeds))), set())


def _is_found(kind: str, concerned: Callable[[int], bool]) -> bool:
    """Whether the checker finds this violation in one of the first affected seeds."""
    return any(kind in _kinds(seed) for seed in filter(concerned, range(20)))


def _kinds(seed: int) -> set[str]:
    return {violation.split(" ")[0] for violation in simulate(seed).violations}
