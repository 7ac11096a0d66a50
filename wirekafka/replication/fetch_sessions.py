"""Fetch sessions (KIP-227): what a fetcher wants is remembered, and only changes are sent."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from wirekafka.errors import Error, KafkaError

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF
_EVICTION_MS = 120_000

Key = tuple[str | bytes, int]
"""Topic name or topic id, whichever the fetcher speaks, and partition index."""


class Wanted:
    """One partition a fetcher asks for, and what it was last told about it."""

    __slots__ = ("current_leader_epoch", "fetch_offset", "last_fetched_epoch", "max_bytes",
                 "partition", "sent_bytes", "told_high_watermark", "told_start_offset",
                 "topic")

    def __init__(self, topic: str | bytes, partition: int, *, fetch_offset: int, max_bytes: int,
                 current_leader_epoch: int = -1, last_fetched_epoch: int = -1):
        self.topic = topic
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.sent_bytes = 0
        self.told_high_watermark = -1
        self.told_start_offset = -1

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    def update(self, other: Wanted) -> None:
        """Ask as `other` does, remembering what was told."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.sent_bytes = 0


class Told(Protocol):
    """What a response says about one partition, as far as a session cares."""

    @property
    def high_watermark(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def has_records(self) -> bool: ...

    @property
    def has_error(self) -> bool: ...

    @property
    def is_notable(self) -> bool:
        """Whether it is said whenever it is so: a diverging epoch, or a preferred replica."""


@dataclass(slots=True, kw_only=True)
class FetchTarget:
    """The session part of a fetch request."""

    session_id: int
    epoch: int
    wanted: list[Wanted]
    forgotten: list[Key]
    uses_topic_ids: bool
    is_follower: bool = False


class Session:
    """One fetcher's standing request. Partitions are in the order in which they are served."""

    __slots__ = ("created_ms", "epoch", "id", "is_privileged", "partitions", "size",
                 "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, target: FetchTarget, now_ms: int):
        self.id = session_id
        self.epoch = 1
        self.is_privileged = target.is_follower
        self.uses_topic_ids = target.uses_topic_ids
        self.partitions = {wanted.key: wanted for wanted in target.wanted}
        self.size = len(self.partitions)
        self.created_ms = now_ms
        self.used_ms = now_ms

    def update(self, target: FetchTarget) -> None:
        """Take in what a request changes; its `wanted` become the session's own."""
        for place, wanted in enumerate(target.wanted):
            known = self.partitions.setdefault(wanted.key, wanted)
            if known is not wanted:
                known.update(wanted)
                target.wanted[place] = known
        for key in target.forgotten:
            self.partitions.pop(key, None)
        self.size = len(self.partitions)


class FetchContext:
    """What one request fetches, and which of the answers it is sent."""

    __slots__ = ()

    @property
    def wanted(self) -> Iterable[Wanted]:
        raise NotImplementedError

    def settle(self, told: Iterable[tuple[Wanted, Told]], now_ms: int) -> tuple[int, set[Key]]:
        """The session id to answer with, and the partitions to leave out of the response.

        Raises KafkaError(INVALID_FETCH_SESSION_EPOCH) when another request used the session.
        """
        raise NotImplementedError


class Sessionless(FetchContext):
    """A fetch that stands alone."""

    __slots__ = ("_wanted",)

    def __init__(self, wanted: list[Wanted]):
        self._wanted = wanted

    @property
    def wanted(self) -> Iterable[Wanted]:
        return self._wanted

    def settle(self, told: Iterable[tuple[Wanted, Told]], now_ms: int) -> tuple[int, set[Key]]:
        return NO_SESSION, set()


class Opening(FetchContext):
    """A full fetch that asks for a session, made once its response is known."""

    __slots__ = ("_sessions", "_target")

    def __init__(self, sessions: FetchSessions, target: FetchTarget):
        self._sessions = sessions
        self._target = target

    @property
    def wanted(self) -> Iterable[Wanted]:
        return self._target.wanted

    def settle(self, told: Iterable[tuple[Wanted, Told]], now_ms: int) -> tuple[int, set[Key]]:
        for wanted, now_told in told:
            _must_tell(wanted, now_told)
        return self._sessions.create(self._target, now_ms), set()


class Incremental(FetchContext):
    """A fetch within a session: unchanged partitions are left out of the response."""

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: Session):
        self._session = session
        self._epoch = session.epoch

    @property
    def wanted(self) -> Iterator[Wanted]:
        return iter(tuple(self._session.partitions.values()))

    def settle(self, told: Iterable[tuple[Wanted, Told]], now_ms: int) -> tuple[int, set[Key]]:
        session = self._session
        if session.epoch != self._epoch:
            raise KafkaError(Error.INVALID_FETCH_SESSION_EPOCH)
        unchanged = set()
        for wanted, now_told in told:
            key = wanted.key
            if not _must_tell(wanted, now_told):
                unchanged.add(key)
            elif now_told.has_records and session.partitions.pop(key, None) is not None:
                # Last in line next time, so that a full response starves nobody.
                session.partitions[key] = wanted
        return session.id, unchanged


class FetchSessions:
    """The sessions of a broker, bounded in number (max.incremental.fetch.session.cache.slots)."""

    def __init__(self, slots: int, chosen: random.Random | None = None):
        self._slots = slots
        self._random = chosen or random.Random()
        self._sessions: dict[int, Session] = {}
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, target: FetchTarget, now_ms: int) -> FetchContext:
        """The context of a request.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or
        FETCH_SESSION_TOPIC_ID_ERROR when the fetcher went from names to ids or back.
        """
        if target.epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if target.session_id != NO_SESSION:
                self._sessions.pop(target.session_id, None)
            if target.epoch == FINAL_EPOCH:
                return Sessionless(target.wanted)
            return Opening(self, target)
        return self._resume(target, now_ms)

    def create(self, target: FetchTarget, now_ms: int) -> int:
        """Remember a target; the new session's id, or NO_SESSION when there is no room."""
        if not self._make_room(target, now_ms):
            return NO_SESSION
        session_id = self._random.randint(1, _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _LAST_EPOCH)
        self._sessions[session_id] = Session(session_id, target, now_ms)
        return session_id

    def _resume(self, target: FetchTarget, now_ms: int) -> FetchContext:
        session = self._sessions.get(target.session_id)
        if session is None:
            raise KafkaError(Error.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != target.epoch:
            raise KafkaError(Error.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != target.uses_topic_ids:
            raise KafkaError(Error.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(target)
        del self._sessions[session.id]
        if not session.partitions:
            return Sessionless(target.wanted)
        self._sessions[session.id] = session
        session.used_ms = now_ms
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        return Incremental(session)

    def _make_room(self, target: FetchTarget, now_ms: int) -> bool:
        """Evict one session if need be: an unused one, else a lesser one than the newcomer.

        A follower's session is worth more than a consumer's, then a larger one more than a
        smaller. Consumers evict only what has lived for a while, so that they do not take turns.
        """
        if self._slots <= 0:
            return False
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > _EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        evictable = [session for session in self._sessions.values()
                     if now_ms - session.created_ms > _EVICTION_MS
                     or (target.is_follower and not session.is_privileged)]
        if not evictable:
            return False
        least = min(evictable, key=lambda session: (session.is_privileged, session.size,
                                                    session.id))
        if (target.is_follower, len(target.wanted)) < (least.is_privileged, least.size):
            return False
        del self._sessions[least.id]
        return True


def _must_tell(wanted: Wanted, told: Told) -> bool:
    """Whether this is news to the fetcher; it is then taken as told."""
    news = told.has_records or told.is_notable
    if wanted.told_high_watermark != told.high_watermark:
        wanted.told_high_watermark = told.high_watermark
        news = True
    if wanted.told_start_offset != told.start_offset:
        wanted.told_start_offset = told.start_offset
        news = True
    if told.has_error:
        # Forget the high watermark, so that recovery from the error is news as well.
        wanted.told_high_watermark = -1
        news = True
    return news
