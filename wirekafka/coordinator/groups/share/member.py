"""A member of a share group: its subscription, its epoch and its current assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wirekafka.coordinator.groups.assignment import NO_ASSIGNMENT, Assignment, read_assignment
from wirekafka.coordinator.groups.consumer.member import LEAVING_EPOCH, MemberState
from wirekafka.coordinator.java_order import copied_capacity, java_text_order, strings_in_order
from wirekafka.protocol.records.share_groups import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member, as its two records store it."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    listed_topics: Sequence[str] = field(default=(), compare=False)
    """The topics as a request or a record listed them: their order decides between equal hashes."""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its whole target assignment of this epoch."""
        return self.epoch == epoch and self.state is MemberState.STABLE

    def ordered_topics(self) -> list[str]:
        """Return the subscribed topics in the order of the `HashSet` made from their list."""
        names = dict.fromkeys(self.listed_topics)
        return strings_in_order(names, copied_capacity(len(self.listed_topics)))

    def sorted_topics(self) -> Sequence[str]:
        """Return the subscribed topics as stored, in Java's order of strings."""
        return sorted(self.topics, key=java_text_order)

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        """Return the member with the fields of a metadata record."""
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            listed_topics=value.subscribed_topic_names,
        )

    def metadata(self) -> ShareGroupMemberMetadataValue:
        """Return the value of the member's metadata record."""
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=self.sorted_topics(),
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        """Return the member with the fields of a current-assignment record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=read_assignment(
                (topic.topic_id, topic.partitions) for topic in value.assigned_partitions
            ),
        )

    def without_assignment(self) -> ShareMember:
        """Return the member after the tombstone of its current-assignment record."""
        return replace(
            self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NO_ASSIGNMENT
        )

    def assignment(self) -> ShareGroupCurrentMemberAssignmentValue:
        """Return the value of the member's current-assignment record."""
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=[
                ShareGroupCurrentMemberAssignmentValue.TopicPartitions(
                    topic_id=topic, partitions=list(partitions)
                )
                for topic, partitions in self.assigned.items()
            ],
        )
