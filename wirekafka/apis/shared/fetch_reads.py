"""Reads the partitions of one Fetch request, and reads them again when more has been appended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.errors import Error, KafkaError
from wirekafka.replication.fetching.fetch_session import Session, Wanted
from wirekafka.replication.fetching.fetch_sessions import FetchContext, PartitionResult
from wirekafka.replication.partition.partition import Partition as LocalPartition
from wirekafka.replication.partition.reading import ReadRange, ReadResult
from wirekafka.replication.partition.remote_log import Pending, RemoteResult
from wirekafka.replication.partition.replica import NO_EPOCH
from wirekafka.replication.partition.waiting import Watched

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.metrics.traffic import Traffic

CONSUMER = -1
"""The replica id of a consumer, as opposed to a follower."""

_NOTHING = ReadResult()
_THIS = -1
HELD_ELSEWHERE = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.KAFKA_STORAGE_ERROR})
"""Errors of existing partitions that this broker cannot serve; they are reported at once."""


_UNKNOWN = frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID})


class FetchTerms(NamedTuple):
    """The parameters of a Fetch request that apply to all its partitions; sizes in bytes.

    `replica_id` is -1 for a consumer, -2 for a debugger, else a follower with its broker epoch.
    """

    replica_id: int
    broker_epoch: int
    min_bytes: int
    max_bytes: int
    committed: bool
    """Read no further than the last stable offset."""
    from_any_replica: bool
    """Followers may be read too: by consumers since version 11, and by debuggers (KIP-392)."""


class Found:
    """One partition of a fetch: the request's `Wanted` and the result of the latest read."""

    __slots__ = ("error", "partition", "preferred_replica", "result", "wanted")

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self.partition: LocalPartition | None = None
        self.result = _NOTHING
        self.error = Error.NONE
        self.preferred_replica = _THIS
        """The broker id of the replica from which the consumer should read; -1 for this broker."""

    @property
    def size_bytes(self) -> int:
        records = self.result.records
        return records.size_bytes if records is not None else 0

    @property
    def high_watermark(self) -> int:
        return self.result.high_watermark

    @property
    def start_offset(self) -> int:
        return self.result.start_offset

    @property
    def has_records(self) -> bool:
        records = self.result.records
        return records is not None and records.size_bytes > 0

    @property
    def has_error(self) -> bool:
        return self.error is not Error.NONE

    @property
    def is_denied(self) -> bool:
        return self.error is Error.TOPIC_AUTHORIZATION_FAILED

    @property
    def is_unknown(self) -> bool:
        return self.error in _UNKNOWN

    @property
    def is_news(self) -> bool:
        """Whether the result must be sent in a session, regardless of earlier responses."""
        return self.has_records or self.has_error or self.is_notable

    @property
    def is_notable(self) -> bool:
        return self.result.diverging is not None or self.preferred_replica != _THIS


_RemoteReads = tuple[tuple[Found, Pending[RemoteResult]], ...]
_NO_READS: _RemoteReads = ()


SelectReplica = Callable[[LocalPartition, int], int]
"""Returns the id of the broker from which to read an offset of a partition; -1 for this broker."""


class Reads(ABC):
    """The reads of one request; `read` can be repeated when more has been appended."""

    is_follower = False
    __slots__ = (
        "_broker",
        "_by_partition",
        "_is_final",
        "_max_bytes",
        "_min_bytes",
        "_reading",
        "_session",
        "_size_bytes",
        "found",
        "pending",
        "refused",
        "terms",
    )

    def __init__(self, broker: Broker, terms: FetchTerms, context: FetchContext):
        self.found = [Found(each) for each in context.wanted]
        self.terms = terms
        self._session = context.session
        self._broker = broker
        # One object for all partitions, overwritten for each read, saves an allocation.
        self._reading = ReadRange(
            offset=0,
            max_bytes=0,
            committed=terms.committed,
            to_log_end=terms.replica_id != CONSUMER,
            from_any_replica=terms.from_any_replica,
        )
        self._max_bytes = min(terms.max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(terms.min_bytes, self._max_bytes)
        self._size_bytes = 0
        self._is_final = False
        self._by_partition: dict[Watched, Found] = {}
        self.pending = _NO_READS
        """Unfinished reads of remote storage, which `read_remote` waits for."""
        self.refused: Container[str | bytes] = ()
        """The topics that the client may not read."""

    @property
    def is_ready(self) -> bool:
        """Whether to respond at once: enough bytes, or an error or divergence to report."""
        return self._is_final or self._size_bytes >= self._min_bytes

    def serves(self, wanted: Wanted) -> bool:
        """Whether a partition exists on this broker, and the client may read it."""
        with suppress(KafkaError):
            self._partition(wanted)
            return True
        return False

    def read(self) -> None:
        """Read every partition, as far as the limits allow.

        The first batch of the first partition with data is read whatever its size, so that a
        fetcher whose limits are too small still makes progress (KIP-74).
        """
        if self._session is not None:
            self._find_woken(self._session)
        left_bytes = self._max_bytes
        self._size_bytes = unknown = 0
        self.pending = _NO_READS
        for found in self.found:
            found.error, found.result, found.partition = Error.NONE, _NOTHING, None
            try:
                found.partition = partition = self._partition(found.wanted)
            except KafkaError as error:
                found.error = error.error
                if error.error in HELD_ELSEWHERE:
                    self._is_final = True
                else:
                    unknown += 1
                continue
            try:
                result = self._read_found(found, partition, left_bytes)
            except KafkaError as error:
                found.error = error.error
                self._is_final = True
                continue
            if not isinstance(result, ReadResult):
                self.pending = (*self.pending, (found, result))
                self._is_final = True
                left_bytes = max(left_bytes - found.wanted.max_bytes, 0)
                continue
            found.result = result
            if found.is_notable:
                self._is_final = True
            size_bytes = found.size_bytes
            if size_bytes:
                self._size_bytes += size_bytes
                left_bytes = max(left_bytes - size_bytes, 0)
        # Unknown partitions alone do not end the wait: a client would retry in a busy loop.
        others = 0 if self._session is None else self._session.idle_count
        self._is_final = self._is_final or unknown == len(self.found) + others
        if unknown:
            self.found.sort(
                key=lambda found: found.partition is None and found.error not in HELD_ELSEWHERE
            )

    def count(self, traffic: Traffic) -> None:
        """Count the sent bytes and records, once the response is settled."""
        traffic.last_fetch_is_followers = is_follower = self.is_follower
        for found in self.found:
            counters = found.partition.traffic if found.partition is not None else None
            counters = counters or traffic.of_others
            if found.has_error:
                counters.fetches += 1
                counters.failed_fetches += 1
            else:
                counters.read(found.size_bytes, is_follower=is_follower)

    async def read_remote(self) -> None:
        """Wait for the reads of remote storage; cancel them if the caller is cancelled."""
        pending, self.pending = self.pending, _NO_READS
        try:
            for found, read in pending:
                try:
                    found.result = await read
                except KafkaError as error:
                    found.error = error.error
        finally:
            for _, read in pending:
                read.cancel()

    def watched(self) -> Iterable[Watched]:
        """The partitions whose changes may make the response ready."""
        self._by_partition = {
            found.partition: found for found in self.found if found.partition is not None
        }
        session = self._session
        return self._by_partition if session is None else (*self._by_partition, session)

    def has_become_ready(self, changed: Watched) -> bool:
        """Whether the response is ready after a change of this partition."""
        if self._session is not None:
            self._find_woken(self._session)
        found = self._by_partition.get(changed)
        if found is None or found.partition is None or self._has_ended(found, found.partition):
            return True
        if not self._may_get_records(found.partition):
            return False
        if self._min_bytes <= 1:
            offset = found.wanted.fetch_offset
            # Between the readable end and the log end, it waits; beyond the log end, it fails.
            return (
                self._end_offset(found.partition) > offset
                or offset > found.partition.log.end_offset
            )
        # Read the changed partition only: reading all for each append would be quadratic.
        before_bytes = found.size_bytes
        try:
            result = self._read_one(found.partition, found.wanted, self._max_bytes)
        except KafkaError:
            return True
        if not isinstance(result, ReadResult):
            result.cancel()  # The offset has just moved to remote storage; `read` reads it there.
            return True
        found.result = result
        self._size_bytes += found.size_bytes - before_bytes
        return self._size_bytes >= self._min_bytes

    def results(self) -> Iterator[tuple[Wanted, PartitionResult]]:
        """Each partition with its result, for the session to remember the sent offsets."""
        return ((found.wanted, found) for found in self.found)

    def rest(self) -> None:
        """Make the partitions idle that a follower's session has no need to read for now.

        Call it once the response is settled. A follower outside of the ISR may join it at any
        fetch, so its partitions are never idle.
        """
        session = self._session
        if session is None:
            return
        for found in self.found:
            partition, result, wanted = found.partition, found.result, found.wanted
            if (
                partition is not None
                and partition.is_leader
                and not found.has_error
                and result.diverging is None
                and wanted.fetch_offset == partition.log.end_offset
                and wanted.current_leader_epoch == partition.leader_epoch
                and result.high_watermark == partition.high_watermark
                and result.start_offset == partition.start_offset
                and self.terms.replica_id in partition.isr
            ):
                session.rest(wanted, partition)

    def _find_woken(self, session: Session) -> None:
        """Add the idle partitions of the session that have changed meanwhile."""
        for wanted in session.take_woken():
            found = Found(wanted)
            self.found.append(found)
            with suppress(KafkaError):  # `read` reports it.
                found.partition = self._partition(wanted)
                self._by_partition[found.partition] = found

    def _partition(self, wanted: Wanted) -> LocalPartition:
        topic = wanted.topic
        if self.refused and topic in self.refused:
            raise KafkaError(Error.TOPIC_AUTHORIZATION_FAILED)
        if isinstance(topic, bytes):
            try:
                return self._broker.partition_by_id(topic, wanted.partition)
            except KafkaError as error:
                if error.error is Error.UNKNOWN_TOPIC_ID and wanted.was_there:
                    # The session knows the name of the deleted topic.
                    raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION) from None
                raise
        return self._broker.partitions.get((topic, wanted.partition)) or self._broker.partition(
            topic, wanted.partition
        )

    @abstractmethod
    def _read_found(
        self, found: Found, partition: LocalPartition, left_bytes: int
    ) -> ReadResult | Pending[RemoteResult]:
        """Read from a partition that exists here; raises KafkaError."""

    @abstractmethod
    def _may_get_records(self, partition: LocalPartition) -> bool:
        """Whether the fetcher gets records of the partition now."""

    def _read_one(
        self, partition: LocalPartition, wanted: Wanted, left_bytes: int
    ) -> ReadResult | Pending[RemoteResult]:
        reading = self._reading
        reading.offset = wanted.fetch_offset
        reading.max_bytes = min(wanted.max_bytes, left_bytes)
        reading.at_least_one = self._size_bytes == 0
        reading.current_leader_epoch = wanted.current_leader_epoch
        reading.last_fetched_epoch = wanted.last_fetched_epoch
        return partition.read(reading)

    def _has_ended(self, found: Found, partition: LocalPartition) -> bool:
        """Whether this replica no longer serves the fetch, because of an election or deletion."""
        if self._reading.from_any_replica:
            has_moved = found.wanted.current_leader_epoch not in (NO_EPOCH, partition.leader_epoch)
        else:
            has_moved = not partition.is_leader
        key = partition.topic, partition.index
        return has_moved or self._broker.partitions.get(key) is not partition

    def _end_offset(self, partition: LocalPartition) -> int:
        if self._reading.to_log_end:
            return partition.log.end_offset
        if self._reading.committed:
            return partition.last_stable_offset
        return partition.high_watermark


class ConsumerReads(Reads):
    """The reads of a consumer, or of a debugger."""

    __slots__ = ("_select_replica",)

    def __init__(
        self,
        broker: Broker,
        terms: FetchTerms,
        context: FetchContext,
        select_replica: SelectReplica | None,
    ):
        """`select_replica` finds the replica to read from; None if the consumer reads here."""
        super().__init__(broker, terms, context)
        self._select_replica = select_replica

    def _read_found(
        self, found: Found, partition: LocalPartition, left_bytes: int
    ) -> ReadResult | Pending[RemoteResult]:
        """Read, unless the consumer should read from another replica (KIP-392)."""
        wanted, select = found.wanted, self._select_replica
        if select is not None:
            found.preferred_replica = select(partition, wanted.fetch_offset)
            if found.preferred_replica != _THIS:
                return partition.read_nothing(wanted.current_leader_epoch)
        return self._read_one(partition, wanted, left_bytes)

    def _may_get_records(self, partition: LocalPartition) -> bool:
        return True


class FollowerReads(Reads):
    """The reads of a follower, whose offsets may advance high watermarks."""

    is_follower = True
    __slots__ = ()

    def note_follower(self, now_ms: int) -> None:
        """Report the fetching follower's log end offsets to the leader roles.

        Called after the reads: as in Kafka, the response has the high watermark from before this
        fetch.
        """
        if self._session is not None:
            self._session.fetched_ms = now_ms
        for found in self.found:
            partition, wanted = found.partition, found.wanted
            if (
                partition is None
                or partition.leader is None
                or found.error is not Error.NONE
                or found.result.diverging is not None
            ):
                continue
            try:
                partition.leader.follower_fetched(
                    self.terms.replica_id,
                    wanted.fetch_offset,
                    wanted.log_start_offset,
                    self.terms.broker_epoch,
                    now_ms,
                )
            except KafkaError as error:
                self._size_bytes -= found.size_bytes
                found.error, found.result = error.error, _NOTHING
                self._is_final = True

    def record_throttled(self, now_ms: int) -> None:
        """Count the bytes of throttled partitions that a follower gets, for `leader_throttle`."""
        size_bytes = sum(
            [
                found.size_bytes
                for found in self.found
                if found.partition is not None and self._is_throttled(found.partition)
            ]
        )
        if size_bytes:
            self._broker.leader_throttle.record(size_bytes, now_ms)

    def _read_found(
        self, found: Found, partition: LocalPartition, left_bytes: int
    ) -> ReadResult | Pending[RemoteResult]:
        leader, wanted = partition.leader, found.wanted
        if leader is None or self.terms.replica_id not in leader.followers:
            epoch = wanted.current_leader_epoch
            partition.leading(epoch).check_follower(self.terms.replica_id, epoch)
        result = self._read_one(partition, wanted, left_bytes)
        if (
            isinstance(result, ReadResult)
            and result.records
            and not self._may_get_records(partition)
        ):
            result.records = None
        return result

    def _may_get_records(self, partition: LocalPartition) -> bool:
        """Whether the follower gets records: not if it is out of sync and throttled (KIP-73)."""
        return not (
            self._is_throttled(partition)
            and self.terms.replica_id not in partition.isr
            and self._broker.leader_throttle.is_exceeded(self._broker.clock.now_ms())
        )

    def _is_throttled(self, partition: LocalPartition) -> bool:
        throttled = partition.log.config.leader_replication_throttled_replicas
        return bool(throttled) and self._broker.leader_throttle.applies_to(
            partition.index, throttled
        )
