"""Metrics of log directories with a budget: how full, how soon full, and what is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table
from wirekafka.server.space.disk_space import DiskSpace

_MOST_ROWS = 100
"""How many groups and topics are named; the first ones lose the most."""
_UNKNOWN = ""
_COLUMNS = (
    Column("wirekafka_disk_budget_bytes", GAUGE, "The budget of the log directory."),
    Column("wirekafka_disk_budget_used_bytes", GAUGE, "Bytes of all logs in it."),
    Column(
        "wirekafka_disk_budget_growth_bytes_per_second",
        GAUGE,
        "By how much they grow: in the last hour or in the last ten minutes, whichever is more.",
    ),
    Column(
        "wirekafka_disk_budget_seconds_until_full",
        GAUGE,
        "When budget or disk are used up at this growth; none without growth.",
    ),
    Column("wirekafka_disk_budget_refusing", GAUGE, "1 while appends are refused for the budget."),
    Column(
        "wirekafka_disk_budget_refused_appends_total", COUNTER, "Appends that were refused for it."
    ),
    Column(
        "wirekafka_disk_budget_freed_bytes_total",
        COUNTER,
        "Bytes that were deleted for it, ahead of Kafka's retention.",
    ),
    Column(
        "wirekafka_disk_budget_lost_bytes_total",
        COUNTER,
        "Bytes among them that a group had not read, once for each such group.",
    ),
)
_AT_RISK = (
    Column(
        "wirekafka_disk_budget_unread_bytes_at_risk",
        GAUGE,
        "Unread bytes that another day of this growth would delete, of the 100 groups and topics"
        " that lose the most. The group is empty while the committed offsets are not known.",
    ),
    Column("wirekafka_disk_budget_unread_records_at_risk", GAUGE, "The records in these bytes."),
)


class DiskBudgetCollector:
    """The budgets of this broker's log directories."""

    def __init__(self, space: Callable[[], DiskSpace | None]):
        self._space = space
        self._directories = Table(["directory"], _COLUMNS)
        self._at_risk = Table(["group", "topic"], _AT_RISK)
        self.tables: Sequence[Table] = (self._directories, self._at_risk)

    def collect(self) -> Iterator[None]:
        space = self._space()
        statuses = [] if space is None else space.statuses()
        self._directories.begin()
        losses: dict[tuple[str, str], tuple[int, int]] = {}
        for each in statuses:
            self._directories.put(
                (each.path,),
                (
                    each.budget_bytes,
                    each.used_bytes,
                    each.bytes_per_s,
                    each.seconds_until_full,
                    int(each.is_refusing),
                    each.refused_appends,
                    each.freed_bytes,
                    each.lost_bytes,
                ),
            )
            for loss in each.outlook.losses:
                key = loss.group or _UNKNOWN, loss.topic
                size_bytes, records = losses.get(key, (0, 0))
                losses[key] = size_bytes + loss.size_bytes, records + loss.records
        largest = sorted(losses, key=lambda key: (-losses[key][0], key))[:_MOST_ROWS]
        self._at_risk.fill([(key, losses[key]) for key in largest])
        yield
