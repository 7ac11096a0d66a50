"""The cases that there are, by area and level, without playing any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wirekafka.conformance.case import Case, ConformanceLevel
from wirekafka.visible_text import json_text


def listing(cases: Sequence[Case]) -> str:
    """A line for each case under its area and its level, and how many there are."""
    return "\n".join(_lines(cases))


def json_listing(cases: Sequence[Case]) -> str:
    """One document of JSON on one line."""
    return json_text({"cases": [_fields(each) for each in cases]})


def _lines(cases: Sequence[Case]) -> Iterator[str]:
    for area in sorted({each.area for each in cases}):
        for level in ConformanceLevel:
            mine = [each for each in cases if (each.area, each.level) == (area, level)]
            if mine:
                yield f"{area}, {level}: {len(mine)} cases"
            yield from (f"  {_line(each)}" for each in mine)
    yield f"{len(cases)} cases"


def _line(case: Case) -> str:
    needs = f" needs {' and '.join(sorted(case.needs))}" if case.needs else ""
    return f"{case.name} ({case.source}){needs}"


def _fields(case: Case) -> dict[str, object]:
    return {
        "name": case.name,
        "area": case.area,
        "api": case.api,
        "level": str(case.level),
        "source": case.source,
        "versions": case.shown_versions,
        "needs": sorted(case.needs),
        "story": case.story,
    }
