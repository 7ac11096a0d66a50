"""Metrics of the log cleaner, named as by Kafka's JMX beans."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.broker import Broker
from wirekafka.metrics.exposition import GAUGE, Column, Table, single
from wirekafka.metrics.measures import Measures


class CleanerCollector:
    """The cleaner's last look for dirty logs, the logs found, and the logs left out."""

    def __init__(self, measures: Measures, broker: Broker):
        self._measures, self._broker = measures, broker
        self._table = Table(
            [],
            [
                Column(
                    "kafka_log_logcleanermanager_time_since_last_run_ms",
                    GAUGE,
                    "Since the cleaner has last looked for dirty logs.",
                ),
                Column(
                    "kafka_log_logcleanermanager_max_dirty_percent",
                    GAUGE,
                    "The dirty part of the dirtiest log that it then found.",
                ),
                Column(
                    "kafka_log_logcleaner_max_clean_time_secs",
                    GAUGE,
                    "How long the last compaction took; 0 before the first.",
                ),
                Column(
                    "kafka_log_logcleaner_deadthreadcount",
                    GAUGE,
                    "Always 0: a failure ends the compaction of one log, and not the cleaner.",
                ),
            ],
        )
        self._skipped = single(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            GAUGE,
            "Logs that could not be compacted, and are left out for some minutes.",
            "logDirectory",
        )
        self.tables = (self._table, self._skipped)

    def collect(self) -> Iterator[None]:
        run = self._measures.cleaner
        since_ms = None if run.at_ms is None else max(self._broker.clock.now_ms() - run.at_ms, 0)
        self._table.fill([((), (since_ms, int(100 * run.dirtiest), int(run.last_s), 0))])
        self._skipped.fill(
            ((each.path,), (run.skipped.get(each.path, 0),)) for each in self._broker.directories
        )
        yield
