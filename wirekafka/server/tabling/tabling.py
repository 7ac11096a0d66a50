"""The tables of a broker: the worker's input and reports, and how retention waits for them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from wirekafka.broker import Broker
from wirekafka.clock import Timer
from wirekafka.config.own import TIER, RegistryAccess
from wirekafka.metrics.lag import Behind, EndOffsets, behind
from wirekafka.metrics.table_status import DeletableTable, TableState, TableStatus
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.tabling.feed import TableFeed, TableTopic
from wirekafka.server.tabling.settings import TablingSettings
from wirekafka.server.tabling.worker_process import WorkerProcess

logger = logging.getLogger(__name__)

_POLL_MS = 250
_POLLED = 500
"""Further partitions, 1 or 2 ms of work, for which the pause becomes longer by `_POLL_MS`."""
_OBSERVE_MS = 1_000
_UNKNOWN = -1
_UNREADABLE = f"records in tiered storage are read only if the broker has it by {TIER}"


class Tabling:
    """Feeds the worker of tables, and lets retention know what is in the tables.

    Nothing is done while records are appended: a timer reads the offsets of what is led here.
    """

    def __init__(
        self,
        broker: Broker,
        settings: TablingSettings,
        registry: Callable[[], RegistryAccess | None],
    ):
        """`registry` returns the schema registry of the records."""
        self._broker = broker
        self._settings = settings
        self._feed = TableFeed(broker, settings.tier)
        self._sent: object = None
        """The topics that the present process was sent last."""
        self._dropped: frozenset[str] = frozenset()
        """The ids of deleted topics that this process was sent."""
        self._timer: Timer | None = None
        self._is_stopped = False
        self._is_garbled = False
        self.reports: dict[str, TableStatus] = {}
        """The last report about each topic that is led here, by name."""
        self._ends: dict[tuple[str, int], EndOffsets] = {}
        """When the partitions led here became readable up to where."""
        self._observed_ms = 0
        self._may_be_left = False
        """Whether tables may be there, perhaps of topics that were deleted meanwhile."""
        self._released: dict[tuple[str, int], Partition] = {}
        """The partitions led here whose retention waits."""

        def first_line() -> bytes:
            return _encoded(settings.first_line(broker.node_id, registry()))

        self.worker = WorkerProcess(broker.clock, first_line)
        self.worker.started = self._send_again
        self.worker.received = self._received

    def start(self) -> None:
        """Begin the periodic work."""
        self._may_be_left = self._settings.may_have_tables
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

    def report(self, topic: TableTopic) -> TableStatus | None:
        """The last report about a topic that is led here; None without any."""
        found = self.reports.get(topic.name)
        return found if found is not None and found.topic_id == topic.id else None

    def behind(self, topic: TableTopic, partition: Partition) -> Behind:
        """How far a table is behind a partition, as of its last report.

        A record that was readable before this broker observed the partition counts from then on.
        """
        now_ms = self._broker.clock.now_ms()
        report = self.report(topic)
        end = _UNKNOWN if report is None else report.ends.get(partition.index, _UNKNOWN)
        position = max(end, partition.start_offset)
        appended_ms = None
        if (ends := self._ends.get((topic.name, partition.index))) is not None:
            ends.observe(now_ms, partition.last_stable_offset)
            found_ms = ends.passed_ms(position)
            appended_ms = ends.first_ms if found_ms is None else found_ms
        return behind(position, partition.last_stable_offset, appended_ms, now_ms)

    def work(self) -> None:
        """Send the worker what has changed, and let retention know what is in the tables."""
        feed = self._feed
        feed.refresh()
        for topic in feed.unreadable():
            self._note(
                TableStatus(
                    topic=topic.name, topic_id=topic.id, state=TableState.PAUSED, error=_UNREADABLE
                )
            )
        self._release()
        self._observe()
        if feed.led or feed.deleted or self._may_be_left:
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
            partitions = sum(len(led) for _, led in self._feed.led)
            pause_ms = _POLL_MS * (1 + partitions // _POLLED)
            self._timer = self._broker.clock.call_later(pause_ms, self._fire)

    def _cancel(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _send_again(self) -> None:
        """A new process knows nothing, and may have to complete what another has begun."""
        self._sent, self._dropped = None, frozenset()

    def _release(self) -> None:
        """Note up to where retention may delete the logs of topics that wait for their tables."""
        released = {}
        for topic, partitions in self._feed.led:
            if not topic.config.waits_for_table:
                continue
            report = self.report(topic)
            # A paused table may be of another log, such as the log before a backup was restored.
            ends = {} if report is None or report.state is TableState.PAUSED else report.ends
            for each in partitions:
                each.log.released_offset = ends.get(each.index, _UNKNOWN)
                released[topic.name, each.index] = each
        for key in self._released.keys() - released.keys():
            # A follower deletes what is below the leader's log start offset only.
            self._released[key].log.released_offset = _UNKNOWN
        self._released = released

    def _observe(self) -> None:
        """Note the ends of the partitions, and forget what is not led here any more."""
        now_ms = self._broker.clock.now_ms()
        if now_ms - self._observed_ms < _OBSERVE_MS:
            return
        self._observed_ms = now_ms
        known, self._ends = self._ends, {}
        for topic, partitions in self._feed.led:
            for each in partitions:
                key = topic.name, each.index
                ends = self._ends[key] = known[key] if key in known else EndOffsets()
                ends.observe(now_ms, each.last_stable_offset)
        led = {topic.name for topic, _ in self._feed.led}
        for name in self.reports.keys() - led:
            del self.reports[name]

    def _received(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            table = DeletableTable.from_json(message)
            if table is not None:
                self._feed.found(table)
                return
            report = TableStatus.from_json(message)
        except (AttributeError, KeyError, TypeError, ValueError):
            if not self._is_garbled:
                self._is_garbled = True
                logger.warning("The worker of tables has printed what is no report: %r", line[:200])
            return
        self._note(report)

    def _note(self, report: TableStatus) -> None:
        """Take over a report, and log a new state or error once."""
        before = self.reports.get(report.topic)
        self.reports[report.topic] = report
        known = (None, None) if before is None else (before.state, before.error)
        if known == (report.state, report.error):
            return
        match report.state:
            case TableState.PAUSED:
                logger.error("The table of %s is paused: %s", report.topic, report.error)
            case TableState.RETRYING:
                logger.warning("The table of %s is tried again: %s", report.topic, report.error)
            case _ if known[0] in (TableState.PAUSED, TableState.RETRYING):
                logger.info("The table of %s is written again", report.topic)


def _encoded(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
