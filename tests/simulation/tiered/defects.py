"""Deliberate defects of tiered storage, which the checks of a simulated cluster must find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tests.simulation.cluster.defects import Defect, Patch
from tests.simulation.tiered.simulation import simulate
from wirekafka.log import retention
from wirekafka.server.tiering import copier as copier_module
from wirekafka.server.tiering.copier import Copier
from wirekafka.server.tiering.copies import Copies, Upload
from wirekafka.server.tiering.partition_tier import PartitionTier
from wirekafka.tiered import copying
from wirekafka.tiered.copying import CopyJob
from wirekafka.tiered.expiry import RemoteExpiry, expired
from wirekafka.tiered.remote_segment import RemoteSegment, SegmentState


def delete_local_segments_before_they_are_copied(patch: Patch) -> None:
    """Local retention does not ask whether segments can be read in the store."""
    patch.setattr(
        retention,
        "expendable",
        lambda segments, config, horizon, readable_end_offset: retention.expired(
            segments, config, horizon
        ),
    )


def report_copies_before_the_upload(patch: Patch) -> None:
    """A segment counts as copied before its objects are there."""
    upload = Copier._uploaded

    async def report(self: Copier, segment: RemoteSegment, job: Upload) -> bytes | None:
        await self._finish(segment, None)
        return await upload(self, segment, job)

    patch.setattr(Copier, "_uploaded", report)


def delete_own_copies_after_a_restart(patch: Patch) -> None:
    """What a broker has copied in its previous life counts as left over, finished or not."""
    is_left_over = Copies.is_left_over

    def is_old(self: Copies, segment: RemoteSegment) -> bool:
        is_own = segment.broker_id == self._broker.node_id
        return (is_own and segment.event_ms < self._started_ms) or is_left_over(self, segment)

    patch.setattr(Copies, "is_left_over", is_old)


def describe_segments_one_record_too_short(patch: Patch) -> None:
    """The last record of a segment is copied, but its metadata says that it is not."""
    describe = CopyJob.of.__func__  # type: ignore[attr-defined]

    def shortened(cls: type[CopyJob], *arguments: Any, **options: Any) -> CopyJob:
        job: CopyJob = describe(cls, *arguments, **options)
        segment = replace(job.segment, end_offset=job.segment.end_offset - 1)
        return replace(job, segment=segment)

    patch.setattr(CopyJob, "of", classmethod(shortened))


def describe_segments_with_all_leader_epochs(patch: Patch) -> None:
    """Each segment claims the offset ranges of all leader epochs before it."""
    patch.setattr(
        copying,
        "epochs_between",
        lambda entries, start_offset, end_offset: tuple(
            entry for entry in entries if entry.start_offset < end_offset
        ),
    )


def leave_what_failed_copies_have_stored(patch: Patch) -> None:
    """A failed copy is reported as deleted, and its objects stay."""

    async def undo(self: Copier, segment: RemoteSegment, upload: Upload) -> None:
        for state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED):
            await self._metadata.publish(self._update(segment, state))

    patch.setattr(Copier, "_undo", undo)


def report_deletions_before_the_objects_are_gone(patch: Patch) -> None:
    """Who dies while objects are being deleted leaves the others for ever."""

    async def delete(self: Copier, segment: RemoteSegment) -> None:
        if segment.state is not SegmentState.DELETE_STARTED:
            await self._metadata.publish(self._update(segment, SegmentState.DELETE_STARTED))
        await self._metadata.publish(self._update(segment, SegmentState.DELETE_FINISHED))
        await self._within(2_000, partial(self._layout.delete, segment))

    patch.setattr(Copier, "delete", delete)


def delete_what_readers_still_find(patch: Patch) -> None:
    """Retention deletes remote segments, and the log starts where it did, for ever."""

    def without_start(*arguments: Any) -> RemoteExpiry:
        return replace(expired(*arguments), start_offset=-1)

    async def keep(self: Copier, tier: PartitionTier) -> None:
        pass

    patch.setattr(copier_module, "expired", without_start)
    patch.setattr(Copier, "_raise_lost_start", keep)


def _defects() -> Iterator[Defect]:
    lost = {"LOST", "LOST_WRITE", "HOLE", "RESET", "CHANGED", "committed", "uncommitted"}
    for introduce, kinds, seed in (
        (delete_local_segments_before_they_are_copied, lost, 0),
        (report_copies_before_the_upload, lost, 2),
        (delete_own_copies_after_a_restart, lost, 2),
        (describe_segments_one_record_too_short, {"UNHEALED", "PENDING"} | lost, 0),
        (describe_segments_with_all_leader_epochs, lost, 0),
        (leave_what_failed_copies_have_stored, {"ORPHAN"}, 2),
        (report_deletions_before_the_objects_are_gone, {"ORPHAN"}, 1),
        (delete_what_readers_still_find, {"STUCK"}, 0),
    ):
        yield Defect(introduce, frozenset(kinds), seed, simulate)


DEFECTS = list(_defects())
