"""A log that collects batches for a while and appends them as one, for `append.linger.ms`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from wirekafka.clock import Clock, Timer
from wirekafka.codec.batch import read_header
from wirekafka.codec.record import BatchOptions, decode_records, encode_batch
from wirekafka.runtime.replicated_log import Buffer, ReplicatedLog

_MAX_BYTES = 512 * 1024
"""The most bytes that are collected: half of the default max.message.bytes of the coordinators'
topics."""


class LingeringLog:
    """The `ReplicatedLog` of a runtime whose records are written up to `linger_ms` later.

    Batches get their offsets at once, so nothing else may be appended to the log before `flush`.
    Transactional batches are not collected, as in Kafka; the collected batches are written before
    them. `failed` is called when collected batches could not be written: their machine has to be
    rebuilt from the log.
    """

    def __init__(
        self, log: ReplicatedLog, clock: Clock, linger_ms: int, failed: Callable[[Exception], None]
    ):
        self._log = log
        self._clock = clock
        self._linger_ms = linger_ms
        self._failed = failed
        self._batches: list[bytes] = []
        self._record_count = 0
        self._size_bytes = 0
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._timer: Timer | None = None

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets, behind all collected records."""
        return self._log.end_offset + self._record_count

    @property
    def committed_offset(self) -> int:
        """The high watermark of the log."""
        return self._log.committed_offset

    def append(self, batch: bytes) -> int:
        """Collect a batch, or append it if it is transactional; returns the new end offset.

        Raises the log's errors, also for batches that were collected before.
        """
        header = read_header(batch)
        if header.is_transactional or self._size_bytes + len(batch) > _MAX_BYTES:
            self.flush()
        if header.is_transactional:
            return self._log.append(batch)
        if self._timer is None:
            self._timer = self._clock.call_later(self._linger_ms, self._linger_over)
        self._batches.append(batch)
        self._record_count += header.count
        self._size_bytes += len(batch)
        return self.end_offset

    def flush(self) -> None:
        """Append the collected batches as one batch. Raises the log's errors."""
        batches, waiting = self._batches, self._waiting
        self.discard()
        if not batches:
            return
        before = self._log.end_offset
        try:
            self._log.append(_merged(batches))
        except Exception as error:
            self._failed(error)
            raise
        finally:
            if self._log.end_offset != before:
                for offset, callback in waiting:
                    self._log.when_committed(offset, callback)

    def discard(self) -> None:
        """Forget the collected batches, and the callbacks that wait for them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._batches, self._waiting = [], []
        self._record_count = self._size_bytes = 0

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call back once `committed_offset` reaches `offset`, in order; at once if it has."""
        if self._batches and offset > self._log.end_offset:
            self._waiting.append((offset, callback))
        else:
            self._log.when_committed(offset, callback)

    def read_batches(self) -> Iterable[Buffer]:
        """Read all batches that are written, oldest first."""
        return self._log.read_batches()

    def _linger_over(self) -> None:
        self._timer = None
        with suppress(Exception):
            # `failed` was called with it.
            self.flush()


def _merged(batches: Sequence[bytes]) -> bytes:
    """Return one batch with the records of all; they keep their timestamps."""
    if len(batches) == 1:
        return batches[0]
    header = read_header(batches[0])
    records = [record for batch in batches for record in decode_records(batch)]
    return encode_batch(
        records,
        options=BatchOptions(compression=header.compression, base_sequence=header.base_sequence),
    )
