"""Share partitions as state machines: acquisition, acknowledgement, expiry, start offsets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.in_process import batch
from wirekafka.codec.batch import with_prefix
from wirekafka.errors import Error, KafkaError
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.share.aborted_records import archive_aborted
from wirekafka.replication.share.acknowledgement import Acknowledgement, acknowledge
from wirekafka.replication.share.acquisition import Acquisition, FetchedBatches, acquire
from wirekafka.replication.share.in_flight import StoredRun
from wirekafka.replication.share.limits import ShareLimits
from wirekafka.replication.share.partition import SharePartition

ACCEPT, RELEASE, RENEW = [1], [2], [4]
ACKNOWLEDGED, ARCHIVED = 2, 4


def log_of(*sizes: int, first: int = 0) -> bytes:
    """A log of batches with these numbers of records."""
    data = b""
    for size in sizes:
        data += b"".join(with_prefix(batch(*[b"v"] * size), first, 0))
        first += size
    return data


class Group:
    """A share partition, a log of batches, and the time."""

    def __init__(self, log: bytes, limits: ShareLimits | None = None):
        self.partition = SharePartition(limits or ShareLimits())
        self.partition.load(1, 0, ())
        self.log = FetchedBatches(log)
        self.now_ms = 0

    def fetch(
        self, member: str, records: int = 500, *, size: int = 500, exact: bool = False
    ) -> list[tuple[int, int, int]]:
        """What a member acquires, reading from the next offset to the end of the log."""
        offset = self.partition.next_fetch_offset()
        if not self.partition.can_acquire():
            return []
        read = FetchedBatches(bytes(self.log.slice(offset, self.log.end - 1)))
        if offset >= self.log.end:
            return []
        wanted = Acquisition(member, records, size, exact, fetch_offset=offset)
        return [tuple(run) for run in acquire(self.partition, read, wanted, self.now_ms)]

    def begin(self, member: str, *ranges: tuple[int, int, Sequence[int]]):  # type: ignore[no-untyped-def]
        acknowledgements = [Acknowledgement(*each) for each in ranges]
        return acknowledge(self.partition, member, acknowledgements, self.now_ms)

    def acknowledge(self, member: str, *ranges: tuple[int, int, Sequence[int]]) -> list[StoredRun]:
        """The stored state of acknowledgements, which then take effect."""
        change = self.begin(member, *ranges)
        self.partition.commit(change)
        return change.stored

    def error(self, member: str, *ranges: tuple[int, int, Sequence[int]]) -> Error:
        with pytest.raises(KafkaError) as refused:
            self.begin(member, *ranges)
        return refused.value.error


def test_batches_are_acquired_in_portions_of_the_batch_size() -> None:
    group = Group(log_of(3, 3, 3, 3))
    assert group.fetch("a", 7, size=4) == [(0, 5, 1), (6, 8, 1)], "whole batches"
    assert group.fetch("b", 1) == [(9, 11, 1)]
    assert group.fetch("b") == []


def test_the_record_limit_cuts_batches() -> None:
    group = Group(log_of(10))
    assert group.fetch("a", 4, exact=True) == [(0, 3, 1)]
    assert group.fetch("b", 3, exact=True) == [(4, 6, 1)]
    assert group.fetch("a", 3, exact=False) == [(7, 9, 1)]


def test_the_start_offset_follows_the_first_unacknowledged_record() -> None:
    group = Group(log_of(4, 4))
    group.fetch("a", size=1)
    assert group.acknowledge("a", (4, 7, ACCEPT)) == [StoredRun(4, 7, ACKNOWLEDGED, 1)]
    assert (group.partition.start_offset, group.partition.complete_count) == (0, 4)
    group.acknowledge("a", (0, 1, ACCEPT))
    assert (group.partition.start_offset, group.partition.complete_count) == (2, 4)
    group.acknowledge("a", (2, 3, [3, 0]))
    assert (group.partition.start_offset, group.partition.complete_count) == (8, 0)
    assert group.partition.next_fetch_offset() == 8


def test_a_failed_write_returns_records_to_their_member() -> None:
    group = Group(log_of(4))
    group.fetch("a")
    change = group.begin("a", (0, 3, ACCEPT))
    assert group.error("a", (0, 3, ACCEPT)) is Error.INVALID_RECORD_STATE, "being stored"
    assert group.partition.complete_count == 4
    group.partition.roll_back(change, group.now_ms)
    assert group.partition.complete_count == 0
    assert group.acknowledge("a", (0, 3, ACCEPT))


def test_a_lock_that_expires_during_a_failed_write_stays_released() -> None:
    group = Group(log_of(2))
    group.fetch("a")
    change = group.begin("a", (0, 1, ACCEPT))
    group.now_ms = 30_000
    assert group.partition.expire(group.now_ms) == []
    group.partition.roll_back(change, group.now_ms)
    assert group.fetch("b") == [(0, 1, 2)]


def test_one_refused_acknowledgement_undoes_all_of_the_request() -> None:
    group = Group(log_of(2, 2))
    group.fetch("a", 1)
    group.fetch("b")
    assert group.error("a", (0, 1, ACCEPT), (2, 3, ACCEPT)) is Error.INVALID_RECORD_STATE
    assert group.error("a", (0, 9, ACCEPT)) is Error.INVALID_REQUEST
    assert group.acknowledge("a", (0, 1, ACCEPT)) == [StoredRun(0, 1, ACKNOWLEDGED, 1)]


def test_locks_expire_one_by_one() -> None:
    group = Group(log_of(2, 2))
    group.fetch("a", 1)
    group.now_ms = 10_000
    group.fetch("b")
    group.now_ms = 30_000
    assert group.partition.deadline() == 30_000
    assert group.partition.expire(group.now_ms) == [StoredRun(0, 1, 0, 1)]
    assert group.partition.deadline() == 40_000
    group.acknowledge("b", (2, 3, RENEW))
    group.now_ms = 40_000
    assert group.partition.expire(group.now_ms) == []
    assert group.fetch("b") == [(0, 1, 2)]


def test_records_with_many_deliveries_are_acquired_in_smaller_portions_and_finally_alone() -> None:
    group = Group(log_of(8))
    seen = []
    for _ in range(6):
        acquired = group.fetch("a")
        seen.append(acquired)
        for first, last, _ in acquired:
            group.acknowledge("a", (first, last, RELEASE))
    assert seen == [[(0, 7, 1)], [(0, 7, 2)], [(0, 7, 3)], [(0, 3, 4)], [(0, 0, 5)], [(1, 1, 5)]]
    assert group.partition.start_offset == 2, "archived after the last delivery"


def test_the_limit_of_locked_records() -> None:
    group = Group(log_of(3, 3, 3), ShareLimits(max_locked_records=4))
    assert group.fetch("a") == [(0, 5, 1)]
    assert group.fetch("b") == []
    group.acknowledge("a", (1, 1, RELEASE))
    assert group.fetch("b") == [(1, 1, 2)], "records in between may be acquired again"
    group.acknowledge("a", (0, 0, ACCEPT), (2, 5, ACCEPT))
    assert group.fetch("b") == []
    group.acknowledge("b", (1, 1, ACCEPT))
    assert group.fetch("b") == [(6, 8, 1)]


def test_deleted_records_are_archived_unless_acquired() -> None:
    group = Group(log_of(4, 4))
    group.fetch("a", 1)
    group.fetch("b")
    group.acknowledge("b", (4, 7, RELEASE))
    group.partition.move_log_start(6)
    assert group.partition.start_offset == 6
    assert group.acknowledge("a", (0, 3, ACCEPT)) == [], "below the start offset"
    assert group.fetch("a") == [(6, 7, 2)]


def test_records_missing_in_a_loaded_state_are_delivered_first() -> None:
    group = Group(log_of(10))
    group.partition = SharePartition(ShareLimits())
    group.partition.load(
        3,
        0,
        [StoredRun(2, 3, ACKNOWLEDGED, 1), StoredRun(6, 7, 0, 2), StoredRun(8, 8, ARCHIVED, 5)],
    )
    assert group.partition.next_fetch_offset() == 0
    assert group.fetch("a") == [(0, 1, 1), (4, 5, 1), (6, 7, 3), (9, 9, 1)]
    group.acknowledge("a", (0, 1, ACCEPT))
    assert group.partition.start_offset == 4


def test_a_state_before_its_start_offset_is_refused() -> None:
    partition = SharePartition(ShareLimits())
    with pytest.raises(KafkaError) as refused:
        partition.load(1, 5, [StoredRun(4, 6, 0, 1)])
    assert refused.value.error is Error.UNKNOWN_SERVER_ERROR


def test_a_session_that_ends_releases_its_members_records() -> None:
    group = Group(log_of(2, 2))
    group.fetch("a", 1)
    group.fetch("b")
    change = group.partition.release("a")
    assert change.stored == [StoredRun(0, 1, 0, 1)]
    group.partition.commit(change)
    assert group.fetch("c") == [(0, 1, 2)]


def test_records_of_aborted_transactions_are_archived() -> None:
    transactional = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    parts = [batch(b"x", b"y", **transactional), encode_marker(7, 0, Marker(False, 0, 0)), batch()]
    data, first = b"", 0
    for part, size in zip(parts, (2, 1, 1), strict=True):
        data += b"".join(with_prefix(part, first, 0))
        first += size
    group = Group(data)
    acquired = acquire(group.partition, group.log, Acquisition("a", 500, 500), 0)
    kept = archive_aborted(group.partition, acquired, data, [AbortedTransaction(7, 0, 2, 3)])
    assert [tuple(run) for run in kept] == [(2, 3, 1)]
    assert group.acknowledge("a", (2, 3, [0, 1]))
    assert group.partition.start_offset == 4
