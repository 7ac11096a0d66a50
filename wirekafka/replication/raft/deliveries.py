"""Delivers the committed batches of the metadata log to its observers: each once, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wirekafka.codec.batch import read_header
from wirekafka.errors import KafkaError
from wirekafka.log.disk_errors import is_passing
from wirekafka.runtime.observation import Committed, Observation
from wirekafka.runtime.record_codec import RecordCodec
from wirekafka.runtime.replicated_log import Buffer

Read = Callable[[int, int], Iterator[Buffer]]
"""Reads the batches from one offset to another. Raises KafkaError."""
Later = Callable[[Callable[[], None], BaseException], None]
"""Calls its first argument soon, after an error that passes."""


class Deliveries:
    """The observers of one log, and the committed batches that could not be read for them yet."""

    def __init__(self, read: Read, codec: RecordCodec, later: Later):
        self.observations: list[Observation] = []
        self._read = read
        self._codec = codec
        self._later = later
        self._missing: int | None = None
        """Where the batches begin that could not be read."""
        self._end = 0

    def add(self, offset: int, end_offset: int) -> None:
        """Queue the batches between two offsets. Raises KafkaError if they cannot be read.

        After a passing error the batches are delivered later, with all batches added meanwhile.
        """
        self._end = end_offset
        if self._missing is not None:
            return
        try:
            for batch in self._read(offset, end_offset):
                header = read_header(batch)
                records = () if header.is_control else tuple(self._codec.decode(batch))
                self._queue(Committed(records, header.end_offset))
                offset = header.end_offset
        except KafkaError as error:
            if not is_passing(error):
                raise
            self._missing = offset
            self._later(self._go_on, error)

    def add_snapshot(self, records: Sequence[object], end_offset: int) -> None:
        """Queue a snapshot, which replaces everything queued before."""
        self._missing = None
        self._queue(Committed(records, end_offset, is_snapshot=True))

    def deliver(self) -> None:
        """Deliver the queued batches and snapshots."""
        for observation in self.observations:
            observation.deliver()

    def _queue(self, committed: Committed) -> None:
        for observation in self.observations:
            observation.add(committed)

    def _go_on(self) -> None:
        offset, self._missing = self._missing, None
        if offset is None:
            return
        try:
            self.add(offset, self._end)
        except KafkaError as error:
            for observation in self.observations:
                observation.fail(error)
        self.deliver()
