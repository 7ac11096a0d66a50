"""One fetch session (KIP-227): the requested partitions, and the partitions without changes."""

from __future__ import annotations

from dataclasses import dataclass

from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.waiting import Watched

Key = tuple[str | bytes, int]
"""Topic name or topic id, whichever the fetcher uses, and partition index."""


class Wanted:
    """One partition that a fetcher requests, and the offsets last sent to it in a response."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "idle",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_bytes",
        "sent_high_watermark",
        "sent_start_offset",
        "topic",
        "was_there",
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
        self.key: Key = (topic, partition)
        """The partition, as the fetcher names it."""
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = -1
        """The start offset of a follower's own log; -1 for consumers."""
        self.sent_bytes = 0
        self.sent_high_watermark = -1
        self.sent_start_offset = -1
        self.was_there = False
        """Whether the session has ever found the partition."""
        self.idle: Partition | None = None
        """The partition, while it is idle in a follower's session."""

    def update(self, other: Wanted) -> None:
        """Take over the request parameters of `other`; the offsets last sent are kept."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset
        self.sent_bytes = 0


@dataclass(slots=True, kw_only=True)
class FetchTarget:
    """The fields of a Fetch request that concern its session."""

    session_id: int
    epoch: int
    wanted: list[Wanted]
    forgotten: list[Key]
    uses_topic_ids: bool
    follower_id: int = -1
    """The broker id of a follower; -1 for consumers."""
    connection_id: str = ""

    @property
    def is_follower(self) -> bool:
        """Whether a broker fetches, to replicate, and not a consumer."""
        return self.follower_id >= 0


class Session(Watched):
    """The partitions of one session, in the order in which they are served.

    A follower's partition is idle once it has everything and its leader's offsets were sent: until
    the partition changes, the fetches of the session neither read it nor note the follower. The
    session then watches the partition, up to the request after its change; a parked request
    watches the session.
    """

    __slots__ = (
        "_idle",
        "_watched",
        "_woken",
        "active",
        "connection_id",
        "created_ms",
        "epoch",
        "fetched_ms",
        "follower_id",
        "id",
        "partitions",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, target: FetchTarget, now_ms: int):
        super().__init__()
        self.id = session_id
        self.epoch = 1
        self.follower_id = target.follower_id
        """The broker id of a follower; -1 for consumers."""
        self.connection_id = target.connection_id
        """The connection on which the session was opened."""
        self.uses_topic_ids = target.uses_topic_ids
        self.partitions = {wanted.key: wanted for wanted in target.wanted}
        self.active = dict(self.partitions) if target.is_follower else self.partitions
        """The partitions that are not idle; all of a consumer's."""
        self.created_ms = now_ms
        self.used_ms = now_ms
        """The time of the last request, which decides on its eviction."""
        self.fetched_ms = 0
        """The time of the follower's last fetch that was not refused."""
        self._idle: dict[Watched, Wanted] = {}
        self._woken: list[Wanted] = []
        self._watched: dict[Partition, None] = {}
        """Partitions that are no longer idle, but still watched for the parked request."""

    @property
    def is_privileged(self) -> bool:
        """Whether the session is a follower's, which has priority over consumers' sessions."""
        return self.follower_id >= 0

    @property
    def size(self) -> int:
        """The number of partitions."""
        return len(self.partitions)

    @property
    def idle_count(self) -> int:
        """The number of idle partitions."""
        return len(self._idle)

    def update(self, target: FetchTarget) -> None:
        """Apply an incremental request to the session.

        Items of `target.wanted` that the session has already are replaced by the session's own.
        """
        self._unwatch()
        for place, wanted in enumerate(target.wanted):
            key = wanted.key
            known = self.partitions.setdefault(key, wanted)
            if known is wanted:
                self.active[key] = wanted
                continue
            if known.idle is not None:
                self._end_rest_of(known, known.idle)
            known.update(wanted)
            target.wanted[place] = known
        for key in target.forgotten:
            forgotten = self.partitions.pop(key, None)
            if forgotten is not None and forgotten.idle is not None:
                self._end_rest_of(forgotten, forgotten.idle)
            self.active.pop(key, None)

    def serve_last(self, wanted: Wanted) -> None:
        """Move an active partition to the end, so that a full response starves nobody."""
        if self.active.pop(wanted.key, None) is not None:
            self.active[wanted.key] = wanted

    def rest(self, wanted: Wanted, partition: Partition) -> None:
        """Make a follower's partition idle until it changes; ignored if it was forgotten."""
        if self.active.pop(wanted.key, None) is not None:
            wanted.idle = partition
            self._idle[partition] = wanted
            self._watched.pop(partition, None)
            partition.watchers[self] = None
            if partition.leader is not None:
                partition.leader.follower_rests(self.follower_id, self)

    def end_rest(self) -> None:
        """Make all idle partitions active, as when the session ends."""
        self._unwatch()
        for wanted in tuple(self._idle.values()):
            if wanted.idle is not None:
                self._end_rest_of(wanted, wanted.idle)

    def look(self, changed: Watched) -> None:
        """Make an idle partition active that has changed, and let a parked request check it."""
        wanted = self._idle.get(changed)
        if wanted is not None and wanted.idle is not None:
            self._watched[wanted.idle] = None
            self._activate(wanted, wanted.idle)
            self._woken.append(wanted)
        for waiter in tuple(self.watchers):
            waiter.look(changed)

    def take_woken(self) -> list[Wanted]:
        """Return the partitions that have changed since the last request began, each once."""
        woken = self._woken
        self._woken = []
        return woken

    def _end_rest_of(self, wanted: Wanted, partition: Partition) -> None:
        self._activate(wanted, partition)
        del partition.watchers[self]

    def _activate(self, wanted: Wanted, partition: Partition) -> None:
        wanted.idle = None
        del self._idle[partition]
        self.active[wanted.key] = wanted
        if partition.leader is not None:
            partition.leader.follower_woke(self.follower_id, self)

    def _unwatch(self) -> None:
        for partition in self._watched:
            del partition.watchers[self]
        self._watched.clear()
        self._woken.clear()
