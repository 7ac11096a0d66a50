"""What a table needs besides appends: fewer files, fewer snapshots, and no remains of failures."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import assert_never

from pyiceberg.table import FileScanTask

from wirekafka.tables.iceberg.expiry import SnapshotRetention, expire_snapshots
from wirekafka.tables.iceberg.orphans import OrphanRemoval, remove_orphans
from wirekafka.tables.iceberg.problems import passing_problems
from wirekafka.tables.iceberg.small_files import Compaction, FileSizes
from wirekafka.tables.iceberg.topic_table import TopicTable

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """When maintenance is due, and what it does then."""

    sizes: FileSizes = field(default_factory=FileSizes)
    retention: SnapshotRetention = field(default_factory=SnapshotRetention)
    orphans: OrphanRemoval = field(default_factory=OrphanRemoval)
    compaction_interval_ms: int = 10 * MINUTE_MS
    expiry_interval_ms: int = 30 * MINUTE_MS
    orphan_interval_ms: int = 24 * 60 * MINUTE_MS
    """Each removal lists the table's whole location."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What one step did."""

    merged_files: int = 0
    expired_snapshots: int = 0
    deleted_files: int = 0
    has_more: bool = False
    """Whether the same kind of maintenance goes on with the next step."""


class Kind(Enum):
    """A kind of maintenance."""

    COMPACTION = auto()
    EXPIRY = auto()
    ORPHANS = auto()


class Maintenance:
    """The maintenance of one table, in steps that take seconds each.

    One process is enough for a table: several only take files away from each other. Wherever a
    process ends, the table is whole, and what is left over is found again.
    """

    def __init__(self, settings: MaintenanceSettings, opened_ms: int):
        self._settings = settings
        self._compaction = Compaction(settings.sizes)
        self._groups: list[list[FileScanTask]] = []
        self._intervals_ms = {
            Kind.COMPACTION: settings.compaction_interval_ms,
            Kind.EXPIRY: settings.expiry_interval_ms,
            Kind.ORPHANS: settings.orphan_interval_ms,
        }
        # Orphans wait until a restart of the cluster is over, with the load that it brings.
        self._due_ms = dict.fromkeys(Kind, opened_ms)
        self._due_ms[Kind.ORPHANS] += 60 * MINUTE_MS

    def is_due(self, now_ms: int) -> bool:
        """Whether there is a step to take."""
        return min(self._due_ms.values()) <= now_ms

    def step(self, table: TopicTable, now_ms: int) -> Maintained:
        """Take the step that is due longest.

        Raises CatalogProblem and WrongTable; the step is tried again when it is due next.
        """
        kind = min(Kind, key=lambda each: self._due_ms[each])
        # Before the step, which may fail.
        self._due_ms[kind] = now_ms + self._intervals_ms[kind]
        with passing_problems(table.name):
            done = self._take(kind, table, now_ms)
        if done.has_more:
            self._due_ms[kind] = now_ms
        return done

    def _take(self, kind: Kind, table: TopicTable, now_ms: int) -> Maintained:
        match kind:
            case Kind.COMPACTION:
                return self._compact(table)
            case Kind.EXPIRY:
                retention = self._settings.retention
                expiry = expire_snapshots(table.table, retention, now_ms)
                return Maintained(
                    expired_snapshots=expiry.snapshots,
                    deleted_files=expiry.files,
                    has_more=expiry.snapshots >= retention.most_at_once,
                )
            case Kind.ORPHANS:
                removal = self._settings.orphans
                count = remove_orphans(table.table, removal, now_ms)
                return Maintained(deleted_files=count, has_more=count >= removal.most_at_once)
            case _:
                assert_never(kind)

    def _compact(self, table: TopicTable) -> Maintained:
        """Merge one group of files; plan if there is none."""
        if not self._groups:
            table.refresh()
            self._groups = self._compaction.due(table.table)
        if not self._groups:
            return Maintained()
        count = self._compaction.merge(table, self._groups.pop(0))
        return Maintained(merged_files=count, has_more=bool(self._groups))
