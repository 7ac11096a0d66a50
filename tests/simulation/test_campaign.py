"""A campaign ends although a seed does not, or although one of its processes dies."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import psutil
import pytest

from tests.eventually import eventually
from tests.simulation.campaign import Campaign
from tests.simulation.simulation import Result


def endless_for_seed_3(seed: int) -> Result:
    while seed == 3:
        pass
    return Result(seed=seed, violations=[], digest="", steps=1, crashes=0, virtual_s=0)


def quick(seed: int) -> Result:
    return Result(seed=seed, violations=[], digest="", steps=1, crashes=0, virtual_s=0)


def deadly(seed: int) -> Result:
    os._exit(1)


ENDLESS = """
from tests.simulation.campaign import Campaign
from tests.simulation.test_campaign import endless_for_seed_3

list(Campaign(range(7), 2, endless_for_seed_3, seed_limit_s=0.5).results())
"""


def test_a_seed_that_does_not_end_is_named() -> None:
    command = [sys.executable, "-c", ENDLESS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "seed 3 does not end" in ended.stderr and "BrokenProcessPool" in ended.stderr


def test_the_death_of_a_process_is_reported() -> None:
    with pytest.raises(BrokenProcessPool):
        list(Campaign(range(7), 2, deadly).results())


def test_results_that_are_not_wanted_any_more_end_the_processes() -> None:
    results = Campaign(range(10_000), 2, quick).results()
    next(results)
    results.close()  # type: ignore[attr-defined]


def test_no_process_outlives_a_campaign_that_is_killed() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "1000", "--processes", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as campaign:
        started = psutil.Process(campaign.pid)
        processes = eventually(
            lambda: found if len(found := started.children(recursive=True)) >= 4 else []
        )
        campaign.kill()
    eventually(lambda: not any(each.is_running() for each in processes))
