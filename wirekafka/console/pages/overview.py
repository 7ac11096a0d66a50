"""The first page: lag, errors, traffic, disks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from wirekafka.console.pages.lag import group_lags
from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.protocol_steps import is_step
from wirekafka.console.source import ClusterSample, GroupLag, Insight, Known, TopicRate, Unknown

T = TypeVar("T")

LINK = ("Overview", "/", "o")

_SHOWN = 12
"""Rows of each panel; the other pages have them all."""
_NOT_PERMITTED = Unknown("Your user may not see this: it needs DESCRIBE on the cluster.")


class Panel(NamedTuple):
    """The first rows of something, and how many there are."""

    rows: Sequence[Any]
    total: int


def show(visit: Visit) -> PageView:
    """The overview of the cluster."""
    snapshot = visit.source.snapshot()
    if isinstance(snapshot, Unknown):
        return PageView("overview_unknown.html", {"title": "Overview", "reason": snapshot})
    insight = visit.source.insight()
    own = insight if snapshot.summary.may_see_cluster else _NOT_PERMITTED
    values = {
        "title": "Overview",
        "snapshot": snapshot,
        "summary": snapshot.summary,
        "unsynced": _panel(snapshot.summary.unsynced),
        "groups": _on(group_lags(visit.source), lambda lags: _panel(_by_lag(lags.values()))),
        "rates": _rates(snapshot, insight),
        "insight": own,
        "readers": _on(own, lambda known: _panel(_by_lag(known.readers))),
        "errors": _on(own, _errors),
        "steps": _on(own, _steps),
        "software": _on(own, _software),
    }
    return PageView("overview.html", values)


def _rates(snapshot: ClusterSample, insight: Known[Insight]) -> Known[Panel]:
    """Topics by their write rate, with bytes where the broker itself counts them."""
    if isinstance(snapshot.rates, Unknown):
        return snapshot.rates
    own = {} if isinstance(insight, Unknown) else insight.rates
    rates = []
    for rate in snapshot.rates:
        exact = own.get(rate.name)
        if exact is not None:
            rate = rate._replace(
                bytes_in_per_s=exact.bytes_in_per_s, bytes_out_per_s=exact.bytes_out_per_s
            )
        rates.append(rate)
    return _panel(sorted(rates, key=_by_rate))


def _by_lag(lags: Iterable[GroupLag]) -> list[GroupLag]:
    return sorted(lags, key=lambda each: each.urgency)


def _by_rate(rate: TopicRate) -> tuple[float, float, str]:
    return -(rate.records_per_s or 0.0), -(rate.bytes_out_per_s or 0.0), rate.name


def _errors(insight: Insight) -> Panel:
    rows = [each for each in insight.errors if not is_step(each.api, each.error)]
    return _panel(sorted(rows, key=lambda row: -row.responses))


def _steps(insight: Insight) -> Panel:
    """Errors that are normal steps of the protocol."""
    rows = [each for each in insight.errors if is_step(each.api, each.error)]
    return _panel(sorted(rows, key=lambda row: -row.responses))


def _software(insight: Insight) -> Panel:
    rows = sorted(insight.software, key=lambda row: (-row.connections, -row.requests))
    return _panel(rows)


def _panel(rows: Sequence[Any]) -> Panel:
    return Panel(rows[:_SHOWN], len(rows))


def _on(known: Known[T], make: Callable[[T], Panel]) -> Known[Panel]:
    return known if isinstance(known, Unknown) else make(known)


ENTRIES = (Page("/", show),)
