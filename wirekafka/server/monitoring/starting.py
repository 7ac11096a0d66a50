"""Metrics of a node that has not started yet: how much of its logs is still to be recovered."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.metrics.exposition import GAUGE, Column, Table, single
from wirekafka.metrics.measures import Measures

_STARTING = 1
"""Kafka's number of the state."""


class StartCollector:
    """Reads only values that any thread may read: recovery blocks the event loop."""

    def __init__(self, measures: Measures):
        self._measures = measures
        self._state = Table(
            [],
            [Column("kafka_server_kafkaserver_brokerstate", GAUGE, "1 until clients are served.")],
        )
        prefix = "kafka_log_logmanager"
        self._logs = single(
            f"{prefix}_remaininglogstorecover",
            GAUGE,
            "Logs of a directory that are not open yet.",
            "dir",
        )
        self._segments = single(
            f"{prefix}_remainingsegmentstorecover",
            GAUGE,
            "Segments that are to be scanned of the log which a thread or process recovers.",
            "dir",
            "threadNum",
        )
        self.tables = (self._state, self._logs, self._segments)

    def collect(self) -> Iterator[None]:
        recovering = list(self._measures.recovering.items())
        self._state.fill([((), (_STARTING,))] if recovering else [])
        self._logs.fill(((path,), (progress.logs,)) for path, progress in recovering)
        self._segments.fill(
            ((path, str(number)), (left,))
            for path, progress in recovering
            for number, left in progress.segments()
        )
        yield
