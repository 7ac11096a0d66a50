"""Fetch sessions (KIP-227): a broker remembers what a fetcher requested; only changes are sent."""

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
"""Topic name or topic id, whichever the fetcher uses, and partition index."""


class Wanted:
    """One partition that a fetcher requests, and the offsets last sent to it in a response."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_bytes",
        "sent_high_watermark",
        "sent_start_offset",
        "topic",
    )

    def __init__(
        self,
        topic: str | bytes,
        partition: int,
        *,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
    ):
        self.topic = topic
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = -1
        """The start offset of a follower's own log; -1 for consumers."""
        self.sent_bytes = 0
        self.sent_high_watermark = -1
        self.sent_start_offset = -1

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    def update(self, other: Wanted) -> None:
        """Take over the request parameters of `other`; the offsets last sent are kept."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset
        self.sent_bytes = 0


class PartitionResult(Protocol):
    """The part of one partition's response that decides whether a session has to send it."""

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
        """Whether it has a diverging epoch or a preferred replica, which are always sent."""


@dataclass(slots=True, kw_only=True)
class FetchTarget:
    """The fields of a Fetch request that concern its session."""

    session_id: int
    epoch: int
    wanted: list[Wanted]
    forgotten: list[Key]
    uses_topic_ids: bool
    is_follower: bool = False


class Session:
    """One fetch session: the partitions requested, in the order in which they are served."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "is_privileged",
        "partitions",
        "size",
        "used_ms",
        "uses_topic_ids",
    )

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
        """Apply an incremental request; items of its `wanted` are replaced by the session's own."""
        for place, wanted in enumerate(target.wanted):
            known = self.partitions.setdefault(wanted.key, wanted)
            if known is not wanted:
                known.update(wanted)
                target.wanted[place] = known
        for key in target.forgotten:
            self.partitions.pop(key, None)
        self.size = len(self.partitions)


class FetchContext:
    """The partitions that one request fetches, and which of them its response includes."""

    __slots__ = ()

    @property
    def wanted(self) -> Iterable[Wanted]:
        raise NotImplementedError

    def settle(
        self, results: Iterable[tuple[Wanted, PartitionResult]], now_ms: int
    ) -> tuple[int, set[Key]]:
        """Return the session id to respond with, and the partitions to leave out of the response.

        Raises KafkaError(INVALID_FETCH_SESSION_EPOCH) when another request used the session.
        """
        raise NotImplementedError

    @property
    def is_full(self) -> bool:
        """Whether the response has all partitions, not only those that have changed."""
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


class Opening(FetchContext):
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
        for wanted, result in results:
            _must_include(wanted, result)
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
            key = wanted.key
            if not _must_include(wanted, result):
                unchanged.add(key)
            elif result.has_records and session.partitions.pop(key, None) is not None:
                # Last in line next time, so that a full response starves nobody.
                session.partitions[key] = wanted
        return session.id, unchanged


class FetchSessions:
    """The sessions of a broker, bounded in number (max.incremental.fetch.session.cache.slots)."""

    def __init__(self, slots: int, chosen: random.Random | None = None):
        self._slots = slots
        # A session id is no secret: fetches are authorized by partition.
        self._random = chosen or random.Random()  # noqa: S311
        self._sessions: dict[int, Session] = {}
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, target: FetchTarget, now_ms: int) -> FetchContext:
        """Return the context of a request, and update the session that it names.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or
        FETCH_SESSION_TOPIC_ID_ERROR when the fetcher switched between topic names and topic ids.
        """
        if target.epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if target.session_id != NO_SESSION:
                self._sessions.pop(target.session_id, None)
            if target.epoch == FINAL_EPOCH:
                return Sessionless(target.wanted)
            return Opening(self, target)
        return self._resume(target, now_ms)

    def create(self, target: FetchTarget, now_ms: int) -> int:
        """Create a session; returns its id, or NO_SESSION when the cache is full."""
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
        """Evict one session if the cache is full: an unused one, or one of lower priority.

        Followers have priority over consumers, then larger sessions over smaller ones. Consumers
        evict only sessions older than two minutes, so that they do not evict each other in turns.
        """
        if self._slots <= 0:
            return False
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > _EVICTION_MS:
            del self._sessions[oldest.id]
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
        del self._sessions[least.id]
        return True


def _must_include(wanted: Wanted, result: PartitionResult) -> bool:
    """Whether a response must include the partition; what it then sends is remembered."""
    changed = result.has_records or result.is_notable
    if wanted.sent_high_watermark != result.high_watermark:
        wanted.sent_high_watermark = result.high_watermark
        changed = True
    if wanted.sent_start_offset != result.start_offset:
        wanted.sent_start_offset = result.start_offset
        changed = True
    if result.has_error:
        # Forget the high watermark, so that recovery from the error counts as a change too.
        wanted.sent_high_watermark = -1
        changed = True
    return changed
