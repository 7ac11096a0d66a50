"""The controller decides as Apache Kafka's: equal responses, equal records, in equal batches.

Simulated brokers register with both, so that one JVM is enough and no decision depends on time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.controller_scripts import SCRIPTS, SETTINGS, TIMED_SETTINGS, timed
from compat_tests.controller_stage import Stage, Step
from compat_tests.controllers import ActiveController, ApacheController, OwnController


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheController]:
    with ApacheController.running(tmp_path_factory.mktemp("controller"), **SETTINGS) as controller:
        yield controller


@pytest.fixture(scope="module")
def own() -> OwnController:
    return OwnController(**SETTINGS)


def _transcript(controller: ActiveController, script: str) -> list[Step]:
    stage = Stage(controller)
    SCRIPTS[script](stage)
    stage.clear()
    return stage.transcript


@pytest.mark.parametrize("script", SCRIPTS)
def test_controllers_decide_alike(
    apache: ApacheController, own: OwnController, script: str
) -> None:
    expected, found = _transcript(apache, script), _transcript(own, script)
    assert len(expected) > 10
    for theirs, ours in zip(expected, found, strict=True):
        assert ours == theirs, f"{script}: {theirs.label}"


def test_what_happens_without_a_request_is_alike(tmp_path: Path) -> None:
    transcripts = []
    with ApacheController.running(tmp_path, **TIMED_SETTINGS) as apache:
        for controller in (apache, OwnController(**TIMED_SETTINGS)):
            stage = Stage(controller)
            timed(stage)
            transcripts.append(stage.transcript)
    for theirs, ours in zip(*transcripts, strict=True):
        assert ours == theirs, theirs.label
