"""The checks at the end, when all faults are over and all replicas are in sync."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation.replication.broker import KEY
from tests.simulation.replication.committed import Committed, stored
from tests.simulation.replication.producer import Producer, TransactionalProducer
from wirekafka.codec.batch import BatchHeader
from wirekafka.codec.record import decode_records
from wirekafka.log.log import Log

if TYPE_CHECKING:
    from tests.simulation.replication.world import World

_PREFIX_BYTES = 16
"""What a leader rewrites of a batch: its offset, length and leader epoch."""
_NEVER_MS = 1 << 62
_SIDE_FILES = re.compile(r"leader-epoch-checkpoint|partition\.metadata")
_SEGMENT_FILE = re.compile(r"(?P<offset>\d{20})\.(log|index|timeindex|txnindex|snapshot)")


def violations(world: World, producers: list[Producer]) -> Iterator[str]:
    """All violations, in order of importance."""
    assert world.topic_id is not None
    committed = world.committed[world.topic_id]
    yield from _acknowledged(committed, producers)
    yield from _sequences(committed)
    yield from _transactions(committed, producers)
    for name, log in _logs(world):
        yield from _contents(committed, name, log, is_compacted=world.is_compacted)
        yield from _epochs(name, log)
        if not world.deletes and not world.is_compacted:
            yield from _aborted(committed, name, log)
    yield from _producers(world)
    yield from _files(world)


def _acknowledged(committed: Committed, producers: list[Producer]) -> Iterator[str]:
    for producer in producers:
        for send in producer.sends:
            if send.offset is None or send.topic_id != committed.topic_id:
                continue
            found = committed.batches.get(send.offset)
            if found is None:
                yield f"LOST {producer.name} sequence {send.sequence}, at offset {send.offset}"
            elif found.data[_PREFIX_BYTES:] != send.records[_PREFIX_BYTES:]:
                yield f"LOST {producer.name} sequence {send.sequence}: another is at {send.offset}"


def _sequences(committed: Committed) -> Iterator[str]:
    """Every batch of a producer once, in order, without gaps."""
    expected: dict[tuple[int, int], int] = {}
    for offset, (header, _) in committed.batches.items():
        if header.is_control or header.producer_id < 0:
            continue
        key = header.producer_id, header.producer_epoch
        sequence = expected.get(key, 0)
        if header.base_sequence != sequence and offset >= committed.start_offset:
            kind = "DUPLICATE" if header.base_sequence < sequence else "GAP"
            yield f"{kind} {key} sequence {header.base_sequence} after {sequence} at {offset}"
        expected[key] = max(sequence, header.last_sequence + 1)


def _transactions(committed: Committed, producers: list[Producer]) -> Iterator[str]:
    """Each batch has the fate of its transaction."""
    wanted = {
        (each.producer_id, each.epoch): each
        for producer in producers
        if isinstance(producer, TransactionalProducer)
        for each in producer.transactions
    }
    open_batches: dict[int, list[BatchHeader]] = {}
    for header, data in committed.batches.values():
        if header.is_control:
            is_commit = decode_records(data, header)[0].key == b"\0\0\0\1"
            for written in open_batches.pop(header.producer_id, ()):
                transaction = wanted[written.producer_id, written.producer_epoch]
                if transaction.is_commit is not is_commit:
                    yield f"WRONG_FATE of offset {written.base_offset}: commit is {is_commit}"
        elif header.is_transactional:
            open_batches.setdefault(header.producer_id, []).append(header)
    for batches in open_batches.values():
        yield f"HANGING transaction from offset {batches[0].base_offset} on"


def _contents(committed: Committed, name: str, log: Log, *, is_compacted: bool) -> Iterator[str]:
    """All committed records that were not deleted, byte for byte; or the newest of each key."""
    found = {header.base_offset: data for header, data in stored(log, 0, log.end_offset)}
    if not is_compacted:
        wanted = {
            offset: each.data
            for offset, each in committed.batches.items()
            if each.header.end_offset > log.start_offset
        }
        for offset in sorted(found.keys() | wanted.keys()):
            if found.get(offset) != wanted.get(offset):
                yield f"DIFFERENT {name} at offset {offset}"
                return
        return
    newest = _newest_offsets(log)
    wanted_offsets = {
        key: offset for key, offset in _newest_committed(committed).items() if key is not None
    }
    for key, offset in wanted_offsets.items():
        if newest.get(key) != offset:
            yield f"COMPACTED {name}: key {key!r} is at {newest.get(key)}, not {offset}"


def _newest_offsets(log: Log) -> dict[bytes | None, int]:
    newest: dict[bytes | None, int] = {}
    aborted = log.aborted_transactions(log.start_offset, log.end_offset)
    for header, data in stored(log, 0, log.end_offset):
        is_aborted = header.is_transactional and any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )
        if not header.is_control and not is_aborted:
            for record in decode_records(data, header):
                newest[record.key] = record.offset
    return newest


def _newest_committed(committed: Committed) -> dict[bytes | None, int]:
    newest: dict[bytes | None, int] = {}
    aborted = set(_aborted_batches(committed))
    for offset, (header, data) in committed.batches.items():
        if not header.is_control and offset not in aborted:
            for record in decode_records(data, header):
                newest[record.key] = record.offset
    return newest


def _aborted_batches(committed: Committed) -> Iterator[int]:
    spans = _aborted_spans(committed)
    for offset, (header, _) in committed.batches.items():
        if header.is_transactional and any(
            producer_id == header.producer_id and first <= offset <= last
            for producer_id, first, last in spans
        ):
            yield offset


def _aborted_spans(committed: Committed) -> list[tuple[int, int, int]]:
    """(producer id, first offset, offset of the marker) of each aborted transaction."""
    first_offsets: dict[int, int] = {}
    spans = []
    for offset, (header, data) in committed.batches.items():
        if header.is_control:
            first = first_offsets.pop(header.producer_id, None)
            if first is not None and decode_records(data, header)[0].key == b"\0\0\0\0":
                spans.append((header.producer_id, first, offset))
        elif header.is_transactional:
            first_offsets.setdefault(header.producer_id, offset)
    return spans


def _aborted(committed: Committed, name: str, log: Log) -> Iterator[str]:
    found = {
        (each.producer_id, each.first_offset, each.last_offset)
        for each in log.aborted_transactions(log.start_offset, log.end_offset)
    }
    wanted = set(_aborted_spans(committed))
    if found != wanted:
        yield f"ABORTED {name} knows {sorted(found)} as aborted, not {sorted(wanted)}"


def _epochs(name: str, log: Log) -> Iterator[str]:
    """The leader epochs of the batches are those of the checkpoint, and only grow."""
    before = -1
    for header, _ in stored(log, 0, log.end_offset):
        if header.leader_epoch < before:
            yield f"EPOCHS {name}: {header.leader_epoch} after {before} at {header.base_offset}"
        before = header.leader_epoch
        if log.epochs.epoch_at(max(header.base_offset, log.start_offset)) != header.leader_epoch:
            yield f"EPOCHS {name} has {log.epochs.entries}, but {header} is stored"
            return


def _producers(world: World) -> Iterator[str]:
    """Every replica recognizes the same duplicates."""
    if world.deletes:
        return  # Replicas lack producers whose deleted records they never had.
    states = {
        name: {
            producer.producer_id: (producer.epoch, producer.last_sequence)
            for producer in log.producers
            # Compaction drops markers, and with them the epochs that only they have, as in Kafka.
            if producer.batches or not world.is_compacted
        }
        for name, log in _logs(world)
    }
    if len({str(sorted(each.items())) for each in states.values()}) > 1:
        yield f"PRODUCERS {states}"


def _files(world: World) -> Iterator[str]:
    """No file of deleted, replaced or truncated segments is left."""
    for broker in world.brokers.values():
        broker.directory.remove_deleted(_NEVER_MS)
        log = broker.directory.logs.get(KEY)
        bases = {segment.base_offset for segment in log.segments} if log is not None else set()
        for path in broker.disk.files():
            _, _, *folder, name = path.split("/")
            if not folder or folder[0].endswith("-stray"):
                continue
            match = _SEGMENT_FILE.fullmatch(name)
            if folder != ["-".join(map(str, KEY))] or log is None:
                yield f"STRAY {broker.name}: {path}"
            elif match is None:
                if not _SIDE_FILES.fullmatch(name):
                    yield f"STRAY {broker.name}: {path}"
            elif int(match["offset"]) not in bases and not name.endswith(".snapshot"):
                yield f"STRAY {broker.name}: {path}"


def _logs(world: World) -> list[tuple[str, Log]]:
    return [
        (broker.name, broker.partition.log)
        for broker in world.brokers.values()
        if broker.partition is not None
    ]
