"""Every transcript, played against the state machine and against a complete node."""

from pathlib import Path

import pytest

from tests.coordinator.in_process_backend import InProcessBackend
from tests.coordinator.machine_backend import MachineBackend
from tests.coordinator.transcript import Play, Scenario, scenarios

FOLDER = Path(__file__).parent.parent / "transcripts"


@pytest.mark.parametrize("scenario", list(scenarios(FOLDER)), ids=lambda scenario: scenario.title)
def test_transcript(scenario: Scenario) -> None:
    Play(MachineBackend(**scenario.settings)).run(scenario)


@pytest.mark.long
@pytest.mark.parametrize(
    "scenario",
    [each for each in scenarios(FOLDER) if not each.settings],
    ids=lambda scenario: scenario.title,
)
def test_transcript_over_the_wire(scenario: Scenario) -> None:
    backend = InProcessBackend()
    try:
        Play(backend).run(scenario)
    finally:
        backend.close()


def test_every_transcript_has_scenarios_whose_titles_are_unique() -> None:
    """Outcomes of scenarios are stored by title: a repeated title would hide a scenario."""
    found = list(scenarios(FOLDER))
    assert {each.path for each in found} == set(FOLDER.iterdir())
    assert all(each.lines for each in found)
    titles = [each.title for each in found]
    assert sorted(titles) == sorted(set(titles))
