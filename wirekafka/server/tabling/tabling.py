"""The tables of a broker: the worker's input and reports, and how retention waits for them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from wirekafka.broker import Broker
from wirekafka.clock import Timer
from wirekafka.config.own import RegistryAccess
from wirekafka.metrics.lag import EndOffsets, lag_of
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.tabling.feed import TableFeed, TableTopic
from wirekafka.server.tabling.report import PAUSED, RETRYING, TableReport
from wirekafka.server.tabling.settings import TableSettings
from wirekafka.server.tabling.worker_process import WorkerProcess

logger = logging.getLogger(__name__)

_POLL_MS = 250
_UNKNOWN = -1


class TableProgress:
    """How far a table is behind one partition that is led here."""

    __slots__ = ("_ends", "_since_ms", "end_offset", "lag", "lag_ms")

    def __init__(self, now_ms: int):
        self._ends = EndOffsets()
        self._since_ms = now_ms
        self.end_offset = _UNKNOWN
        """Up to where the table has the partition; -1 while that is not known."""
        self.lag = 0
        """How many records are not in the table yet."""
        self.lag_ms = 0
        """How long the oldest of these has been readable: since this broker leads, at the most."""

    def note(self, now_ms: int, partition: Partition, end_offset: int) -> None:
        """Compare the partition with the offset that the table is known to have reached."""
        readable_end = partition.last_stable_offset
        self._ends.observe(now_ms, readable_end)
        self.end_offset = end_offset
        from_offset = max(end_offset, partition.start_offset)
        self.lag = lag_of(from_offset, readable_end)
        if self.lag == 0:
            self.lag_ms = 0
            return
        appended_ms = self._ends.passed_ms(from_offset)
        self.lag_ms = max(now_ms - (self._since_ms if appended_ms is None else appended_ms), 0)


class Tabling:
    """Feeds the worker of tables, and lets retention know what is in the tables.

    Nothing is done while records are appended: a timer reads the offsets of what is led here.
    """

    def __init__(
        self, broker: Broker, settings: TableSettings, registry: Callable[[], RegistryAccess | None]
    ):
        """`registry` returns the schema registry of the records."""
        self._broker = broker
        self._feed = TableFeed(broker)
        self._sent: object = None
        """The topics that the present process was sent last."""
        self._dropped: frozenset[str] = frozenset()
        """The ids of deleted topics that this process was sent."""
        self._timer: Timer | None = None
        self._is_stopped = False
        self._is_garbled = False
        self.reports: dict[str, TableReport] = {}
        """The last report about each topic that is led here, by name."""
        self.progress: dict[tuple[str, int], TableProgress] = {}
        """How far the tables are, by topic and partition."""

        def first_line() -> bytes:
            return _encoded(settings.first_line(broker.node_id, registry()))

        self.worker = WorkerProcess(broker.clock, first_line)
        self.worker.started = self._send_again
        self.worker.received = self._received

    def start(self) -> None:
        """Begin the periodic work."""
        self._timer = self._broker.clock.call_later(_POLL_MS, self._fire)

    async def stop(self) -> None:
        """Stop; the worker may complete what it has begun."""
        self._cancel()
        await self.worker.stop()

    def abort(self) -> None:
        """Stop at once; the worker is killed."""
        self._cancel()
        self.worker.abort()

    def led(self) -> list[tuple[TableTopic, list[Partition]]]:
        """The topics that are tables, with their partitions led here."""
        return self._feed.led

    def report(self, topic: TableTopic) -> TableReport | None:
        """The last report about a topic that is led here; None without any."""
        found = self.reports.get(topic.name)
        return found if found is not None and found.topic_id == topic.id else None

    def work(self) -> None:
        """Send the worker what has changed, and note how far the tables are."""
        feed = self._feed
        feed.refresh()
        self._note_progress()
        if feed.led or feed.deleted:
            self.worker.start()
        self.worker.renew()
        topics = feed.topics()
        deleted = [[name, id] for id, name in feed.deleted.items() if id not in self._dropped]
        if topics == self._sent and not deleted:
            return
        if self.worker.send(_encoded({"topics": topics, "deleted": deleted})):
            self._sent = topics
            self._dropped = frozenset(feed.deleted)

    def _fire(self) -> None:
        try:
            self.work()
        except Exception:
            logger.exception("The worker of tables was not fed")
        if not self._is_stopped:
            self._timer = self._broker.clock.call_later(_POLL_MS, self._fire)

    def _cancel(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _send_again(self) -> None:
        """A new process knows nothing, and may have to complete what another has begun."""
        self._sent, self._dropped = None, frozenset()

    def _note_progress(self) -> None:
        now_ms, known = self._broker.clock.now_ms(), self.progress
        self.progress = {}
        names = set()
        for topic, partitions in self._feed.led:
            names.add(topic.name)
            report = self.report(topic)
            ends = {} if report is None else report.ends
            for partition in partitions:
                key = topic.name, partition.index
                progress = known.pop(key) if key in known else TableProgress(now_ms)
                self.progress[key] = progress
                progress.note(now_ms, partition, ends.get(partition.index, _UNKNOWN))
                partition.log.released_offset = progress.end_offset
        for key in known:
            # Not led here any more: the leader's log start offset decides what a follower deletes.
            if (left := self._broker.partitions.get(key)) is not None:
                left.log.released_offset = _UNKNOWN
        for name in self.reports.keys() - names:
            del self.reports[name]

    def _received(self, line: bytes) -> None:
        try:
            report = TableReport.of(json.loads(line))
        except (AttributeError, KeyError, TypeError, ValueError):
            if not self._is_garbled:
                self._is_garbled = True
                logger.warning("The worker of tables has printed what is no report: %r", line[:200])
            return
        self._log_change(self.reports.get(report.topic), report)
        self.reports[report.topic] = report

    def _log_change(self, before: TableReport | None, report: TableReport) -> None:
        """Log a new state or error of a table once."""
        known = (None, None) if before is None else (before.state, before.error)
        if known == (report.state, report.error):
            return
        match report.state:
            case "paused":
                logger.error("The table of %s is paused: %s", report.topic, report.error)
            case "retrying":
                logger.warning("The table of %s is tried again: %s", report.topic, report.error)
            case _ if known[0] in (PAUSED, RETRYING):
                logger.info("The table of %s is written again", report.topic)


def _encoded(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
