"""What the tests of all simulations ask of seeds: that they pass, and that they are repeatable."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys

from tests.simulation.campaign import Campaign, Simulate


def assert_every_seed_passes(seeds: range, simulate: Simulate, option: str = "") -> None:
    """Run seeds in two processes; `option` chooses the simulation in the command that is shown."""
    faulthandler.cancel_dump_traceback_later()  # Many seeds take longer than other tests may.
    campaign = Campaign(seeds, 2, simulate)
    for _ in campaign.results():
        pass
    print(campaign.summary())
    command = " ".join(filter(None, ("python -m tests.simulation", option, "--show")))
    assert not campaign.failed, "\n".join(
        f"seed {seed}: {violations[0]} ({command} {seed})"
        for seed, violations in sorted(campaign.failed.items())
    )


def assert_seeds_are_repeatable(seeds: range, module: str) -> None:
    """Run seeds of a module's `simulate` in processes whose hashes, so orders of sets, differ."""
    script = (
        f"from {module} import simulate\n"
        f"for seed in range({seeds.start}, {seeds.stop}): print(simulate(seed).digest)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        for hash_seed in ("1", "2")
    ]
    runs = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert len(set(runs[0])) == len(seeds), "different seeds are different histories"
    assert runs[0] == runs[1]
