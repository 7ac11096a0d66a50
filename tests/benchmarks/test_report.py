"""The report and the tables of the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.cases import CASES, PLANS, Case, Goal, Suite
from benchmarks.measure import CPU_PER_MB, P50, P99, RATE, Metrics, latencies
from benchmarks.peers import Security, Target
from benchmarks.run import Result, Runner


class NamedBroker:
    """A broker with a name and no process."""

    def __init__(self, name: str, calls: list[str]):
        self.name = name
        self._calls = calls

    @contextmanager
    def start(self, directory: Path, security: Security = Security.NONE) -> Iterator[Target]:
        self._calls.append(f"start {self.name}")
        yield Target(self.name, "nowhere", 1)


def test_brokers_take_turns_after_warming_up() -> None:
    calls: list[str] = []

    def measure(target: Target, seconds: float) -> Metrics:
        calls.append(f"{target.name} {seconds:g}")
        return {RATE: len(calls)}

    plan = PLANS[Suite.QUICK]
    runner = Runner(
        [NamedBroker("a", calls), NamedBroker("b", calls)], plan, None, lambda text: None
    )
    result = runner.run(Case(name="any", measure=measure, chart=P50))
    warm_up, run = f"{plan.warm_up_s:g}", f"{plan.seconds:g}"
    assert calls == [
        "start a",
        f"a {warm_up}",
        "start b",
        f"b {warm_up}",
        *[f"a {run}", f"b {run}"] * plan.alternations,
    ]
    assert [len(runs) for runs in result.runs.values()] == [plan.alternations] * 2


def test_warming_up_continues_while_results_improve() -> None:
    rates = chain([100.0, 200.0, 230.0, 240.0], repeat(1.0))
    given: list[float] = []

    def measure(target: Target, seconds: float) -> Metrics:
        given.append(seconds)
        return {RATE: next(rates)}

    plan = PLANS[Suite.USUAL]
    Runner([NamedBroker("a", [])], plan, None, lambda text: None).run(
        Case(name="any", measure=measure, chart=RATE)
    )
    assert given == [plan.warm_up_s] * 4 + [plan.seconds] * plan.alternations


def test_a_case_may_set_its_number_and_duration_of_runs() -> None:
    given: list[float] = []

    def measure(target: Target, seconds: float) -> Metrics:
        given.append(seconds)
        return {RATE: len(given) ** 2}

    case = Case(name="any", measure=measure, chart=RATE, most_turns=2, most_warm_ups=1, least_s=9)
    plan = PLANS[Suite.USUAL]
    Runner([NamedBroker("a", [])], plan, None, lambda text: None).run(case)
    assert given == [plan.warm_up_s, 9, 9]


def test_a_broker_that_fails_is_reported_and_does_not_stop_the_other() -> None:
    def measure(target: Target, seconds: float) -> Metrics:
        if target.name == "b":
            raise ConnectionError("hung up")
        return {RATE: 1.0}

    peers = [NamedBroker("a", []), NamedBroker("b", [])]
    result = Runner(peers, PLANS[Suite.QUICK], None, lambda text: None).run(
        Case(name="any", measure=measure)
    )
    assert result.errors == {"b": "ConnectionError: hung up"}
    assert result.values("a", RATE) and not result.values("b", RATE)


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Goal(metric=RATE, times_at_least=3), "≥ ×3 reached"),
        (Goal(metric=RATE, times_at_least=4), "≥ ×4 **missed**"),
        (Goal(metric=RATE, at_least=310), "≥ 310 reached"),
        (Goal(metric=CPU_PER_MB, at_most=1, times_at_most=0.5), "≤ 1 **missed**, ≤ ×0.5 reached"),
    ],
)
def test_goals_hold_ratios_of_medians_and_the_best_of_absolute_figures(
    goal: Goal, verdict: str
) -> None:
    case = Case(name="any", measure=lambda target, seconds: {}, goals=(goal,))
    result = Result(
        "any",
        {
            "ours": [{RATE: rate, CPU_PER_MB: 2.0} for rate in (290.0, 300.0, 310.0)],
            "theirs": [{RATE: rate, CPU_PER_MB: 5.0} for rate in (1.0, 100.0, 1000.0)],
        },
    )
    assert verdict in "\n".join(report.summary(case, result))


def test_a_run_of_some_cases_keeps_the_rows_of_others(tmp_path: Path) -> None:
    def write(name: str, commit: str, load: float) -> None:
        case = next(case for case in CASES if case.name == name)
        runs = {"ours": [{RATE: load}], "theirs": [{RATE: 1.0}]}
        result = Result(name, runs, seconds=30, load=load, commit=commit)
        machine = {"commit": commit, "cores": "2", "processor": "any"}
        part = report.Report(
            machine=machine,
            plan=PLANS[Suite.USUAL],
            seconds=99,
            peers=["ours", "theirs"],
            cases=[case],
            results=[result],
        )
        report.write(report.combined(part, tmp_path / "usual.json"), tmp_path, "usual")

    write("join a group", "aaa", 7.5)
    write("consume, raw, 10 consumers", "bbb", 1.5)
    write("join a group", "ccc", 2.5)
    whole = report.load(tmp_path / "usual.json")
    assert [(result.case, result.load) for result in whole.results] == [
        ("consume, raw, 10 consumers", 1.5),
        ("join a group", 2.5),
    ]
    assert whole.seconds == 60 and whole.machine["commit"] == "bbb, ccc"
    table = (tmp_path / "usual.md").read_text()
    assert "| join a group | msg/s | 2.5 (2.5–2.5) | 1 (1–1) | 2.50 |  | 2.5 | 1 | 30 s |" in table
    assert "The whole took 1 minutes." in table


def test_percentiles_are_in_milliseconds() -> None:
    metrics = latencies([number / 1000 for number in range(1, 1001)])
    assert (round(metrics[P50]), round(metrics[P99])) == (501, 990)


def test_cases_have_unique_names() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
