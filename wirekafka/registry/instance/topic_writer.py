"""A `Writer` over the topic `_schemas`, of an instance that may lead or follow."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TypeVar

from wirekafka.client.transactions import TransactionRefused
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.instance.leader_term import LeaderTerm, Submission, Submissions, not_written
from wirekafka.registry.instance.topic import OpenClient, TopicFollower
from wirekafka.registry.state import RegistryState
from wirekafka.registry.writer import Decision

T = TypeVar("T")

WRITE_TIMEOUT_S = 30.0
_STOP_S = 2.0
_PAUSE_S = 1.0
"""Between terms that fail: about as long as a lost election takes to be noticed."""


class TopicWriter:
    """Submits decisions to the term of this instance, and waits until its reader has them."""

    def __init__(
        self, follower: TopicFollower, open_client: OpenClient, transactional_id: str
    ) -> None:
        self._follower, self._open_client = follower, open_client
        self._transactional_id = transactional_id
        self._submissions = Submissions()
        self._lock = threading.Lock()
        self._term: LeaderTerm | None = None
        self._failed_at, self._last_failure = float("-inf"), ""
        self._may_lead = True
        """False while another instance leads."""

    def state(self) -> RegistryState:
        """What has been read."""
        return self._follower.state

    @property
    def is_leading(self) -> bool:
        """Whether decisions are made here at present."""
        term = self._term
        return term is not None and term.is_leading

    async def submit(self, decision: Decision[T]) -> T:
        """Decide, append and wait for the own reader; waits while an election is going on.

        Raises RegistryError.
        """
        if not self._may_lead:
            raise unknown_leader()
        submission = Submission(decision)
        self._submissions.add(submission)
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                written = await asyncio.wrap_future(submission.result)
                await self._follower.reached(written.end)
        except TimeoutError:
            raise self._timed_out() from None
        answer: T = written.answer
        return answer

    def lead(self) -> None:
        """Begin a term unless there is one; call it again as long as this instance is elected."""
        with self._lock:
            self._may_lead = True
            term = self._term
            if term is not None and term.is_alive:
                return
            if term is not None and term.failure is not None:
                self._note(term.failure)
            if time.monotonic() - self._failed_at >= _PAUSE_S:
                self._term = LeaderTerm(
                    self._open_client, self._follower, self._transactional_id, self._submissions
                )

    def follow(self) -> None:
        """End the term: another instance is elected."""
        with self._lock:
            self._may_lead = False
            term, self._term = self._term, None
        if term is not None:
            term.stop()
        self._submissions.refuse(unknown_leader)

    def close(self) -> None:
        """End the term, after the group of decisions that is being written."""
        term = self._term
        self.follow()
        if term is not None:
            term.join(_STOP_S)

    def _note(self, failure: Exception) -> None:
        self._failed_at, self._last_failure, self._term = time.monotonic(), str(failure), None
        if isinstance(failure, TransactionRefused):
            # Nothing but a new ACL helps: nobody need wait for the next term.
            self._submissions.refuse(lambda: not_written(failure))

    def _timed_out(self) -> RegistryError:
        if self._last_failure and not self.is_leading:
            return not_written(self._last_failure)
        return RegistryError(500, 50002, "The operation timed out")


def unknown_leader() -> RegistryError:
    """The error of a write that reaches an instance that does not lead."""
    return RegistryError(500, 50004, "Leader not known.")
