"""A leader's knowledge of a follower: how far it has fetched, and since when it keeps up."""

from __future__ import annotations

from typing import NamedTuple, Protocol

UNKNOWN = -1


class FetchTimes(Protocol):
    """The fetch session of a follower that has the whole log."""

    @property
    def fetched_ms(self) -> int:
        """The time of the last fetch in the session."""


class RemoteReplica:
    """The position of one follower, taken from its fetches. Offsets are -1 until it fetches."""

    __slots__ = (
        "_caught_up_ms",
        "_fetched_ms",
        "_session",
        "broker_epoch",
        "broker_id",
        "end_offset",
        "leader_end_offset",
        "start_offset",
    )

    def __init__(self, broker_id: int):
        self.broker_id = broker_id
        self.end_offset = UNKNOWN
        self.start_offset = UNKNOWN
        self.broker_epoch: int | None = None
        """The broker epoch of its last fetch (KIP-903); -1 if not sent, None before the first."""
        self.leader_end_offset = UNKNOWN
        """The largest log end offset of the leader at any of its fetches."""
        self._fetched_ms = 0
        self._caught_up_ms = 0
        self._session: FetchTimes | None = None

    @property
    def fetched_ms(self) -> int:
        """The time of its last fetch."""
        session = self._session
        return self._fetched_ms if session is None else max(self._fetched_ms, session.fetched_ms)

    @property
    def caught_up_ms(self) -> int:
        """The latest time at which the follower is known to have had the leader's whole log."""
        session = self._session
        return (
            self._caught_up_ms if session is None else max(self._caught_up_ms, session.fetched_ms)
        )

    def begin_epoch(self, leader_end_offset: int, now_ms: int, *, in_sync: bool) -> None:
        """Start a new leader epoch: a follower in the ISR is taken to have caught up now.

        Its position counts only once it fetches in this epoch: unknown to this broker, it may have
        followed another leader since the last epoch here, or lost its replica and got it again.
        """
        self._caught_up_ms = now_ms if in_sync else 0
        self._fetched_ms = self._caught_up_ms
        self._session = None
        self.end_offset = self.start_offset = UNKNOWN
        self.leader_end_offset = leader_end_offset

    def fetched(
        self, fetch_offset: int, start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """Note a fetch from `fetch_offset` on.

        A follower keeps up if it fetches from the offset that was the end of the log at its last
        fetch: it had the whole log at that time, even if steady appends keep it from ever reaching
        the end.
        """
        if self._session is not None:
            self.wake(self._session)
        if fetch_offset >= leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, self._fetched_ms)
        self.end_offset = fetch_offset
        self.start_offset = start_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self._fetched_ms = now_ms

    def rest(self, session: FetchTimes) -> None:
        """Count each fetch in a session as one from the end of the log, until `wake`."""
        self._session = session

    def wake(self, session: FetchTimes) -> None:
        """Undo `rest`; ignored for another session."""
        if self._session is session:
            self._fetched_ms, self._caught_up_ms = self.fetched_ms, self.caught_up_ms
            self._session = None

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower has the whole log, or had it at most `max_lag_ms` ago."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms


class IsrMember(NamedTuple):
    """A broker of a proposed ISR, and the broker epoch of its last fetch (KIP-903).

    The epoch is -1 for the leader itself and for a follower whose epoch is unknown.
    """

    broker_id: int
    broker_epoch: int


class IsrChange(NamedTuple):
    """A new ISR to propose to the controller with AlterPartition (KIP-497).

    The epochs are the epochs that the leader knew when it computed the change; the controller
    refuses a change based on outdated epochs. A leader has always recovered: its recovery state is
    0, also after an unclean election (KIP-704).
    """

    members: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0

    @property
    def isr(self) -> tuple[int, ...]:
        """The broker ids."""
        return tuple(member.broker_id for member in self.members)


class DecidedIsr(NamedTuple):
    """The controller's decision on an `IsrChange`: the partition's leadership from now on."""

    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int
    partition_epoch: int
