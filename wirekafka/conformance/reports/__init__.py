"""Reports of a run, for people and for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from wirekafka.conformance.run import CaseResult


def as_text(results: Sequence[CaseResult], seconds: float) -> str:
    """Differences by case, and the counts."""
    lines = []
    for each in results:
        for played in each.played:
            if played.failure:
                lines.append(f"{each.case.name} v{played.version}: {played.failure}")
            lines += [f"{each.case.name} v{played.version}: {one}" for one in played.differences]
    counts = Counter(each.outcome for each in results)
    return "\n".join([*lines, f"{dict(counts)} in {seconds:.1f} s"])


def as_json(results: Sequence[CaseResult], seconds: float) -> str:
    """All cases with their outcomes."""
    cases = [
        {
            "name": each.case.name,
            "area": each.case.area,
            "level": str(each.case.level),
            "outcome": each.outcome,
        }
        for each in results
    ]
    return json.dumps({"seconds": round(seconds, 3), "cases": cases})
