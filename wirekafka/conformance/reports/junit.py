"""The report of a run in the form of JUnit, which systems of continuous integration show."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from wirekafka.conformance.reports.findings import ConformanceReport, DifferentCase, reason_of
from wirekafka.conformance.run import CaseResult
from wirekafka.visible_text import visible


def as_junit(report: ConformanceReport) -> str:
    """A document with a suite for each API. A case that differs is a failure."""
    by_api: dict[str, list[CaseResult]] = {}
    for each in report.results:
        by_api.setdefault(each.case.api, []).append(each)
    total = report.total
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites name={_attribute(f'Apache Kafka {report.release}')} "
            f'tests="{total.cases}" failures="{total.different}" errors="0" '
            f'skipped="{total.unsupported}" time="{report.seconds:.3f}">',
            *(line for api, results in by_api.items() for line in _suite(api, results, report)),
            "</testsuites>\n",
        ]
    )


def _suite(api: str, results: Sequence[CaseResult], report: ConformanceReport) -> list[str]:
    seconds = sum(each.seconds for each in results)
    outcomes = [each.outcome for each in results]
    lines = [
        f'  <testsuite name={_attribute(api)} tests="{len(results)}" '
        f'failures="{outcomes.count("different")}" errors="0" '
        f'skipped="{outcomes.count("unsupported")}" time="{seconds:.3f}" '
        f"timestamp={_attribute(report.started.removesuffix('Z'))} "
        f"hostname={_attribute(report.target)}>"
    ]
    for each in results:
        lines += _case(each)
    return [*lines, "  </testsuite>"]


def _case(result: CaseResult) -> list[str]:
    case = result.case
    start = (
        f"    <testcase classname={_attribute(f'{case.area}.{case.api}')} "
        f'name={_attribute(case.name)} time="{result.seconds:.3f}"'
    )
    match result.outcome:
        case "same":
            return [f"{start}/>"]
        case "unsupported":
            inner = f"      <skipped message={_attribute(reason_of(result))}/>"
        case "different":
            found = DifferentCase.of(result)
            lines = [f"{versions}: {text}" for versions, text in found.failures]
            lines += [
                f"{each.shown_versions} {each.path}: expected {each.expected_text}, "
                f"got {each.got_text}"
                for each in found.differences
            ]
            text = escape(_xml("\n".join(lines)))
            inner = f"      <failure message={_attribute(lines[0])}>{text}</failure>"
    return [f"{start}>", inner, "    </testcase>"]


def _attribute(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    """The text without characters that no document of XML may have."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else f"\\u{ord(each):04x}"
        for each in visible(text)
    )
