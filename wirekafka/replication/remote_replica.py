"""What a leader knows of a follower: how far it has fetched, and since when it keeps up."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = -1


class RemoteReplica:
    """The position of one follower, taken from its fetches. Offsets are -1 until it fetches."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
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
        self.fetched_ms = 0
        self.caught_up_ms = 0
        """The latest time at which it is known to have had the leader's whole log."""

    def begin_epoch(self, leader_end_offset: int, now_ms: int, *, in_sync: bool) -> None:
        """Start a new leader epoch: a follower in the ISR is taken to have caught up now.

        Its position counts only once it fetches in this epoch: since the last one, unknown to this
        broker, it may have followed another leader, or lost its replica and got it again.
        """
        self.caught_up_ms = now_ms if in_sync else 0
        self.fetched_ms = self.caught_up_ms
        self.end_offset = self.start_offset = UNKNOWN
        self.leader_end_offset = leader_end_offset

    def fetched(
        self, fetch_offset: int, start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """Note a fetch from `fetch_offset` on.

        A follower keeps up if it fetches from what was the end of the log at its last fetch: it
        had everything at that time, even if steady appends keep it from ever reaching the end.
        """
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = fetch_offset
        self.start_offset = start_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has the whole log, or had at most `max_lag_ms` ago."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms


class IsrMember(NamedTuple):
    """A broker of a proposed ISR, and the broker epoch of its last fetch (KIP-903).

    The epoch is -1 for the leader itself and for a follower whose epoch is unknown.
    """

    broker_id: int
    broker_epoch: int


class IsrChange(NamedTuple):
    """A new ISR to propose to the controller with AlterPartition (KIP-497).

    The epochs are those the leader knew when it computed the change; the controller refuses a
    change that is based on outdated ones. A leader has always recovered: its recovery state is 0,
    also after an unclean election (KIP-704).
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
