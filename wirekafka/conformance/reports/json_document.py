"""The report of a run as JSON, for programs."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.expectation import ABSENT
from wirekafka.conformance.plain import Plain
from wirekafka.conformance.reports.findings import ConformanceReport, reason_of, step_of
from wirekafka.conformance.run import CaseResult, Played
from wirekafka.visible_text import json_text


def as_json(report: ConformanceReport) -> str:
    """One document on one line, without a line end."""
    return json_text(
        {
            "seconds": round(report.seconds, 3),
            "kafka": report.release,
            "target": report.target,
            "started": report.started,
            "levels": [
                {
                    "level": each.name,
                    "cases": each.cases,
                    "same": each.same,
                    "different": each.different,
                    "unsupported": each.unsupported,
                }
                for each in report.levels
            ],
            "cases": [_case(each) for each in report.results],
            "remarks": list(report.remarks),
            "left": list(report.left),
        }
    )


def _case(result: CaseResult) -> dict[str, Any]:
    case = result.case
    return {
        "name": case.name,
        "area": case.area,
        "api": case.api,
        "level": str(case.level),
        "source": case.source,
        "outcome": result.outcome,
        "seconds": round(result.seconds, 3),
        "versions": [each.version for each in result.played if not each.unsupported],
        "differences": [one for each in result.played for one in _differences(each)],
        "reason": reason_of(result),
    }


def _differences(played: Played) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for each in played.differences:
        step = step_of(each.path, played)
        found.append(
            {
                "version": played.version,
                "step": step,
                "path": each.path.removeprefix(step).removeprefix("."),
                "expected": _value(each.expected),
                "got": _value(each.got),
            }
        )
    return found


def _value(value: Plain) -> Plain:
    """The value; null stands for what is not there, too."""
    return None if value == ABSENT else value
