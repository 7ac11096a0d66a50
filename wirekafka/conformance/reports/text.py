"""The report of a run for a terminal: counts, differences as short diffs, levels, remarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wirekafka.conformance.reports.findings import (
    CaseGroup,
    ConformanceReport,
    DifferentCase,
    MergedDifference,
    OutcomeCounts,
)
from wirekafka.conformance.reports.hex_dump import exchange_lines
from wirekafka.visible_text import one_line

_MOST_DIFFERENCES, _MOST_NAMES = 8, 8
_LONGEST_VALUE, _LONGEST_REQUEST = 300, 400


def as_text(report: ConformanceReport, *, with_bytes: bool = False) -> str:
    """The whole report, without a line end after the last line.

    With bytes, each group of differences has its first request and the answer in hexadecimal.
    """
    return "\n".join(one_line(each) for each in _lines(report, with_bytes))


def _lines(report: ConformanceReport, with_bytes: bool) -> Iterator[str]:
    yield f"{report.target}, compared with Apache Kafka {report.release}"
    yield ""
    rows = [[area, *_cells(each)] for area, each in report.apis]
    yield from columns(["area", "API", *_COUNTS], rows, left=2)
    if report.groups:
        yield from ("", "Different")
    for group in report.groups:
        yield ""
        yield from _group(group)
        if with_bytes:
            yield from _bytes(group.first)
    if report.unsupported:
        yield from ("", "Not supported")
    for api, reason, names in report.unsupported:
        yield f"  {api}: {_number_of(len(names), 'case')}: {reason}"
    yield ""
    levels = [[*_cells(each), each.percent] for each in report.levels if each.cases]
    yield from columns(["level", *_COUNTS, "percent"], levels, left=1)
    yield ""
    total = report.total
    yield (
        f"{_number_of(total.cases, 'case')} in {report.seconds:.1f} s: {total.same} same, "
        f"{total.different} different, {total.unsupported} unsupported"
    )
    yield from _listed("Remarks", report.remarks)
    yield from _listed("Left behind", report.left)


_COUNTS = ("cases", "same", "different", "unsupported")


def _cells(counts: OutcomeCounts) -> list[str]:
    numbers = (counts.cases, counts.same, counts.different, counts.unsupported)
    return [counts.name, *map(str, numbers)]


def _listed(heading: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield from ("", heading)
        yield from (f"  {each}" for each in texts)


def _group(group: CaseGroup) -> Iterator[str]:
    first = group.first
    case = first.result.case
    yield f"{first.name} ({case.source})" + (f": {first.story}" if first.story else "")
    if len(group.cases) > 1:
        others = [each.name for each in group.cases[1:]]
        rest = len(others) - _MOST_NAMES
        more = [f"{rest} more"] if rest > 0 else []
        yield f"  and in the same way {', '.join([*others[:_MOST_NAMES], *more])}"
    yield from _case(first)


def _case(found: DifferentCase) -> Iterator[str]:
    for versions, text in found.failures:
        yield f"  {versions}: cannot be played to its end: {text}"
    request = ""
    for each in found.differences[:_MOST_DIFFERENCES]:
        if each.request != request:
            request = each.request
            yield f"  > {cut(request, _LONGEST_REQUEST)}"
        yield from _difference(each)
    rest = len(found.differences) - _MOST_DIFFERENCES
    if rest > 0:
        yield f"  {_number_of(rest, 'more difference')}: --explain {found.name}"


def _bytes(found: DifferentCase) -> Iterator[str]:
    for each in found.differences[:1]:
        if each.exchange is not None:
            yield from (f"  {line}" for line in exchange_lines(each.exchange))


def _difference(each: MergedDifference) -> Iterator[str]:
    yield f"  {each.shown_versions} {each.path}"
    yield f"    - expected {cut(each.expected_text, _LONGEST_VALUE)}"
    yield f"    + got      {cut(each.got_text, _LONGEST_VALUE)}"


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> Iterator[str]:
    """A table whose first `left` columns begin at the left; the others have numbers."""
    lines = [[each.upper() for each in heads], *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def cut(text: str, longest: int) -> str:
    """The beginning of a long text, with the number of characters that are left out."""
    rest = len(text) - longest
    return text if rest <= 0 else f"{text[:longest]}... {rest} more characters"


def _number_of(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
