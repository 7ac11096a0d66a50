"""Reads the partitions of one ShareFetch request, and acquires the records for its member."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.codec.batch import Buffer
from wirekafka.coordinator.groups.share.leader import LedShare, Phase
from wirekafka.coordinator.share_state.states import ShareKey
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition.reading import ReadRange, ReadResult
from wirekafka.replication.partition.remote_log import Pending, RemoteResult
from wirekafka.replication.partition.waiting import Watched
from wirekafka.replication.share.aborted_records import archive_aborted
from wirekafka.replication.share.acquisition import (
    AcquiredRun,
    Acquisition,
    FetchedBatches,
    acquire,
)
from wirekafka.replication.share.sessions import SharedKey

if TYPE_CHECKING:
    from wirekafka.broker import Broker

_NOTHING = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTerms:
    """The parameters of a ShareFetch request that apply to all its partitions."""

    group_id: str
    member_id: str
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_exact: bool
    """Acquire no more than `max_records` (record-limit mode, KIP-1206)."""
    committed: bool


class SharedResult(NamedTuple):
    """The result for one partition of a ShareFetch; without records unless some are acquired."""

    error: Error = Error.NONE
    records: Buffer = _NOTHING
    acquired: Sequence[AcquiredRun] = ()


class _Read:
    """A share partition that this request holds, and its read there."""

    __slots__ = ("key", "offset", "result", "share")

    def __init__(self, key: SharedKey, share: LedShare):
        self.key = key
        self.share = share
        self.offset = share.machine.next_fetch_offset()
        self.result: ReadResult | RemoteResult | Pending[RemoteResult] | KafkaError = _UNREAD


_UNREAD = ReadResult()


class ShareReads:
    """The reads of one request. Call `release` at the end, whatever happens.

    While a request has data to acquire in a partition, it holds the partition: otherwise one append
    would release all waiting members for records that a single member gets.
    """

    def __init__(self, broker: Broker, terms: ShareTerms):
        self._broker = broker
        self._terms = terms
        self._shares: dict[SharedKey, LedShare] = {}
        self._loading: set[SharedKey] = set()
        self._held: list[_Read] = []
        self.results: dict[SharedKey, SharedResult] = {}

    def open(self, keys: Iterable[SharedKey]) -> None:
        """Find the share partitions, in the order in which they are to be served."""
        for key in keys:
            try:
                share, is_new = self._broker.shares.obtain(ShareKey(self._terms.group_id, *key))
            except KafkaError as error:
                self.results[key] = SharedResult(error.error)
                continue
            if is_new and share.failure is not None:
                self.results[key] = SharedResult(share.failure.error)
                continue
            self._shares[key] = share
            if is_new:
                self._loading.add(key)

    @property
    def has_failed(self) -> bool:
        """Whether no partition can be read at all."""
        return not self._shares

    def watched(self) -> list[Watched]:
        """The objects whose changes the request waits for: partitions, and share partitions."""
        return [each for share in self._shares.values() for each in (share, share.partition)]

    def hold(self) -> bool:
        """Hold the partitions with records to acquire; False, with none held, if too few."""
        held = self._hold_all()
        if not held:
            return False
        size_bytes, is_ready = self._read(held)
        if is_ready or size_bytes >= self._terms.min_bytes:
            self._held = held
            return True
        for read in held:
            read.share.reader = None
        return False

    def has_become_ready(self, changed: Watched) -> bool:
        """Whether the request can be completed after a change; the partitions are held then."""
        return bool(self._held) or self.hold()

    def hold_any(self) -> None:
        """Hold the free partitions, although fewer than requested: the wait is over."""
        if not self._held:
            self._held = self._hold_all()
            self._read(self._held)

    async def acquire(self) -> None:
        """Acquire records of the partitions that are held, for `results`."""
        left = self._terms.max_records
        for read in self._held:
            result = read.result
            if not isinstance(result, ReadResult | KafkaError):
                result = await _settled(result)
            found = self._acquire(read, result, left)
            left -= sum(last - first + 1 for first, last, _ in found.acquired)
            traffic = read.share.partition.traffic
            if traffic is not None:
                traffic.bytes_out += len(found.records)
            self.results[read.key] = found
            self._broker.shares.arm(read.share)
        for key in self._loading:
            failure = self._shares[key].failure
            if failure is not None:
                self.results[key] = SharedResult(failure.error)

    def release(self) -> None:
        """Let other requests acquire records."""
        held = self._held
        self._held = []
        for read in held:
            if not isinstance(read.result, ReadResult | KafkaError):
                read.result.cancel()
            read.share.release(self)

    def _hold_all(self) -> list[_Read]:
        return [_Read(key, share) for key, share in self._shares.items() if share.hold(self)]

    def _read(self, held: Sequence[_Read]) -> tuple[int, bool]:
        """Look up the records; returns their size in bytes, and whether to respond at once."""
        if not held:
            return 0, False
        size_bytes, is_ready = 0, False
        share_bytes = max(self._terms.max_bytes // len(held), 1)
        for read in held:
            wanted = ReadRange(
                offset=read.offset,
                max_bytes=share_bytes,
                at_least_one=size_bytes == 0,
                committed=self._terms.committed,
            )
            try:
                read.result = result = read.share.partition.read(wanted)
            except KafkaError as error:
                read.result = error
                is_ready = True
                continue
            if not isinstance(result, ReadResult):
                is_ready = True
            elif result.records is not None:
                size_bytes += result.records.size_bytes
        return size_bytes, is_ready

    def _acquire(
        self, read: _Read, result: ReadResult | RemoteResult | KafkaError, left: int
    ) -> SharedResult:
        share, terms = read.share, self._terms
        if share.phase is not Phase.ACTIVE or not share.is_led:
            return SharedResult(Error.NOT_LEADER_OR_FOLLOWER)
        if isinstance(result, KafkaError):
            if result.error is not Error.OFFSET_OUT_OF_RANGE:
                return SharedResult(result.error)
            # Records were deleted: the client fetches again, from where the log starts now.
            share.machine.move_log_start(share.partition.start_offset)
            return SharedResult()
        if left <= 0 or result.records is None or not result.records.size_bytes:
            return SharedResult()
        fetched = FetchedBatches.read(result.records, share.machine, left)
        wanted = Acquisition(
            terms.member_id, left, terms.batch_size, terms.is_exact, fetch_offset=read.offset
        )
        acquired: Sequence[AcquiredRun] = acquire(
            share.machine, fetched, wanted, self._broker.clock.now_ms()
        )
        if terms.committed and acquired:
            aborted = (
                result.aborted
                if isinstance(result, RemoteResult)
                else share.partition.log.aborted_transactions(
                    read.offset, result.last_stable_offset
                )
            )
            acquired = archive_aborted(share.machine, acquired, fetched.data, aborted)
        if not acquired:
            return SharedResult()
        return SharedResult(
            records=fetched.slice(acquired[0].first, acquired[-1].last), acquired=acquired
        )


async def _settled(pending: Pending[RemoteResult]) -> RemoteResult | KafkaError:
    try:
        return await pending
    except KafkaError as error:
        return error
