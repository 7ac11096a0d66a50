"""A Spark query that copies a topic is killed again and again; the copy is compared.

A campaign: `python -m compat_tests.sink_campaign` has the parameters, and prints each kill. Spark's
own sink repeats records, which shows that the comparison finds what is wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.cluster import KAFKA, WIREKAFKA
from compat_tests.copied_topic import CopyCheck, key_of
from compat_tests.sink_campaign import Plan, carried_out
from compat_tests.sink_kills import DRIVER, EXECUTOR, WORKER
from tests.repetitions import repetitions

RECORDS = repetitions("WIREKAFKA_SINK_RECORDS", usual=100_000, thorough=1_000_000)
KILLS = repetitions("WIREKAFKA_SINK_KILLS", usual=20, thorough=200)


@pytest.mark.parametrize(
    "numbers, wrong",
    [
        ((0, 1, 100, 101), (0, 0, 0)),
        ((0, 1, 100), (1, 0, 0)),
        ((0, 1, 100, 100, 101), (0, 1, 0)),
        ((0, 100, 1, 0, 101), (0, 1, 0)),
        ((100, 0, 1, 101), (0, 0, 1)),
        ((100, 101, 1, 0), (0, 0, 2)),
    ],
)
def test_the_check_counts_lost_repeated_and_disordered_records(
    numbers: tuple[int, ...], wrong: tuple[int, int, int]
) -> None:
    check = CopyCheck([0, 1, 100, 101])
    for number in numbers:
        check.note(key_of(number), f"{number}.xxx")
    copy = check.result()
    assert (copy.missing, copy.repeated, copy.disordered) == wrong
    assert copy.is_exact == (wrong == (0, 0, 0))


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("engine, share", [(WIREKAFKA, 1), (KAFKA, 4)])
def test_each_record_is_copied_once_and_in_order_within_its_key(
    engine: str, share: int, tmp_path: Path
) -> None:
    plan = Plan(engine=engine, records=RECORDS // share, kills=KILLS // share)
    outcome = carried_out(plan, tmp_path)
    assert outcome.copy.is_exact, outcome.copy
    assert outcome.killed.total() == plan.kills


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_sparks_own_sink_repeats_records_when_it_is_killed(tmp_path: Path) -> None:
    plan = Plan(sink="kafka", records=600_000, kills=4, victims=(WORKER, EXECUTOR, DRIVER))
    copy = carried_out(plan, tmp_path).copy
    assert copy.missing == 0 and copy.repeated > 0
