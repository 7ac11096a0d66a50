"""Seeds of a whole cluster pass, each is repeatable, and defects of its nodes are detected."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.campaign import Campaign
from tests.simulation.cluster.simulation import simulate

SEEDS = int(os.environ.get("WIREKAFKA_CLUSTER_SEEDS", "20"))
_DIGESTS = (
    "from tests.simulation.cluster.simulation import simulate\n"
    "for seed in range(7_000, 7_002): print(simulate(seed).digest)"
)


@pytest.mark.timeout(3_600)
def test_every_seed_keeps_what_kafka_promises() -> None:
    campaign = Campaign(range(SEEDS), 2, simulate)
    for _ in campaign.results():
        pass
    print(campaign.summary())
    assert not campaign.failed, "\n".join(
        f"seed {seed}: {violations[0]} (python -m tests.simulation --cluster --show {seed})"
        for seed, violations in sorted(campaign.failed.items())
    )


def test_the_same_seed_moves_the_same_bytes() -> None:
    """In processes whose hashes differ, and therefore the order of sets."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _DIGESTS],
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        for hash_seed in ("1", "2")
    ]
    runs = [process.communicate()[0].split() for process in processes]
    assert len(set(runs[0])) == 2, "different seeds are different histories"
    assert runs[0] == runs[1]
