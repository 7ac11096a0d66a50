"""Share sessions (KIP-932): the partitions that a member of a share group fetches from a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.errors import Error, KafkaError

FIRST_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF
MOST_PARTITIONS = 200_000
"""Of all sessions, each of less than 300 bytes: at the most 60 MB."""

SharedKey = tuple[bytes, int]
"""Topic id and partition index."""


class MemberSessionKey(NamedTuple):
    """The member whose session it is; it has at most one on a broker."""

    group_id: str
    member_id: str


class _Requested:
    """A partition of a session, with the topic name that was known when it was added."""

    __slots__ = ("is_due", "topic")

    def __init__(self, topic: str | None, is_due: bool):
        self.topic = topic
        self.is_due = is_due
        """Whether the next response has to include it, even without records."""


@dataclass(slots=True, kw_only=True)
class SessionRequest:
    """The fields of a ShareFetch request that concern its session.

    `wanted` has the topic's name for each partition, None if the topic id is unknown.
    """

    key: MemberSessionKey
    epoch: int
    wanted: Mapping[SharedKey, str | None]
    forgotten: Sequence[SharedKey] = ()
    acknowledges: bool = False
    connection_id: str = ""


class ShareSession:
    """One session; `partitions` are in the order in which they are served."""

    __slots__ = ("connection_id", "epoch", "key", "partitions")

    def __init__(self, request: SessionRequest):
        self.key = request.key
        self.epoch = 1
        self.connection_id = request.connection_id
        self.partitions = {
            key: _Requested(topic, is_due=False) for key, topic in request.wanted.items()
        }

    def update(self, request: SessionRequest) -> None:
        """Apply a later request."""
        for key, topic in request.wanted.items():
            if key not in self.partitions:
                self.partitions[key] = _Requested(topic, is_due=True)
        for key in request.forgotten:
            self.partitions.pop(key, None)

    def advance(self) -> None:
        """Increase the epoch, which the next request has to have."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1


class ShareContext:
    """The partitions that one request fetches, and the partitions that its response includes."""

    __slots__ = ("_epoch", "_session", "wanted")

    def __init__(self, wanted: Mapping[SharedKey, str | None], session: ShareSession | None = None):
        self.wanted = wanted
        """The name of the topic of each partition, None for an unknown topic id."""
        self._session = session
        self._epoch = 0 if session is None else session.epoch

    def settle(self, results: Iterable[tuple[SharedKey, bool, bool]]) -> set[SharedKey]:
        """The partitions that the response includes.

        A result has the partition, whether it has records, and whether it has an error. KafkaError:
        INVALID_SHARE_SESSION_EPOCH when another request used the session meanwhile.
        """
        session = self._session
        if session is None:
            return {key for key, _, _ in results}
        if session.epoch != self._epoch:
            raise KafkaError(Error.INVALID_SHARE_SESSION_EPOCH)
        included = set()
        for key, has_records, has_error in results:
            requested = session.partitions.get(key)
            if requested is None:
                included.add(key)
                continue
            if has_records or has_error or requested.is_due:
                included.add(key)
                requested.is_due = has_error
            if has_records:
                # Last in line next time.
                session.partitions[key] = session.partitions.pop(key)
        return included


class ShareSessions:
    """The share sessions of a broker, limited by `group.share.max.share.sessions`."""

    def __init__(self, most: int):
        self._most = most
        self._sessions: dict[MemberSessionKey, ShareSession] = {}
        self._by_connection: dict[str, MemberSessionKey] = {}
        """The session opened last on each connection, also after it ended."""
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The partitions of all sessions."""
        return self._partitions

    def open(self, request: SessionRequest) -> ShareContext:
        """Open, update or end a session, and return the partitions that the request fetches.

        KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, INVALID_REQUEST for
        acknowledgements in the first request, SHARE_SESSION_LIMIT_REACHED.
        """
        if request.epoch == FIRST_EPOCH:
            return self._create(request)
        session = self._found(request.key)
        if request.epoch == FINAL_EPOCH:
            return ShareContext({})
        if session.epoch != request.epoch:
            raise KafkaError(Error.INVALID_SHARE_SESSION_EPOCH)
        before = len(session.partitions)
        session.update(request)
        self._partitions += len(session.partitions) - before
        if self._partitions > MOST_PARTITIONS and len(session.partitions) > before:
            self.close(request.key)
            raise KafkaError(Error.SHARE_SESSION_LIMIT_REACHED)
        session.advance()
        wanted = {key: requested.topic for key, requested in session.partitions.items()}
        return ShareContext(wanted, session)

    def note_acknowledgement(self, key: MemberSessionKey, epoch: int) -> None:
        """Check and increase the epoch for a ShareAcknowledge request.

        KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == FIRST_EPOCH:
            raise KafkaError(Error.INVALID_SHARE_SESSION_EPOCH)
        session = self._found(key)
        if epoch == FINAL_EPOCH:
            return
        if session.epoch != epoch:
            raise KafkaError(Error.INVALID_SHARE_SESSION_EPOCH)
        session.advance()

    def close(self, key: MemberSessionKey) -> list[SharedKey]:
        """End a session, and return its partitions; none if there is no such session."""
        session = self._sessions.pop(key, None)
        if session is None:
            return []
        self._partitions -= len(session.partitions)
        return list(session.partitions)

    def disconnected(self, connection_id: str) -> MemberSessionKey | None:
        """Return the session that was opened last on a connection that has ended, if any."""
        return self._by_connection.pop(connection_id, None)

    def opened_on(self, key: MemberSessionKey) -> str | None:
        """The connection on which a session was opened; None without session."""
        session = self._sessions.get(key)
        return None if session is None else session.connection_id

    def has_members(self, group_id: str) -> bool:
        """Whether any member of a group has a session."""
        return any(key.group_id == group_id for key in self._sessions)

    def _create(self, request: SessionRequest) -> ShareContext:
        if request.acknowledges:
            raise KafkaError(Error.INVALID_REQUEST)
        self.close(request.key)
        count = self._partitions + len(request.wanted)
        if len(self._sessions) >= self._most or count > MOST_PARTITIONS:
            raise KafkaError(Error.SHARE_SESSION_LIMIT_REACHED)
        self._sessions[request.key] = ShareSession(request)
        self._partitions = count
        self._by_connection[request.connection_id] = request.key
        return ShareContext(request.wanted)

    def _found(self, key: MemberSessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(Error.SHARE_SESSION_NOT_FOUND)
        return session
