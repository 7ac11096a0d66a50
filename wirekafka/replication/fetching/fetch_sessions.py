"""Fetch sessions (KIP-227): a broker remembers a fetcher's partitions; only changes are sent."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Protocol

from wirekafka.errors import Error, KafkaError
from wirekafka.replication.fetching.fetch_session import FetchTarget, Key, Session, Wanted

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF
_EVICTION_MS = 120_000
MOST_PARTITIONS = 200_000
"""Of the sessions of all consumers, each of less than 800 bytes: at the most 160 MB."""
_LONGEST_TOPIC = 249
"""In characters: no topic has a longer name."""


class PartitionResult(Protocol):
    """The part of one partition's response that decides whether a session has to send it."""

    @property
    def high_watermark(self) -> int:
        """The high watermark in the response; -1 if there is an error."""

    @property
    def start_offset(self) -> int:
        """The log start offset in the response; -1 if there is an error."""

    @property
    def has_records(self) -> bool:
        """Whether the response has records of the partition."""

    @property
    def has_error(self) -> bool:
        """Whether the response has an error of the partition."""

    @property
    def is_denied(self) -> bool:
        """Whether the client may not read the partition."""

    @property
    def is_unknown(self) -> bool:
        """Whether there is no such partition."""

    @property
    def is_notable(self) -> bool:
        """Whether the result has a diverging epoch or a preferred replica, always sent."""


class FetchContext(ABC):
    """The partitions that one request fetches, and the partitions that its response includes."""

    __slots__ = ()

    session: Session | None = None
    """The session of a follower, whose idle partitions are not in `wanted`; None for any other."""

    @property
    @abstractmethod
    def wanted(self) -> Iterable[Wanted]:
        """The partitions to read, in this order."""

    @abstractmethod
    def settle(
        self, results: Iterable[tuple[Wanted, PartitionResult]], now_ms: int
    ) -> tuple[int, set[Key]]:
        """Return the session id to respond with, and the partitions to leave out of the response.

        Raises KafkaError(INVALID_FETCH_SESSION_EPOCH) when another request used the session.
        """

    @property
    def is_full(self) -> bool:
        """Whether the response has all partitions, not only changed partitions."""
        return True

    def throttled(self) -> int:
        """Return the session id to respond with when nothing is sent; raises as `settle`."""
        return NO_SESSION


class Sessionless(FetchContext):
    """A fetch outside of any session."""

    __slots__ = ("_wanted",)

    def __init__(self, wanted: list[Wanted]):
        self._wanted = wanted

    @property
    def wanted(self) -> Iterable[Wanted]:
        return self._wanted

    def settle(
        self, results: Iterable[tuple[Wanted, PartitionResult]], now_ms: int
    ) -> tuple[int, set[Key]]:
        return NO_SESSION, set()


class SessionOpening(FetchContext):
    """A full fetch that requests a session, which is created once the response is known."""

    __slots__ = ("_sessions", "_target")

    def __init__(self, sessions: FetchSessions, target: FetchTarget):
        self._sessions = sessions
        self._target = target

    @property
    def wanted(self) -> Iterable[Wanted]:
        return self._target.wanted

    def settle(
        self, results: Iterable[tuple[Wanted, PartitionResult]], now_ms: int
    ) -> tuple[int, set[Key]]:
        is_refused = False
        for wanted, result in results:
            _must_include(wanted, result)
            if result.has_error and _is_refused(wanted, result):
                is_refused = True
        # Nothing is kept of what was refused: such names may be of any number and size.
        session_id = NO_SESSION if is_refused else self._sessions.create(self._target, now_ms)
        return session_id, set()


class Incremental(FetchContext):
    """A fetch within a session: unchanged partitions are left out of the response."""

    __slots__ = ("_epoch", "_session", "_sessions", "session")

    def __init__(self, sessions: FetchSessions, session: Session):
        self._sessions = sessions
        self._session = session
        self._epoch = session.epoch
        self.session = session if session.is_privileged else None

    @property
    def wanted(self) -> Iterator[Wanted]:
        return iter(tuple(self._session.active.values()))

    @property
    def is_full(self) -> bool:
        return False

    def throttled(self) -> int:
        if self._session.epoch != self._epoch:
            raise KafkaError(Error.INVALID_FETCH_SESSION_EPOCH)
        return self._session.id

    def settle(
        self, results: Iterable[tuple[Wanted, PartitionResult]], now_ms: int
    ) -> tuple[int, set[Key]]:
        session = self._session
        if session.epoch != self._epoch:
            raise KafkaError(Error.INVALID_FETCH_SESSION_EPOCH)
        unchanged = set()
        for wanted, result in results:
            if not _must_include(wanted, result):
                unchanged.add(wanted.key)
            elif result.has_records:
                session.serve_last(wanted)
            elif result.has_error and _is_refused(wanted, result):
                self._sessions.end(session.id)  # The next request has all partitions again.
        return session.id, unchanged


class FetchSessions:
    """The fetch sessions of a broker, at most `max.incremental.fetch.session.cache.slots`.

    A consumer's session ends with its connection, or when one of its partitions is refused.
    """

    def __init__(self, slots: int, chosen: random.Random | None = None):
        self._slots = slots
        # A session id is no secret: fetches are authorized by partition.
        self._random = chosen or random.Random()  # noqa: S311
        self._sessions: dict[int, Session] = {}
        """Least recently used first."""
        self._of_connections: dict[str, set[int]] = {}
        """The sessions of consumers."""
        self._partitions = 0
        """Of the sessions of consumers."""
        self.evictions = 0
        """How many sessions were evicted to make room for new sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions, followers' sessions included."""
        return sum(session.size for session in self._sessions.values())

    def open(self, target: FetchTarget, now_ms: int) -> FetchContext:
        """Return the context of a request, and update the session that it names.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or
        FETCH_SESSION_TOPIC_ID_ERROR when the fetcher switched between topic names and topic ids.
        """
        if target.epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if target.session_id != NO_SESSION:
                self.end(target.session_id)
            if target.epoch == FINAL_EPOCH:
                return Sessionless(target.wanted)
            return SessionOpening(self, target)
        return self._resume(target, now_ms)

    def create(self, target: FetchTarget, now_ms: int) -> int:
        """Create a session; returns its id, or NO_SESSION when the cache is full."""
        if not self._make_room(target, now_ms):
            return NO_SESSION
        session_id = self._random.randint(1, _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _LAST_EPOCH)
        session = self._sessions[session_id] = Session(session_id, target, now_ms)
        if not target.is_follower:
            self._of_connections.setdefault(target.connection_id, set()).add(session_id)
            self._partitions += session.size
        return session_id

    def disconnected(self, connection_id: str) -> None:
        """End the sessions of a consumer whose connection is closed."""
        for session_id in tuple(self._of_connections.get(connection_id, ())):
            self.end(session_id)

    def end(self, session_id: int) -> None:
        """End a session, if there is one with this id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end_rest()
            self._uncount(session)

    def _resume(self, target: FetchTarget, now_ms: int) -> FetchContext:
        session = self._sessions.get(target.session_id)
        if session is None:
            raise KafkaError(Error.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != target.epoch:
            raise KafkaError(Error.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != target.uses_topic_ids:
            raise KafkaError(Error.FETCH_SESSION_TOPIC_ID_ERROR)
        before = session.size
        session.update(target)
        if not session.is_privileged and session.size != before:
            self._partitions += session.size - before
            if self._partitions > MOST_PARTITIONS and session.size > before:
                self.end(session.id)
                raise KafkaError(Error.FETCH_SESSION_ID_NOT_FOUND)
        del self._sessions[session.id]
        if not session.partitions:
            self._uncount(session)
            return Sessionless(target.wanted)
        self._sessions[session.id] = session
        session.used_ms = now_ms
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        return Incremental(self, session)

    def _make_room(self, target: FetchTarget, now_ms: int) -> bool:
        """Evict an unused session, or a session of lower priority, if the cache is full.

        Followers have priority over consumers, then larger sessions over smaller sessions.
        Consumers evict only sessions older than two minutes, so that they do not evict each other
        in turns.
        """
        if self._slots <= 0 or not (target.is_follower or self._has_room(target, now_ms)):
            return False
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > _EVICTION_MS:
            self._evict(oldest)
            return True
        evictable = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > _EVICTION_MS
            or (target.is_follower and not session.is_privileged)
        ]
        if not evictable:
            return False
        least = min(
            evictable, key=lambda session: (session.is_privileged, session.size, session.id)
        )
        if (target.is_follower, len(target.wanted)) < (least.is_privileged, least.size):
            return False
        self._evict(least)
        return True

    def _evict(self, session: Session) -> None:
        self.evictions += 1
        self.end(session.id)

    def _has_room(self, target: FetchTarget, now_ms: int) -> bool:
        """Whether the partitions fit, after the end of sessions that are not in use."""
        if len(target.wanted) > MOST_PARTITIONS:
            return False
        while self._partitions + len(target.wanted) > MOST_PARTITIONS:
            consumers = (each for each in self._sessions.values() if not each.is_privileged)
            oldest = next(consumers)
            if now_ms - oldest.used_ms <= _EVICTION_MS:
                return False
            self.end(oldest.id)
        return True

    def _uncount(self, session: Session) -> None:
        if session.is_privileged:
            return
        self._partitions -= session.size
        own = self._of_connections[session.connection_id]
        own.discard(session.id)
        if not own:
            del self._of_connections[session.connection_id]


def _is_refused(wanted: Wanted, result: PartitionResult) -> bool:
    # A partition may be unknown only for now: it was deleted, or is not created yet.
    return result.is_denied or (result.is_unknown and len(wanted.topic) > _LONGEST_TOPIC)


def _must_include(wanted: Wanted, result: PartitionResult) -> bool:
    """Whether a response must include the partition; remembers the values that are sent."""
    changed = result.has_records or result.is_notable
    if wanted.sent_high_watermark != result.high_watermark:
        wanted.sent_high_watermark = result.high_watermark
        wanted.was_there = True
        changed = True
    if wanted.sent_start_offset != result.start_offset:
        wanted.sent_start_offset = result.start_offset
        changed = True
    if result.has_error:
        # Forget the high watermark, so that recovery from the error counts as a change too.
        wanted.sent_high_watermark = -1
        changed = True
    return changed
