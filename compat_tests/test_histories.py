"""Real clients' histories hold while their broker is killed and paused every few seconds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.histories.real_run import Run

OPERATIONS = int(os.environ.get("WIREKAFKA_HISTORY_OPERATIONS", "50000"))


@pytest.mark.timeout(600)
def test_no_client_sees_what_kafka_may_not_show(tmp_path: Path) -> None:
    """A longer run: python -m tests.histories --operations 5000000."""
    run = Run(tmp_path, OPERATIONS, seed=1)
    stage = run.run()
    assert not run.violations, "\n".join(run.violations[:20])
    assert stage.history.count() >= OPERATIONS
    assert run.kills and run.pauses
