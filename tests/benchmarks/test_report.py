"""What the benchmark says of its figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.cases import CASES, PLANS, Case, Goal, Suite
from benchmarks.measure import CPU_PER_MB, P50, P99, RATE, Metrics, latencies
from benchmarks.peers import Target
from benchmarks.run import Result, Runner


class Pretended:
    """A broker that is nothing but a name."""

    def __init__(self, name: str, calls: list[str]):
        self.name = name
        self._calls = calls

    @contextmanager
    def start(self, directory: Path) -> Iterator[Target]:
        self._calls.append(f"start {self.name}")
        yield Target(self.name, "nowhere", 1)


def test_brokers_take_turns_after_warming_up() -> None:
    calls: list[str] = []

    def measure(target: Target, seconds: float) -> Metrics:
        calls.append(f"{target.name} {seconds:g}")
        return {RATE: len(calls)}

    plan = PLANS[Suite.QUICK]
    runner = Runner([Pretended("a", calls), Pretended("b", calls)], plan, None, lambda text: None)
    result = runner.run(Case(name="any", measure=measure, chart=P50))
    warm_up, run = f"{plan.warm_up_s:g}", f"{plan.seconds:g}"
    assert calls == ["start a", f"a {warm_up}", "start b", f"b {warm_up}",
                     *[f"a {run}", f"b {run}"] * plan.alternations]
    assert [len(runs) for runs in result.runs.values()] == [plan.alternations] * 2


def test_warming_up_goes_on_while_it_brings_much() -> None:
    rates = iter([100.0, 200.0, 230.0, 240.0, 1.0, 1.0, 1.0])
    given: list[float] = []

    def measure(target: Target, seconds: float) -> Metrics:
        given.append(seconds)
        return {RATE: next(rates)}

    plan = PLANS[Suite.QUICK]
    Runner([Pretended("a", [])], plan, None, lambda text: None).run(
        Case(name="any", measure=measure, chart=RATE))
    assert given == [plan.warm_up_s] * 4 + [plan.seconds] * plan.alternations


def test_a_broker_that_fails_is_told_and_does_not_stop_the_other() -> None:
    def measure(target: Target, seconds: float) -> Metrics:
        if target.name == "b":
            raise ConnectionError("hung up")
        return {RATE: 1.0}

    peers = [Pretended("a", []), Pretended("b", [])]
    result = Runner(peers, PLANS[Suite.QUICK], None, lambda text: None).run(
        Case(name="any", measure=measure))
    assert result.errors == {"b": "ConnectionError: hung up"}
    assert result.values("a", RATE) and not result.values("b", RATE)


@pytest.mark.parametrize(("goal", "told"), [
    (Goal(metric=RATE, times_at_least=3), "≥ ×3 reached"),
    (Goal(metric=RATE, times_at_least=4), "≥ ×4 **missed**"),
    (Goal(metric=RATE, at_least=310), "≥ 310 reached"),
    (Goal(metric=CPU_PER_MB, at_most=1, times_at_most=0.5),
     "≤ 1 **missed**, ≤ ×0.5 reached"),
])
def test_goals_hold_ratios_of_medians_and_the_best_of_absolute_figures(
        goal: Goal, told: str) -> None:
    case = Case(name="any", measure=lambda target, seconds: {}, goals=(goal,))
    result = Result("any", {
        "ours": [{RATE: rate, CPU_PER_MB: 2.0} for rate in (290.0, 300.0, 310.0)],
        "theirs": [{RATE: rate, CPU_PER_MB: 5.0} for rate in (1.0, 100.0, 1000.0)]})
    assert told in "\n".join(report.summary(case, result))


def test_percentiles_are_in_milliseconds() -> None:
    metrics = latencies([number / 1000 for number in range(1, 1001)])
    assert (round(metrics[P50]), round(metrics[P99])) == (501, 990)


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
