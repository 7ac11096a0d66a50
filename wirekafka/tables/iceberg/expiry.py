"""Expiry of a table's old snapshots, and the end of the files that only they referenced.

pyiceberg expires metadata alone. The metadata is committed first: readers and writers of the table
then cannot reach the files, which are deleted afterwards. A process that ends in between leaves
orphans, which are removed as such.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from wirekafka.tables.iceberg.data_files import delete_files
from wirekafka.tables.iceberg.marks import marked_snapshot
from wirekafka.tables.iceberg.references import References, statistics_files

HOUR_MS = 3_600_000
MAX_AGE_PROPERTY = "history.expire.max-snapshot-age-ms"
MIN_COUNT_PROPERTY = "history.expire.min-snapshots-to-keep"


@dataclass(frozen=True, slots=True)
class SnapshotRetention:
    """Which snapshots of a branch stay; properties of the table or of the branch go before.

    The number is limited because each commit writes the list of all snapshots again: with 300 of
    them, it takes 0.1 s of processor time.
    """

    max_age_ms: int = 7 * 24 * HOUR_MS
    max_count: int = 300
    min_count: int = 20
    """The newest, which stay whatever their age."""
    min_age_ms: int = HOUR_MS // 4
    """The young, which stay whatever their number: queries may still read their files."""
    most_at_once: int = 500
    """Of the oldest snapshots, which one step expires."""


@dataclass(frozen=True, slots=True)
class SnapshotExpiry:
    """What one step did."""

    snapshots: int = 0
    files: int = 0


def expire_snapshots(table: Table, retention: SnapshotRetention, now_ms: int) -> SnapshotExpiry:
    """Expire the oldest snapshots and delete the files that no remaining snapshot references.

    Does nothing if somebody else changes the table at the same time: the next step tries again.
    """
    table.refresh()
    expired = expired_snapshots(table.metadata, retention, now_ms)
    if not expired:
        return SnapshotExpiry()
    lost = References()
    statistics = statistics_files(table.metadata)
    identifiers = [each.snapshot_id for each in expired]
    try:
        lost.add_manifests(expired, table.io)
        table.maintenance.expire_snapshots().by_ids(identifiers).commit()
    except CommitFailedException:
        return SnapshotExpiry()
    except (FileNotFoundError, ValueError):
        # Perhaps because another process expired the same snapshots.
        table.refresh()
        if all(table.snapshot_by_id(each) is not None for each in identifiers):
            raise
        return SnapshotExpiry()
    return SnapshotExpiry(len(expired), _delete_unreferenced(table, lost, statistics))


def expired_snapshots(
    metadata: TableMetadata, retention: SnapshotRetention, now_ms: int
) -> list[Snapshot]:
    """The oldest snapshots that no branch or tag keeps; never the newest with marks."""
    kept = {ref.snapshot_id for ref in metadata.refs.values()}
    kept.update(_marked_ancestry(metadata))
    for ref in metadata.refs.values():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            kept.update(_kept_by_branch(metadata, ref, retention, now_ms))
    age_ms = _number(metadata, MAX_AGE_PROPERTY) or retention.max_age_ms
    in_branches = {
        snapshot.snapshot_id
        for ref in metadata.refs.values()
        for snapshot in _ancestry(metadata, ref.snapshot_id)
    }
    # A snapshot outside of all branches may be staged, to be published later: it has its age.
    expired = [
        each
        for each in metadata.snapshots
        if each.snapshot_id not in kept
        and (each.snapshot_id in in_branches or each.timestamp_ms < now_ms - age_ms)
    ]
    return sorted(expired, key=lambda each: each.timestamp_ms)[: retention.most_at_once]


def _marked_ancestry(metadata: TableMetadata) -> Iterator[int]:
    """From main's newest snapshot to the newest with marks, both included.

    Without those in between, which others committed, the marks would be out of reach.
    """
    marked = marked_snapshot(metadata)
    if marked is None:
        return
    yield marked.snapshot_id
    main = metadata.refs.get(MAIN_BRANCH)
    between = []
    for snapshot in _ancestry(metadata, main.snapshot_id if main else None):
        between.append(snapshot.snapshot_id)
        if snapshot.snapshot_id == marked.snapshot_id:
            yield from between


def _kept_by_branch(
    metadata: TableMetadata, ref: SnapshotRef, retention: SnapshotRetention, now_ms: int
) -> Iterator[int]:
    wanted_age_ms = ref.max_snapshot_age_ms or _number(metadata, MAX_AGE_PROPERTY)
    age_ms = wanted_age_ms or retention.max_age_ms
    min_count = (
        ref.min_snapshots_to_keep or _number(metadata, MIN_COUNT_PROPERTY) or retention.min_count
    )
    # Whoever wants an age does not want a number too.
    max_count = sys.maxsize if wanted_age_ms else max(min_count, retention.max_count)
    for position, snapshot in enumerate(_ancestry(metadata, ref.snapshot_id)):
        past_ms = now_ms - snapshot.timestamp_ms
        is_kept = position < max_count and past_ms <= age_ms
        if not (position < min_count or is_kept or past_ms <= retention.min_age_ms):
            return
        yield snapshot.snapshot_id


def _ancestry(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    snapshots = {each.snapshot_id: each for each in metadata.snapshots}
    while snapshot_id is not None and (snapshot := snapshots.get(snapshot_id)) is not None:
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def _number(metadata: TableMetadata, name: str) -> int:
    text = metadata.properties.get(name, "")
    return int(text) if text.isdecimal() else 0


def _delete_unreferenced(table: Table, lost: References, statistics: set[str]) -> int:
    """Delete what expired snapshots referenced and nothing in the table's metadata of now does.

    A snapshot committed meanwhile has files of its own, and files of snapshots that stayed.
    """
    table.refresh()
    needed = References()
    needed.add_manifests(table.metadata.snapshots, table.io)
    manifests = [each for path, each in lost.manifests.items() if path not in needed.manifests]
    lost.add_contents(manifests, table.io)
    if lost.contents:
        needed.add_contents(needed.manifests.values(), table.io)
    # A manifest list goes last: a process that ends before it leaves a way to find the rest.
    contents = sorted(lost.contents - needed.contents)
    lists = sorted(lost.manifest_lists - needed.manifest_lists)
    unneeded = sorted(statistics - statistics_files(table.metadata))
    paths = [*contents, *(each.manifest_path for each in manifests), *lists, *unneeded]
    delete_files(table.io, paths)
    return len(paths)
