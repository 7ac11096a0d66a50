"""The transcripts of rebalances, played against a live broker: ours, or Apache Kafka itself."""

from __future__ import annotations

import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from compat_tests.conftest import RunningBroker
from compat_tests.mortal_broker import MortalBroker
from tests.coordinator.transcript import Play, Scenario, scenarios
from tests.coordinator.wire_backend import WireBackend

FOLDER = Path(__file__).parent.parent / "tests" / "transcripts"

# Scenarios that need other settings run only against the state machine.
DEFAULT = [scenario for scenario in scenarios(FOLDER) if not scenario.settings]
RESTARTING = [
    scenario for scenario in DEFAULT if any(line == "broker restarts" for _, line in scenario.lines)
]
PLAYABLE = [scenario for scenario in DEFAULT if scenario not in RESTARTING]


@pytest.fixture(scope="module")
def outcomes(broker: RunningBroker) -> dict[str, Future[None]]:
    """The outcomes of all scenarios, which run at once, each in a group of its own."""
    WireBackend(*broker.address).close()

    def play(scenario: Scenario) -> None:
        try:
            _play(scenario, broker)
        except AssertionError:
            if not _is_timed(scenario):
                raise
            # On a busy machine time passes between the steps; a real difference shows again.
            _play(scenario, broker)

    with ThreadPoolExecutor(16) as pool:
        return {scenario.title: pool.submit(play, scenario) for scenario in PLAYABLE}


def _play(scenario: Scenario, broker: RunningBroker) -> None:
    backend = WireBackend(*broker.address)
    try:
        Play(backend, f"transcript-{secrets.token_hex(6)}").run(scenario)
    finally:
        backend.close()


def _is_timed(scenario: Scenario) -> bool:
    return any(line.endswith(" ms later") for _, line in scenario.lines)


@pytest.mark.parametrize("scenario", PLAYABLE, ids=lambda scenario: scenario.title)
def test_transcript(scenario: Scenario, outcomes: dict[str, Future[None]]) -> None:
    outcomes[scenario.title].result()


@pytest.mark.parametrize("scenario", RESTARTING, ids=lambda scenario: scenario.title)
def test_transcript_with_kill_9(scenario: Scenario, tmp_path: Path) -> None:
    broker = MortalBroker(tmp_path / "data")
    broker.start()

    def restart() -> None:
        broker.kill()
        broker.start()

    host, _, port = broker.bootstrap.rpartition(":")
    backend = WireBackend(host, int(port), restart)
    try:
        Play(backend).run(scenario)
    finally:
        backend.close()
        broker.stop()
