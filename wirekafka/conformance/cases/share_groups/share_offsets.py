"""Requests about the offsets of share groups that several books of cases ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest


def altering(
    group_id: str, topics: Mapping[str, Mapping[int, int]]
) -> AlterShareGroupOffsetsRequest:
    """Set offsets by topic and partition."""
    topic = AlterShareGroupOffsetsRequest.Topic
    return AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            topic(
                topic_name=name,
                partitions=[
                    topic.Partition(partition_index=index, start_offset=offset)
                    for index, offset in offsets.items()
                ],
            )
            for name, offsets in topics.items()
        ],
    )


def deleting(group_id: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    """Delete what is stored of topics."""
    topic = DeleteShareGroupOffsetsRequest.Topic
    return DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[topic(topic_name=name) for name in topics]
    )


def describing(
    group_id: str, topics: Mapping[str, Sequence[int]] | None
) -> DescribeShareGroupOffsetsRequest:
    """Describe the offsets of partitions by topic, or of all that a group has."""
    group = DescribeShareGroupOffsetsRequest.Group
    asked = (
        None
        if topics is None
        else [group.Topic(topic_name=name, partitions=list(each)) for name, each in topics.items()]
    )
    return DescribeShareGroupOffsetsRequest(groups=[group(group_id=group_id, topics=asked)])
