"""The report of a run as one page of HTML, which needs nothing else."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from wirekafka.conformance.reports.findings import ConformanceReport, DifferentCase
from wirekafka.conformance.reports.text import cut
from wirekafka.visible_text import visible

MOST_DIFFERENCES = 50
"""Of one case; JSON has all."""
_LONGEST = 4000


def as_html(report: ConformanceReport) -> str:
    """The page: levels, areas with their APIs, differences that open, what is not supported."""
    environment = Environment(
        loader=PackageLoader("wirekafka.conformance.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": _shown, "first_differences": _first_differences}
    page = environment.get_template("report.html")
    return page.render(report=report, most=MOST_DIFFERENCES)


def _shown(text: str) -> str:
    """A text of the broker or of a recording, with hidden characters as escapes."""
    return visible(cut(text, _LONGEST))


def _first_differences(found: DifferentCase) -> object:
    return found.differences[:MOST_DIFFERENCES]
