"""A campaign ends although a seed does not, or although one of its processes dies."""

from __future__ import annotations

import asyncio
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
    if seed == 3:
        asyncio.run(_turn_endlessly())
    return Result(seed=seed, violations=[], digest="", steps=1, crashes=0, virtual_s=0)


async def _turn_endlessly() -> None:
    while True:
        await asyncio.sleep(0)


def deadly(seed: int) -> Result:
    os._exit(1)


def test_a_seed_that_does_not_end_is_reported() -> None:
    campaign = Campaign(range(7), 2, endless_for_seed_3, seed_limit_s=0.5)
    assert [result.seed for result in campaign.results()] == list(range(7))
    [violation] = campaign.failed.pop(3)
    assert "did not end in time" in violation and not campaign.failed


def test_the_death_of_a_process_is_reported() -> None:
    with pytest.raises(BrokenProcessPool):
        list(Campaign(range(7), 2, deadly).results())


def test_results_that_are_not_wanted_any_more_end_the_processes() -> None:
    results = Campaign(range(10_000), 2, endless_for_seed_3, seed_limit_s=0.5).results()
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
