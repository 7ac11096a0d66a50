"""The follower role: append the leader's batches, take its high watermark, truncate to its log."""

from __future__ import annotations

from dataclasses import dataclass

from wirekafka.codec.batch import HEADER_BYTES, read_header
from wirekafka.replication.partition.remote_log import LocalStart
from wirekafka.replication.partition.replica import NO_EPOCH, Replica
from wirekafka.runtime.replicated_log import Buffer


@dataclass(slots=True, kw_only=True)  # Frozen, it would take three times as long to make.
class PartitionResponse:
    """The offsets of one partition in a leader's Fetch response, if it has no error there."""

    records: Buffer
    high_watermark: int
    start_offset: int
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where this log diverges from the leader's; `records` is empty then."""


@dataclass(slots=True, kw_only=True)
class LeaderData(PartitionResponse):
    """One partition of a leader's Fetch response, with the parameters of the request."""

    leader_epoch: int
    """The current leader epoch of the request."""
    fetch_offset: int


class ReplicaFollower:
    """The operations of a replica while it follows.

    Get it from `Partition.follower` each time: it is invalid once the role changes.
    """

    __slots__ = ("_log", "_replica")

    def __init__(self, replica: Replica):
        self._replica = replica
        self._log = replica.log

    @property
    def fetch_offset(self) -> int:
        """The next offset to fetch from the leader: the end of this log."""
        return self._log.end_offset

    @property
    def last_fetched_epoch(self) -> int:
        """The newest leader epoch in the log, by which the leader detects a divergence."""
        return self._log.epochs.latest

    def take(self, data: LeaderData, now_ms: int) -> bool:
        """Apply the leader's response; False if the request is outdated and nothing was applied.

        Where the logs diverge, only the truncation takes place: the leader's high watermark would
        cover records here that it does not have (KAFKA-14704). While `Replica.awaits_sync`, the
        next fetch has to wait, since its offset acknowledges everything before it.
        Raises KafkaError as `Log.append_as_follower`, with nothing appended.
        """
        if (
            data.leader_epoch != self._replica.leader_epoch
            or data.fetch_offset != self._log.end_offset
        ):
            return False
        self.apply(data, now_ms)
        return True

    def apply(self, response: PartitionResponse, now_ms: int) -> None:
        """Apply the response to a request of the current leader epoch, from the end of this log on.

        As `take`, whose checks the caller has made.
        """
        if response.diverging is not None:
            self._truncate(response.diverging, now_ms)
            return
        replica, log = self._replica, self._log
        records, start_offset = response.records, log.start_offset
        if records:
            if start_offset == log.end_offset:
                self._begin_within(records, now_ms)
                start_offset = log.start_offset
            log.append_as_follower(records, now_ms, replica.leadership.leader_epoch)
            if replica.traffic is not None:
                replica.traffic.replication_bytes_in += len(records)
            if log.end_offset >= replica.flush_at:
                replica.sync_or_defer()
        high_watermark = response.high_watermark
        if not start_offset <= high_watermark <= log.end_offset:
            # The leader's may be beyond the end of this log.
            high_watermark = replica.within_log(high_watermark)
        replica.set_high_watermark(high_watermark)
        if response.start_offset > start_offset or log.remote is not None:
            log.advance_start(min(response.start_offset, high_watermark))

    def return_to_range(self, start_offset: int, end_offset: int, now_ms: int) -> None:
        """Recover from OFFSET_OUT_OF_RANGE, given the start and end offset of the leader's log.

        A log that is too long is truncated. A log that ends before the leader's log starts, because
        the replica was offline for longer than the retention, restarts at `start_offset`, empty.
        Raises KafkaError.
        """
        log = self._log
        if end_offset < log.end_offset:
            log.truncate_to(end_offset, now_ms)
        elif start_offset > log.end_offset:
            log.truncate_fully_at(start_offset, now_ms)
        self._bound_high_watermark()

    def restart_after_remote(self, start_offset: int, start: LocalStart, now_ms: int) -> None:
        """Begin where a remote segment ends, given the start offset of the leader's log.

        Raises KafkaError.
        """
        self._log.restart_after_remote(
            start_offset, start.offset, start.epochs, start.producers, now_ms
        )
        self._bound_high_watermark()

    def truncate_unknown_epochs(self, now_ms: int) -> None:
        """Truncate a log without leader epochs to its high watermark, at the start of an epoch.

        The leader cannot detect a divergence without them. Raises KafkaError.
        """
        log, high_watermark = self._log, self._replica.high_watermark
        if log.epochs.latest == NO_EPOCH and log.end_offset > high_watermark:
            log.truncate_to(high_watermark, now_ms)
            self._bound_high_watermark()

    def _begin_within(self, records: Buffer, now_ms: int) -> None:
        """Begin the empty log with a whole batch, if the leader's log starts within that."""
        log = self._log
        if len(records) < HEADER_BYTES:
            return
        header = read_header(records)
        if header.base_offset < log.end_offset < header.end_offset:
            log.truncate_fully_at(header.base_offset, now_ms)
            self._bound_high_watermark()

    def _truncate(self, diverging: tuple[int, int], now_ms: int) -> None:
        """Truncate to the end of the newest common epoch; the next fetch checks again (KIP-279)."""
        log = self._log
        log.truncate_to(log.epochs.common_end(*diverging, log.end_offset), now_ms)
        self._bound_high_watermark()

    def _bound_high_watermark(self) -> None:
        # Set even if unchanged: the log has rebuilt its producer states without a high watermark.
        replica = self._replica
        if replica.truncated is not None:
            replica.truncated()
        replica.note_synced()
        replica.set_high_watermark(replica.within_log(replica.high_watermark))
