"""Creates the records of offset commits, and the tombstones of expired offsets."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.coordinator.groups.commands import CommittedOffset, OffsetToCommit
from wirekafka.coordinator.groups.group import Group, Turn
from wirekafka.coordinator.groups.offset_record import OffsetRecord
from wirekafka.coordinator.groups.offsets import Offsets
from wirekafka.errors import Error

NO_EXPIRY = -1


def write_commit(
    turn: Turn,
    group_id: str,
    offsets: Sequence[OffsetToCommit],
    *,
    max_metadata: int,
    expire_ms: int = NO_EXPIRY,
) -> list[Error]:
    """Write the valid offsets of a commit; returns one error per offset, in order."""
    now_ms = turn.now_ms
    errors = []
    for topic, partition, offset, leader_epoch, metadata, topic_id in offsets:
        if _is_longer(metadata, max_metadata):
            errors.append(Error.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(Error.NONE)
        turn.records.append(
            OffsetRecord(
                group_id,
                topic,
                partition,
                CommittedOffset(offset, leader_epoch, metadata, now_ms, expire_ms, topic_id),
            )
        )
    turn.counts.commits += errors.count(Error.NONE)
    return errors


def expired_records(
    group: Group, offsets: Offsets, now_ms: int, retention_ms: int
) -> list[OffsetRecord]:
    """Return tombstones for the group's offsets that have expired (see `Expiry`)."""
    expiry = group.offset_expiry()
    if expiry is None:
        return []
    since_ms = expiry.since_ms

    def is_expired(topic: str, committed: CommittedOffset) -> bool:
        if group.is_subscribed_to(topic):
            return False
        if committed.expire_ms != NO_EXPIRY:
            return now_ms >= committed.expire_ms
        return now_ms - (committed.commit_ms if since_ms is None else since_ms) >= retention_ms

    return offsets.expired(group.group_id, is_expired)


def _is_longer(metadata: str, limit: int) -> bool:
    """Whether the text has more UTF-16 code units, as Java counts, than the limit."""
    if len(metadata) * 2 <= limit:
        return False
    return len(metadata) > limit or len(metadata.encode("utf-16-be", "surrogatepass")) > 2 * limit
