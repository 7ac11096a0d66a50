"""Metrics of the lag of groups, named as by kafka_exporter, and of readers."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.metrics.exposition import GAUGE, Column, Table, single
from wirekafka.server.monitoring.lag import GROUP, LagTracker
from wirekafka.server.monitoring.share_lag import SHARE

_MEMBERS_PER_STEP = 500


class LagCollector:
    """Each group that this broker coordinates, and each client that reads from it."""

    def __init__(self, tracker: LagTracker):
        self._tracker = tracker
        prefix = "kafka_consumergroup"
        self._groups = Table(
            ["consumergroup", "topic", "partition"],
            [
                Column(f"{prefix}_current_offset", GAUGE, "The committed offset."),
                Column(f"{prefix}_lag", GAUGE, "Records after the committed offset."),
                Column(
                    "wirekafka_consumergroup_seconds_behind",
                    GAUGE,
                    "How long ago the first of these records was appended; 0 without any.",
                ),
            ],
        )
        self._sums = Table(
            ["consumergroup", "topic"],
            [
                Column(f"{prefix}_current_offset_sum", GAUGE, "The sum of committed offsets."),
                Column(f"{prefix}_lag_sum", GAUGE, "The sum of the lag of all partitions."),
            ],
        )
        self._members = single(
            f"{prefix}_members", GAUGE, "The members of a group.", "consumergroup"
        )
        self._readers = Table(
            ["client", "topic", "partition"],
            [
                Column(
                    "wirekafka_reader_position",
                    GAUGE,
                    "The next offset for a client that has fetched during the last hour, with or "
                    "without commits.",
                ),
                Column("wirekafka_reader_lag", GAUGE, "Records that it has not been sent."),
                Column(
                    "wirekafka_reader_seconds_behind",
                    GAUGE,
                    "How long ago the first of these records was appended; 0 without any.",
                ),
                Column("wirekafka_reader_idle_seconds", GAUGE, "Since its last Fetch."),
            ],
        )
        self._shares = Table(
            ["sharegroup", "topic", "partition"],
            [
                Column("wirekafka_sharegroup_lag", GAUGE, "Records that are to be delivered."),
                Column(
                    "wirekafka_sharegroup_seconds_behind",
                    GAUGE,
                    "How long ago the first of these records was appended; 0 without any.",
                ),
            ],
        )
        self.tables = (self._groups, self._sums, self._members, self._shares, self._readers)

    def collect(self) -> Iterator[None]:
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        self._groups.begin()
        self._readers.begin()
        self._shares.begin()
        put_group = self._groups.put
        for row in self._tracker.rows():
            if row is None:
                yield
                continue
            # Unpacked: there are thousands of them.
            kind, name, topic, partition, (position, end_offset, behind_ms), idle_ms, _ = row
            lag = end_offset - position if end_offset > position else 0
            behind_s = None if behind_ms is None else behind_ms / 1000
            if kind == GROUP:
                put_group((name, topic, str(partition)), (position, lag, behind_s))
                total, lag_total = sums.get((name, topic), (0, 0))
                sums[name, topic] = total + position, lag_total + lag
            elif kind == SHARE:
                self._shares.put((name, topic, str(partition)), (lag, behind_s))
            else:
                values = (position, lag, behind_s, idle_ms // 1000)
                self._readers.put((name, topic, str(partition)), values)
        self._sums.fill(sums.items())
        yield
        self._members.begin()
        for number, (group_id, count) in enumerate(list(self._tracker.members())):
            self._members.put((group_id,), (count,))
            if number % _MEMBERS_PER_STEP == _MEMBERS_PER_STEP - 1:
                yield
