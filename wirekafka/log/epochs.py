"""Where each leader epoch of a log begins: the `leader-epoch-checkpoint` file (KIP-101)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from wirekafka.log.files import Disk

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = -1
_BEHIND = -2


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written under it."""

    epoch: int
    start_offset: int


class MalformedEpochs(ValueError):
    """A leader epoch checkpoint that cannot be decoded; the log's batches have the epochs too."""


class LeaderEpochs:
    """The leader epochs of one log, held in memory and written to the file as a whole.

    Epochs and start offsets both grow: a new epoch replaces the epochs that begin at or behind its
    start. An epoch without batches is dropped when the log is opened, so `begin` need not write the
    file, which a starting broker would otherwise do for every partition. Raises OSError where the
    file cannot be written.
    """

    __slots__ = ("_disk", "_entries", "_is_kept", "_path", "latest", "recorded")

    def __init__(self, disk: Disk, path: str, entries: list[EpochEntry] | None = None):
        self._disk = disk
        self._path = path
        self._is_kept = False
        self._entries = list(entries or ())
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED
        """The newest epoch, -1 for none."""
        self.recorded = self.latest
        """The newest epoch if the file is up to date, else a number below all epochs."""

    @classmethod
    def load(cls, disk: Disk, path: str) -> LeaderEpochs:
        """The epochs a file holds, none when there is no file. Raises MalformedEpochs."""
        try:
            return cls(disk, path, decode_epochs(disk.read(path)))
        except FileNotFoundError:
            return cls(disk, path)

    @property
    def entries(self) -> list[EpochEntry]:
        """The entries, oldest first. Callers must not change the list."""
        return self._entries

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add an epoch whose first batch is about to be written at an offset; write the file."""
        self.begin(epoch, start_offset)
        self.save()

    def begin(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that begins at an offset, in memory only; no effect if it is known."""
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        if epoch == self.latest and start_offset >= self._entries[-1].start_offset:
            return
        self._entries = [
            entry
            for entry in self._entries
            if entry.epoch < epoch and entry.start_offset < start_offset
        ]
        self._entries.append(EpochEntry(epoch, start_offset))
        self._changed()

    def keep(self) -> None:
        """Sync the file whenever it is written; for logs whose oldest records are remote.

        A power cut may take a file away that is not synced. It is then made again from the batches
        of the log; the leader epochs of batches that are not here would be lost.
        """
        if not self._is_kept:
            self._is_kept = True
            self.recorded = _BEHIND

    def save(self) -> None:
        """Write the file if it is out of date."""
        if self.recorded != self.latest:
            write = self._disk.write_atomic if self._is_kept else self._disk.write
            write(self._path, encode_epochs(self._entries))
            self.recorded = self.latest

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above the requested one, and its end offset.

        For an epoch below all known epochs, returns that epoch and the start offset of the first
        known epoch; for -1 and for an epoch above all known epochs (-1, -1). These are
        OffsetsForLeaderEpoch's rules.
        """
        if epoch == UNDEFINED:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        index = bisect_right(self._entries, epoch, key=_epoch)
        if index == len(self._entries):
            return UNDEFINED, UNDEFINED
        end_offset = self._entries[index].start_offset
        return (self._entries[index - 1].epoch if index else epoch), end_offset

    def common_end(self, leader_epoch: int, leader_end_offset: int, log_end_offset: int) -> int:
        """The offset to which a follower truncates its log, which ends at `log_end_offset`.

        `leader_end_offset` is the end of `leader_epoch` in the leader's log, as its Fetch response
        reports it. The result is the end of the newest epoch, not above `leader_epoch`, that both
        logs may share; the next fetch checks again (KIP-279).
        """
        epoch, end_offset = self.end_offset_for(leader_epoch, log_end_offset)
        if end_offset < 0:
            return leader_end_offset
        return min(end_offset, leader_end_offset) if epoch == leader_epoch else end_offset

    def epoch_at(self, offset: int) -> int:
        """The epoch under which an offset was written; -1 below the first known epoch."""
        index = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[index - 1].epoch if index else UNDEFINED

    def take_over(self, other: LeaderEpochs) -> None:
        """Replace all entries by another log's entries for the same batches; write the file."""
        self.replace(other.entries)

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Replace all entries, and write the file."""
        self._entries = list(entries)
        self._changed()
        self.save()

    def moved(self, directory: str) -> None:
        """Set the new path of the log's directory after it was renamed."""
        self._path = f"{directory}/{FILE_NAME}"

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or after the log's new end."""
        self.forget_from(end_offset)
        self.save()

    def forget_from(self, end_offset: int) -> None:
        """Remove epochs that begin at or after the log's end, in memory only.

        A start does so with epochs that have no batches; the file need not be written for that.
        """
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries = [e for e in self._entries if e.start_offset < end_offset]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or before the log's new start; the next one begins there."""
        index = bisect_right(self._entries, start_offset, key=_start_offset)
        if not index or (index == 1 and self._entries[0].start_offset == start_offset):
            return
        first = EpochEntry(self._entries[index - 1].epoch, start_offset)
        self._entries = [first, *self._entries[index:]]
        self._changed()
        self.save()

    def clear(self) -> None:
        """Remove every epoch."""
        if self._entries:
            self._entries = []
            self._changed()
            self.save()

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED
        self.recorded = _BEHIND


def encode_epochs(entries: list[EpochEntry]) -> bytes:
    """The file's bytes: version, count, and a line for each epoch."""
    lines = [f"{epoch} {start_offset}\n" for epoch, start_offset in entries]
    return f"0\n{len(entries)}\n{''.join(lines)}".encode()


def decode_epochs(data: bytes) -> list[EpochEntry]:
    """The entries of a file. Raises MalformedEpochs."""
    lines = data.decode("ascii", errors="replace").splitlines()
    if not lines:
        return []
    if not data.endswith(b"\n"):
        raise MalformedEpochs("the last line of a leader epoch file is cut off")
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [EpochEntry(*map(int, line.split())) for line in lines[2:] if line]
    except (IndexError, TypeError, ValueError) as error:
        raise MalformedEpochs(f"malformed line in a leader epoch file: {error}") from error
    if version != 0:
        raise MalformedEpochs(f"unknown leader epoch file version {version}")
    if count != len(entries):
        raise MalformedEpochs(f"{len(entries)} leader epochs where {count} were expected")
    if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(entries)):
        raise MalformedEpochs("leader epochs out of order")
    return entries


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
