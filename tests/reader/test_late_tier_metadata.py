"""A tier whose metadata on the broker's disk ends before the last reports of copies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.tiered.tiered_log import TieredLog
from wirekafka.reader.source import OffsetRange
from wirekafka.reader.tier_source import TierSource
from wirekafka.tiered.remote_segment import SegmentState


def test_segments_whose_end_of_copy_is_not_known_yet_are_read(tmp_path: Path) -> None:
    """The broker may have deleted its own: the high watermark on its disk is written later."""
    tiered = TieredLog(tmp_path)
    tiered.append(40)
    tiered.copy()
    begun = [replace(each, state=SegmentState.COPY_STARTED) for each in tiered.states]
    source = TierSource(tiered.store, records=lambda: begun)
    end_offset = max(each.end_offset for each in begun)
    assert source.offsets("t", 0, "read_committed") == OffsetRange(0, end_offset)

    removed = max(begun, key=lambda each: each.start_offset)
    for key in [each for each in tiered.store.objects if f"{removed.start_offset:020d}" in each]:
        if key.endswith(".timeindex"):
            del tiered.store.objects[key]  # This copy has not come to its end.
    source.refresh()
    assert source.offsets("t", 0, "read_committed").end_offset == removed.start_offset
