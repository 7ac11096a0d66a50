"""Every transcript, played against the machine, and against a whole node over the wire."""

from pathlib import Path

import pytest

from tests.coordinator.in_process_backend import InProcessBackend
from tests.coordinator.machine_backend import MachineBackend
from tests.coordinator.transcript import Play, Scenario, scenarios

FOLDER = Path(__file__).parent.parent / "transcripts"


@pytest.mark.parametrize("scenario", list(scenarios(FOLDER)), ids=lambda scenario: scenario.title)
def test_transcript(scenario: Scenario) -> None:
    Play(MachineBackend(**scenario.settings)).run(scenario)


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
    """Outcomes of scenarios are kept by title: a repeated one would hide another."""
    found = list(scenarios(FOLDER))
    assert {each.path for each in found} == set(FOLDER.iterdir())
    assert all(each.lines for each in found)
    titles = [each.title for each in found]
    assert sorted(titles) == sorted(set(titles))
