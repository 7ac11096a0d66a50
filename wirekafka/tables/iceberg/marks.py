"""What a snapshot says of the log: which offsets of which topic are in the table.

Each snapshot that wirekafka commits, maintenance included, has in its summary:

    wirekafka.topic-id = the topic's id as Kafka prints it
    wirekafka.offsets  = {"0":[120,3],"1":[80,2]}   end offset and leader epoch, all partitions
    wirekafka.commit   = {"0":[100,120]}            the range that this snapshot added
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

TOPIC_ID = "wirekafka.topic-id"
OFFSETS = "wirekafka.offsets"
COMMIT = "wirekafka.commit"
TAG = "wirekafka"
"""The tag of the newest snapshot with marks: expiry of snapshots keeps what a tag names."""


class UnreadableMarks(ValueError):
    """The summary of a snapshot has marks that wirekafka did not write."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Up to which offset, exclusive, each partition of a topic is in the table."""

    topic_id: str
    ends: Mapping[int, int] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)

    def after(self, added: Mapping[int, tuple[int, int]], epochs: Mapping[int, int]) -> "Marks":
        """The marks once the ranges are in the table too."""
        ends = {partition: end for partition, (_, end) in added.items()}
        of_added = {partition: epochs[partition] for partition in added}
        return Marks(self.topic_id, {**self.ends, **ends}, {**self.epochs, **of_added})


def marks_of(table: Table) -> Marks | None:
    """The newest marks of a table's main branch, or None where wirekafka committed nothing."""
    snapshot = marked_snapshot(table.metadata)
    return None if snapshot is None else marks_in(snapshot)


def marked_snapshot(metadata: TableMetadata) -> Snapshot | None:
    """The newest snapshot with marks in the ancestry of main: others committed since are passed.

    Where snapshots expired and the ancestry ends without marks, the tagged one, which expiry keeps.
    """
    for snapshot in ancestry(metadata):
        if has_marks(snapshot):
            return snapshot
    tagged, current = metadata.snapshot_by_name(TAG), metadata.current_snapshot()
    if tagged is None or not has_marks(tagged):
        return None
    if current is None or (current.sequence_number or 0) < (tagged.sequence_number or 0):
        raise UnreadableMarks(
            f"main was set back behind snapshot {tagged.snapshot_id}, and the snapshots with marks"
            " before it expired: nobody knows which rows are left"
        )
    return tagged


def ancestry(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Main's newest snapshot, its parent, and so on as far as they have not expired."""
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)


def has_marks(snapshot: Snapshot) -> bool:
    """Whether wirekafka committed the snapshot."""
    return snapshot.summary is not None and OFFSETS in snapshot.summary.additional_properties


def marks_in(snapshot: Snapshot) -> Marks:
    """The marks in a snapshot's summary."""
    assert snapshot.summary is not None
    properties = snapshot.summary.additional_properties
    try:
        pairs = json.loads(properties[OFFSETS])
        ends = {int(partition): int(end) for partition, (end, _) in pairs.items()}
        epochs = {int(partition): int(epoch) for partition, (_, epoch) in pairs.items()}
        return Marks(properties[TOPIC_ID], ends, epochs)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableMarks(
            f"snapshot {snapshot.snapshot_id} has unreadable marks: {error!r}"
        ) from error


def added_by(snapshot: Snapshot) -> dict[int, tuple[int, int]]:
    """The ranges that a snapshot with marks added: start and end offset by partition."""
    assert snapshot.summary is not None
    ranges = json.loads(snapshot.summary.additional_properties.get(COMMIT, "{}"))
    return {int(partition): (start, end) for partition, (start, end) in ranges.items()}


def summary_of(marks: Marks, added: Mapping[int, tuple[int, int]]) -> dict[str, str]:
    """The properties of a snapshot's summary; maintenance adds nothing and keeps the marks."""
    pairs = {
        str(partition): [end, marks.epochs[partition]]
        for partition, end in sorted(marks.ends.items())
    }
    ranges = {str(partition): list(each) for partition, each in sorted(added.items())}
    return {
        TOPIC_ID: marks.topic_id,
        OFFSETS: json.dumps(pairs, separators=(",", ":")),
        COMMIT: json.dumps(ranges, separators=(",", ":")),
    }
