"""Options of topics whose unread records are kept."""

from __future__ import annotations

from wirekafka.config.option import boolean


class UnreadOptions:
    """Topic options about unread records, by attribute; described only where a topic sets them."""

    __slots__ = ()

    wirekafka_retention_keep_unread = boolean(
        False,
        internal=True,
        doc="Whether neither retention by time and size nor the disk budget deletes records that a "
        "group with a committed offset in the partition has not read. While its offsets are not "
        "known, everything is kept. When the disk or `wirekafka.disk.budget.bytes` is exhausted, "
        "appends are refused until the groups have read. DeleteRecords does not wait.",
    )
