"""A log whose closed segments are copied to a store in memory, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event

from wirekafka.codec.batch import Buffer
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.append import Append
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.tiered.copying import CopyJob, candidates
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import LocalLayout
from wirekafka.tiered.remote_segment import SegmentState, SegmentUpdate, TieredPartition
from wirekafka.tiered.segment_states import SegmentStates
from wirekafka.tiered.store import ObjectMissing, Store, StoredObject, StoreError

NOW_MS = 1_700_000_000_000
PARTITION = TieredPartition("t", b"i" * 16, 0)
CONFIG = TopicConfig(
    remote_storage_enable=True, segment_bytes=2_000, index_interval_bytes=100, retention_ms=-1
)


class MemoryStore:
    """A `Store` in a dict, whose next requests can be made to fail."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.failures = 0
        """How many of the next requests fail."""
        self.fail_at = 0
        """The number of a request that fails, counted from 1."""
        self.requests: list[str] = []

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        self._note(f"put {key}")
        self.objects[key] = b"".join(pieces)

    def get(self, key: str) -> Buffer:
        self._note(f"get {key}")
        if key not in self.objects:
            raise ObjectMissing(key)
        return self.objects[key]

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        return memoryview(self.get(key))[start:end]

    def delete(self, key: str) -> None:
        self._note(f"delete {key}")
        self.objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for key, data in self.objects.items():
            if key.startswith(prefix):
                yield StoredObject(key, len(data))

    def _note(self, request: str) -> None:
        self.requests.append(request)
        if self.failures or len(self.requests) == self.fail_at:
            self.failures = max(self.failures - 1, 0)
            raise StoreError(f"{request}: the store is not available")


class TieredLog:
    """A log, the store, and the states of the copied segments."""

    def __init__(
        self,
        directory: Path,
        config: TopicConfig = CONFIG,
        layout: Callable[[Store], Layout] = LocalLayout,
    ):
        path = directory / "t-0"
        path.mkdir(parents=True)
        self.disk = RealDisk()
        self.log = Log.create(self.disk, str(path), config, NOW_MS)
        self.store = MemoryStore()
        self.new_layout = layout
        self.layout = layout(self.store)
        self.states = SegmentStates()
        self.epoch = 0
        self._ids = 0

    def append(self, count: int, size_bytes: int = 100, **options: int) -> None:
        """Batches of two records, one ms after each other."""
        for _ in range(count):
            at = NOW_MS + self.log.end_offset
            records = [Record(timestamp=at + each, value=bytes(size_bytes)) for each in (0, 1)]
            batch = encode_batch(records, options=BatchOptions(**options))
            append = Append(leader_epoch=self.epoch, now_ms=at)
            self.log.append_as_leader(batch, append)

    def copy(self) -> int:
        """Copy all closed segments; how many there were."""
        log = self.log
        assert log.remote is not None
        found = candidates(log, log.config, log.remote.readable_end_offset, log.end_offset, NOW_MS)
        for candidate in found:
            self._ids += 1
            job = CopyJob.of(
                log,
                candidate,
                PARTITION,
                segment_id=b"%016d" % self._ids,
                broker_id=1,
                now_ms=NOW_MS,
            )
            custom = job.run(self.layout, self.disk, Event())
            self.states.add(job.segment)
            self.states.update(
                SegmentUpdate(
                    partition=PARTITION,
                    id=job.segment.id,
                    broker_id=1,
                    event_ms=NOW_MS,
                    state=SegmentState.COPY_FINISHED,
                    custom_metadata=custom,
                )
            )
        self.note()
        return len(found)

    def note(self) -> None:
        """Let the log know what is readable."""
        remote, entries = self.log.remote, self.log.epochs.entries
        assert remote is not None
        remote.copied_end_offset = self.states.end_offset(entries, self.log.end_offset)
        remote.readable_end_offset = self.states.readable_end(
            entries, self.log.start_offset, self.log.end_offset
        )
