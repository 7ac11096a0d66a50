"""Processes that die amid an append, and processes that race: rows are those below the marks."""

import random
import signal

import pytest

from tests.repetitions import is_thorough, seeds
from tests.tables.iceberg.appender import PARTITIONS, Appenders, appenders
from tests.tables.iceberg.crash_sites import SITES
from tests.tables.iceberg.lake import a_table, assert_holds_its_marks, files_of

HOURS = "(hour(redpanda.timestamp))"
SEEDS = seeds("WIREKAFKA_ICEBERG_SEEDS", usual=1, thorough=20)
SITE_COUNT = len(SITES) if is_thorough() else 12
"""How many sites a seed tries, in random order."""


@pytest.fixture(scope="module")
def processes():
    with appenders() as started:
        yield started


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_process_killed_at_any_step_leaves_the_rows_below_its_marks(
    processes: Appenders, tmp_path, seed
):
    """One site after another, in one table, which the next process goes on with."""
    table = a_table(tmp_path, partition_spec="()")
    with table.table.transaction() as transaction:
        # Old metadata is deleted by the third commit on.
        transaction.set_properties({"write.metadata.previous-versions-max": "2"})
    order = random.Random(seed)
    end = 0
    for site in order.sample(SITES, SITE_COUNT):
        arguments = {"directory": str(tmp_path), "seed": order.random(), "end": end + 1000}
        occurrence = order.randint(1, 2)
        killed = processes.run(arguments | {"site": site, "occurrence": occurrence})
        assert killed == [-signal.SIGKILL], site
        ends = assert_holds_its_marks(table)
        end = max(ends.values(), default=0)
    assert processes.run({"directory": str(tmp_path), "seed": seed, "end": end + 1}) == [0]
    assert assert_holds_its_marks(table) == dict.fromkeys(range(PARTITIONS), end + 1)
    assert all(path.exists() for path in files_of(table))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_processes_that_race_append_each_offset_once(processes: Appenders, tmp_path, seed):
    end = 25
    arguments = [
        {"directory": str(tmp_path), "seed": f"{seed} {each}", "end": end, "spec": HOURS}
        for each in range(2)
    ]
    assert processes.run(*arguments) == [0, 0]
    table = a_table(tmp_path, partition_spec=HOURS)
    assert assert_holds_its_marks(table) == dict.fromkeys(range(PARTITIONS), end)
    assert len(list(tmp_path.rglob("*.parquet"))) == len(files_of(table))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_process_goes_on_though_another_is_killed(processes: Appenders, tmp_path, seed):
    end = 20
    order = random.Random(seed)
    first = {"directory": str(tmp_path), "seed": f"{seed}", "end": end}
    killed = {"site": order.choice(SITES), "occurrence": order.randint(1, 3), "seed": seed}
    codes = processes.run(first | killed, first)
    assert codes[1] == 0
    table = a_table(tmp_path, partition_spec="()")
    assert assert_holds_its_marks(table) == dict.fromkeys(range(PARTITIONS), end)
