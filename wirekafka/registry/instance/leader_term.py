"""A term of a registry's leader: it decides on the newest state and appends in transactions.

The transactional id of all leaders is the same. The beginning of a term fences the leaders before
it, even a leader that wakes up later. It then writes a record and reads the
topic up to this record, so that no decision misses another leader's records. Each group of
decisions is one transaction, which is only committed if no foreign record came between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from wirekafka.client.client import CliError, ConnectionFailure
from wirekafka.client.transactions import ProducerFenced, TransactionalProducer
from wirekafka.codec.record import Record
from wirekafka.config.option import ConfigError
from wirekafka.registry.entry import GIVEN_IDS, Entry
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.instance.topic import PARTITION, OpenClient, TopicFollower
from wirekafka.registry.records import NOOP
from wirekafka.registry.state import RegistryState
from wirekafka.registry.writer import Decided, Decision

logger = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 20_000
_MOST_DECISIONS = 200
_GROUP_BYTES = 256_000
_LARGEST_BYTES = 900_000
"""Of the records of one decision: they are one batch, below the default of max.message.bytes."""


class _Overtaken(CliError):
    """Somebody else has written: the decisions do not know the records."""


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a decision, once the topic was read up to `end`."""

    answer: Any
    end: int


@dataclass(slots=True, eq=False)
class Submission:
    """A decision that waits for its turn; it is tried again by the next term if nothing of it
    was committed."""

    decision: Decision[Any]
    result: Future[Written] = field(default_factory=Future)


class Submissions:
    """The decisions that wait for a leader's term, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Submission] = deque()
        self._changed = threading.Condition()

    def add(self, submission: Submission) -> None:
        """Append one."""
        with self._changed:
            self._waiting.append(submission)
            self._changed.notify()

    def put_back(self, submissions: Sequence[Submission]) -> None:
        """Return taken ones to the front."""
        with self._changed:
            self._waiting.extendleft(reversed(submissions))
            self._changed.notify()

    def take(self, most: int, timeout_s: float) -> list[Submission]:
        """The next decisions whose callers still wait; none if none comes in time."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(timeout_s)
            taken: list[Submission] = []
            while self._waiting and len(taken) < most:
                submission = self._waiting.popleft()
                if not submission.result.cancelled():
                    taken.append(submission)
            return taken

    def refuse(self, reason: Callable[[], RegistryError]) -> None:
        """Fail all that wait."""
        for submission in self.take(len(self._waiting), 0):
            _fail(submission, reason())


class LeaderTerm:
    """One term, on a thread of its own, from its election to its first failure or `stop`."""

    def __init__(
        self,
        open_client: OpenClient,
        follower: TopicFollower,
        transactional_id: str,
        submissions: Submissions,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.failure: Exception | None = None
        self.is_leading = False
        """Whether it has read the topic, and decides."""
        self._open_client, self._follower, self._topic = open_client, follower, follower.topic
        self._transactional_id = transactional_id
        self._submissions, self._now_ms = submissions, now_ms
        self._should_stop = threading.Event()
        self._state = RegistryState()
        self._end = 0
        self._thread = threading.Thread(target=self._run, name="schemas-writer", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it has neither failed nor stopped."""
        return self._thread.is_alive() and not self._should_stop.is_set()

    def stop(self) -> None:
        """End it after the group of decisions that is being written."""
        self._should_stop.set()

    def join(self, timeout_s: float) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            with self._open_client() as client:
                producer = TransactionalProducer(
                    client, self._transactional_id, timeout_ms=TRANSACTION_TIMEOUT_MS
                )
                producer.init()
                first = self._append(producer, [NOOP])
                producer.commit()
                self._end = first + 2  # With the marker of the commit.
                topic_id = client.topic(self._topic).topic_id
                self._state = self._follower.copied_at(self._end, topic_id)
                # The record that the term has begun with does not know which ids were given.
                if self._state.stamped([NOOP]) != [NOOP]:
                    self._end = self._write(producer, [NOOP], (), ()) + 2
                self.is_leading = True
                logger.info("This instance leads, from offset %d of %s on", first, self._topic)
                while not self._should_stop.is_set():
                    self._serve(producer, self._submissions.take(_MOST_DECISIONS, 0.2))
        except (CliError, ConfigError, OSError) as error:
            self.failure = error
            logger.warning("This instance cannot lead: %s", error)
        finally:
            self.is_leading = False

    def _serve(self, producer: TransactionalProducer, waiting: list[Submission]) -> None:
        while waiting:
            count, entries, outcomes = self._decide(waiting)
            group, waiting = waiting[:count], waiting[count:]
            if entries:
                first = self._write(producer, entries, group, waiting)
                self._end = first + len(entries) + 1
            for submission, outcome in zip(group, outcomes, strict=True):
                self._answer(submission, outcome)

    def _write(
        self,
        producer: TransactionalProducer,
        entries: Sequence[Entry],
        group: Sequence[Submission],
        waiting: Sequence[Submission],
    ) -> int:
        """Commit the records of a group; returns the offset of the first one. Raises CliError."""
        try:
            first = self._append(producer, entries)
            if first != self._end:
                producer.abort()
                raise _Overtaken(f"{self._topic} has a record of another writer")
        except (ProducerFenced, ConnectionFailure, _Overtaken):
            self._submissions.put_back([*group, *waiting])
            raise
        except BaseException as error:
            self._abandon(group, waiting, error)
            raise
        try:
            producer.commit()
        except BaseException as error:
            self._abandon(group, waiting, error)
            raise
        return first

    def _abandon(
        self, group: Sequence[Submission], waiting: Sequence[Submission], error: BaseException
    ) -> None:
        """Fail a group that may have been written, or never can be; others are tried again."""
        self._submissions.put_back(waiting)
        for each in group:
            _fail(each, not_written(error))

    def _decide(
        self, waiting: Sequence[Submission]
    ) -> tuple[int, list[Entry], list[Decided[Any] | Exception]]:
        """Decide in order, until the records fill a batch; how many, their records, outcomes.

        Each decision sees the records of those before it, which are not committed yet: refusals
        are answered after the commit, too.
        """
        entries: list[Entry] = []
        outcomes: list[Decided[Any] | Exception] = []
        size = 0
        for submission in waiting:
            try:
                decided = submission.decision(self._state)
                bytes_of_decision = sum(map(_size_bytes, decided.entries))
                if bytes_of_decision > _LARGEST_BYTES:
                    raise RegistryError(422, 42209, "Schema is too large")
            except Exception as error:
                outcomes.append(error)
                continue
            if entries and size + bytes_of_decision > _GROUP_BYTES:
                break  # The next group begins with it.
            for entry in decided.entries:
                self._state.replay(entry, self._end + len(entries), self._now_ms())
                entries.append(entry)
            outcomes.append(decided)
            size += bytes_of_decision
        return len(outcomes), entries, outcomes

    def _append(self, producer: TransactionalProducer, entries: Sequence[Entry]) -> int:
        now_ms = self._now_ms()
        records = [
            Record(
                timestamp=now_ms,
                key=each.key,
                value=each.value,
                headers=() if each.given_ids is None else ((GIVEN_IDS, each.given_ids),),
            )
            for each in self._state.stamped(entries)
        ]
        return producer.send(self._topic, PARTITION, records)

    def _answer(self, submission: Submission, outcome: Decided[Any] | Exception) -> None:
        if isinstance(outcome, Exception):
            _fail(submission, outcome)
        elif submission.result.set_running_or_notify_cancel():
            submission.result.set_result(Written(outcome.answer, self._end))


def not_written(error: object) -> RegistryError:
    """The error of a write whose transaction may not have been committed."""
    return RegistryError(500, 50001, f"Error while writing to the Kafka store: {error}")


def _fail(submission: Submission, error: Exception) -> None:
    if submission.result.set_running_or_notify_cancel():
        submission.result.set_exception(error)


def _size_bytes(entry: Entry) -> int:
    return len(entry.key) + len(entry.value or b"")
