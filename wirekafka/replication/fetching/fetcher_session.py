"""The follower's side of a fetch session (KIP-227): the last request, and the next changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from wirekafka.errors import Error
from wirekafka.replication.fetching.fetch_sessions import FIRST_EPOCH, NO_SESSION

_LAST_EPOCH = 0x7FFFFFFF
_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.

FollowedKey = tuple[bytes, int]
"""Topic id and partition index."""


class PartitionFetch(NamedTuple):
    """The fields of one partition in a follower's Fetch request."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Plan(NamedTuple):
    """One Fetch request: its session, and the partitions that are new, changed or left out."""

    session_id: int
    session_epoch: int
    wanted: Mapping[FollowedKey, PartitionFetch]
    forgotten: list[FollowedKey]


class FetcherSession:
    """The session with one leader: its first request is full, later requests are incremental.

    A response must be processed before the next request is planned. If the leader grants no
    session, because its cache is full, every request is full.
    """

    __slots__ = ("_epoch", "_id", "requested")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self.requested: dict[FollowedKey, PartitionFetch] = {}
        """The partitions of the session and their positions, as last sent to the leader."""

    @property
    def is_full(self) -> bool:
        """Whether the next request has to have every partition."""
        return self._epoch == FIRST_EPOCH

    def full(self, wanted: Mapping[FollowedKey, PartitionFetch]) -> Plan | None:
        """Return a request that starts a new session; None if no partition is wanted."""
        self.requested = dict(wanted)
        return Plan(self._id, FIRST_EPOCH, self.requested, []) if wanted else None

    def incremental(
        self, wanted: Mapping[FollowedKey, PartitionFetch], unwanted: Iterable[FollowedKey]
    ) -> Plan | None:
        """Return a request with the session's changes; None if the session has no partition."""
        requested = self.requested
        changed = {key: at for key, at in wanted.items() if requested.get(key) != at}
        forgotten = [key for key in unwanted if requested.pop(key, None) is not None]
        requested.update(changed)
        if not requested and not forgotten:
            return None
        plan: Plan = _new(Plan, (self._id, self._epoch, changed, forgotten))
        return plan

    def accept(self, session_id: int) -> None:
        """Note the session id of a response without error."""
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        elif self.is_full:
            self._id, self._epoch = session_id, 1
        elif session_id != self._id:
            self.refuse(Error.INVALID_FETCH_SESSION_EPOCH)
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def refuse(self, error: int) -> None:
        """Note an error of the whole response: the next request starts a new session.

        That request has the id of the current session, so that the leader closes it, unless the
        leader does not know the id.
        """
        if error == Error.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        self._epoch = FIRST_EPOCH

    def interrupt(self) -> None:
        """Note that a request may have been lost: the leader may be one session epoch ahead."""
        self._epoch = FIRST_EPOCH
