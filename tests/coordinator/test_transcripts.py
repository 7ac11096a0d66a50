"""Every transcript, played against the machine."""

from pathlib import Path

import pytest

from tests.coordinator.machine_backend import MachineBackend
from tests.coordinator.transcript import Play, Scenario, scenarios

FOLDER = Path(__file__).parent.parent / "transcripts"


@pytest.mark.parametrize("scenario", list(scenarios(FOLDER)), ids=lambda scenario: scenario.title)
def test_transcript(scenario: Scenario) -> None:
    Play(MachineBackend(**scenario.settings)).run(scenario)


def test_there_are_transcripts_enough() -> None:
    assert len(list(scenarios(FOLDER))) >= 15
