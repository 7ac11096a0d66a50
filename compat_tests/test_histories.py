"""Histories of real clients have no violation while their broker is killed and paused."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.repetitions import repetitions

OPERATIONS = repetitions("WIREKAFKA_HISTORY_OPERATIONS", usual=12_000, thorough=50_000)
KILLS = repetitions("WIREKAFKA_KILLS", usual=2, thorough=6)
_SUMMARY = re.compile(
    r"([\d,]+) operations, ([\d,]+) acknowledged writes, (\d+) kills,"
    r" (\d+) pauses, 0 violations"
)


def campaign(*words: str) -> tuple[int, ...]:
    """The numbers of operations, acknowledged writes, kills and pauses."""
    command = [sys.executable, "-m", "tests.histories", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _SUMMARY.search(ran.stdout)
    assert ran.returncode == 0 and found, ran.stdout[-4000:] + ran.stderr[-4000:]
    return tuple(int(number.replace(",", "")) for number in found.groups())


@pytest.mark.timeout(600)
def test_histories_of_real_clients_have_no_violation() -> None:
    """A longer run: python -m tests.histories --operations 5000000."""
    operations, _, kills, pauses = campaign("--operations", str(OPERATIONS), "--seed", "1")
    assert operations >= OPERATIONS
    assert kills and pauses


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "settings", [(), ("--set", "log.flush.interval.messages=1")], ids=["page-cache", "fsync"]
)
def test_repeated_kills_lose_and_duplicate_nothing(settings: tuple[str, ...]) -> None:
    """A longer run: python -m tests.histories --kills 100."""
    _, acknowledged, kills, _ = campaign(
        "--kills", str(KILLS), "--seed", "2", "--transaction-timeout-ms", "5000", *settings
    )
    assert kills >= KILLS and acknowledged > 100 * KILLS
