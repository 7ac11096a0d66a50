"""What a run has found: counts by API and level, and differences with equal ones merged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from wirekafka.conformance.case import ConformanceLevel
from wirekafka.conformance.expectation import ABSENT, Deviation, compact, said
from wirekafka.conformance.plain import Plain, plain
from wirekafka.conformance.recordings import ranges
from wirekafka.conformance.run import CaseResult, Outcome, Played
from wirekafka.conformance.wire import WireExchange

_PLACE = re.compile(r"^\d+ |\[\d+\]")
"""What two places have of their own that show the same: the number of a step, and of an element."""


@dataclass(frozen=True)
class ConformanceReport:
    """Everything that the reports of one run show."""

    target: str
    """The cluster, in words."""
    release: str
    """The release of Apache Kafka whose answers are expected."""
    started: str
    """When the run began, in UTC."""
    seconds: float
    results: Sequence[CaseResult]
    remarks: Sequence[str] = ()
    left: Sequence[str] = ()
    """What the run could not remove, in words."""

    @cached_property
    def total(self) -> OutcomeCounts:
        return OutcomeCounts.of("", self.results)

    @cached_property
    def levels(self) -> list[OutcomeCounts]:
        """The counts of each level; COMPLETE has all cases."""
        found = []
        for level in ConformanceLevel:
            mine = [each for each in self.results if each.case.level == level]
            if level is ConformanceLevel.COMPLETE:
                mine = list(self.results)
            found.append(OutcomeCounts.of(str(level), mine))
        return found

    @cached_property
    def apis(self) -> list[tuple[str, OutcomeCounts]]:
        """The area and the counts of each API."""
        by_api: dict[tuple[str, str], list[CaseResult]] = {}
        for each in self.results:
            by_api.setdefault((each.case.area, each.case.api), []).append(each)
        return [(area, OutcomeCounts.of(api, some)) for (area, api), some in by_api.items()]

    @cached_property
    def groups(self) -> list[CaseGroup]:
        """The cases that differ, with all that differ in the same way of an API in one group."""
        found: dict[tuple[str, object], CaseGroup] = {}
        for each in self.results:
            if each.outcome == "different":
                shown = DifferentCase.of(each)
                key = (each.case.api, shown.signature)
                found.setdefault(key, CaseGroup(each.case.api, each.case.area, [])).cases.append(
                    shown
                )
        return list(found.values())

    @cached_property
    def unsupported(self) -> list[tuple[str, str, list[str]]]:
        """The API, why its cases were not played, and their names."""
        found: dict[tuple[str, str], list[str]] = {}
        for each in self.results:
            if each.outcome == "unsupported":
                reason = reason_of(each)
                found.setdefault((each.case.api, reason), []).append(each.case.name)
        return [(api, reason, names) for (api, reason), names in found.items()]


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How many cases have each outcome."""

    name: str
    same: int
    different: int
    unsupported: int

    @classmethod
    def of(cls, name: str, results: Iterable[CaseResult]) -> OutcomeCounts:
        counts: dict[Outcome, int] = {"same": 0, "different": 0, "unsupported": 0}
        for each in results:
            counts[each.outcome] += 1
        return cls(name, **counts)

    @property
    def cases(self) -> int:
        return self.same + self.different + self.unsupported

    @property
    def percent(self) -> str:
        """The share of cases that are the same, rounded down: 100 only if all are."""
        if not self.cases:
            return "-"
        return f"{self.same * 1000 // self.cases / 10:.1f} %"


@dataclass(frozen=True, slots=True)
class MergedDifference:
    """A difference, with all versions that have it."""

    path: str
    """The step of the case, and the field in the answer to it."""
    expected: Plain
    got: Plain
    versions: tuple[int, ...]
    request: str
    """The request that shows it, decoded on one line; empty where there is none."""
    exchange: WireExchange | None
    """The request and the answer as bytes."""

    @property
    def expected_text(self) -> str:
        return _shown(self.path, self.expected)

    @property
    def got_text(self) -> str:
        return _shown(self.path, self.got)

    @property
    def shown_versions(self) -> str:
        return f"v{ranges(self.versions)}"


@dataclass(frozen=True, slots=True)
class DifferentCase:
    """A case whose answers differ, with its differences over all versions."""

    result: CaseResult
    differences: tuple[MergedDifference, ...]
    failures: tuple[tuple[str, str], ...]
    """Why it was not played to its end, each with its versions."""

    @classmethod
    def of(cls, result: CaseResult) -> DifferentCase:
        versions: dict[tuple[str, str, str], list[int]] = {}
        first: dict[tuple[str, str, str], tuple[Played, Deviation]] = {}
        failures: dict[str, list[int]] = {}
        for played in result.played:
            if played.failure:
                failures.setdefault(played.failure, []).append(played.version)
            for each in played.differences:
                key = (each.path, said(each.expected), said(each.got))
                versions.setdefault(key, []).append(played.version)
                first.setdefault(key, (played, each))
        differences = tuple(
            _merged(played, each, tuple(versions[key])) for key, (played, each) in first.items()
        )
        failed = tuple((f"v{ranges(some)}", text) for text, some in failures.items())
        return cls(result, differences, failed)

    @property
    def name(self) -> str:
        return self.result.case.name

    @property
    def story(self) -> str:
        """What happens in the case, on one line; empty where its title says it."""
        return " ".join(self.result.case.story.split())

    @property
    def signature(self) -> object:
        """Equal for cases that differ in the same way."""
        texts = {
            (_PLACE.sub("", each.path), each.expected_text, each.got_text)
            for each in self.differences
        }
        return frozenset(texts), frozenset(text for _, text in self.failures)


@dataclass(frozen=True, slots=True)
class CaseGroup:
    """Cases of one API that differ in the same way."""

    api: str
    area: str
    cases: list[DifferentCase]

    @property
    def first(self) -> DifferentCase:
        return self.cases[0]


def in_order(results: Iterable[CaseResult], order: Callable[[str], int]) -> list[CaseResult]:
    """The results by area and API, and within an API as the book has them."""
    return sorted(results, key=lambda each: (each.case.area, each.case.api, order(each.case.name)))


def reason_of(result: CaseResult) -> str:
    """Why a case was not played, or not to its end; empty if it was."""
    if result.outcome == "same":
        return ""
    texts: dict[str, list[int]] = {}
    for each in result.played:
        text = each.failure or each.unsupported
        if text:
            texts.setdefault(text, []).append(each.version)
    if not result.played:
        return f"no version of {result.case.api} that Apache Kafka answers is advertised"
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"v{ranges(versions)}: {text}" for text, versions in texts.items())


def step_of(path: str, played: Played) -> str:
    """The step that the path of a difference begins with."""
    steps = [
        each for each in played.answers if path == each or path.startswith((f"{each}.", f"{each}["))
    ]
    return max(steps, key=len, default=path)


def exchange_of(played: Played, path: str) -> WireExchange | None:
    """The exchange that shows a difference: of its step, or the last before it."""
    number = _number(step_of(path, played))
    before = [each for step, each in played.exchanges if _number(step) <= number]
    return before[-1] if before else None


def decoded_request(exchange: WireExchange, played: Played) -> str:
    """A request on one line, with the names that answers have."""
    if exchange.request is None or played.names is None:
        return f"{exchange.name}: {len(exchange.sent)} bytes"
    return f"{exchange.name} {compact(plain(exchange.request, played.names))}"


def _shown(path: str, value: Plain) -> str:
    """A value on one line. Fields with their default are left out of plain answers."""
    if value != ABSENT:
        return said(value)
    if "." not in path:
        return "nothing"
    return "NONE" if path.endswith("error_code") else ABSENT


def _merged(played: Played, each: Deviation, versions: tuple[int, ...]) -> MergedDifference:
    exchange = exchange_of(played, each.path)
    request = decoded_request(exchange, played) if exchange is not None else ""
    return MergedDifference(*each, versions, request, exchange)


def _number(step: str) -> int:
    digits = step.partition(" ")[0]
    return int(digits) if digits.isdigit() else 0
