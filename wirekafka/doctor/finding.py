"""A finding: one thing that is wrong, how bad it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_MOST_NAMED = 5
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    """Something does not work, or records are lost or about to be lost."""
    WARNING = "warning"
    """Something works for now, but one more failure or more time breaks it; or is not checked."""
    NOTE = "note"
    """Worth knowing, and nothing that has to be done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    `check` is the stable name of what was checked, `subject` is what it is about, such as a topic.
    """

    check: str
    severity: Severity
    subject: str
    problem: str
    advice: str
    passing: bool = False
    """Whether this may pass by itself within seconds, so that it counts only if seen twice."""

    @property
    def key(self) -> tuple[str, str]:
        """What makes two findings of two examinations the same."""
        return self.check, self.subject


def in_order(findings: Iterable[Finding]) -> Sequence[Finding]:
    """The worst findings first."""
    order = list(Severity)
    return sorted(findings, key=lambda each: (order.index(each.severity), *each.key))


def has_problems(findings: Iterable[Finding]) -> bool:
    """Whether any finding is worse than a note."""
    return any(each.severity is not Severity.NOTE for each in findings)


def listed(names: Iterable[object]) -> str:
    """A few names as one text, such as `a-0, a-1, a-2, a-3, a-4 and 95 more`."""
    texts = [str(name) for name in names]
    more = len(texts) - _MOST_NAMED
    text = ", ".join(texts[:_MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text


def duration(span_ms: float) -> str:
    """A time span with the largest unit that is no longer than the span."""
    for unit_ms, unit in _UNITS:
        if abs(span_ms) >= unit_ms:
            return f"{span_ms / unit_ms:.3g} {unit}"
    return f"{span_ms:.0f} ms"
