"""When committed offsets are forgotten: while nobody could use them (KIP-211)."""

from __future__ import annotations

from wirekafka.coordinator.classic_group import ClassicGroup, GroupState
from wirekafka.coordinator.group_commands import CommittedOffset
from wirekafka.coordinator.group_records import OffsetRecord
from wirekafka.coordinator.offsets import Offsets


def expired_records(
    group: ClassicGroup, offsets: Offsets, now_ms: int, retention_ms: int
) -> list[OffsetRecord]:
    """Tombstones for the group's offsets whose time is up.

    A group of self-assigned members keeps an offset for the retention after its commit; one that
    emptied keeps all for the retention after that; one with members forgets only what it no
    longer subscribes to.
    """
    is_simple = group.protocol_type is None
    if is_simple:
        since_ms = None
    elif group.state is GroupState.EMPTY:
        since_ms = group.state_since_ms
    elif (group.state is GroupState.STABLE and group.is_consumers()
            and group.subscribed_topics is not None):
        since_ms = None
    else:
        return []

    def is_expired(topic: str, committed: CommittedOffset) -> bool:
        if group.is_subscribed_to(topic):
            return False
        if committed.expire_ms != -1:
            return now_ms >= committed.expire_ms
        return now_ms - (committed.commit_ms if since_ms is None else since_ms) >= retention_ms

    return offsets.expired(group.group_id, is_expired)
