"""A share group in cases: its members' sessions, what they acquire and acknowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.cases.consumer_groups.consumer_play import configure, member_id
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest

ACCEPT, RELEASE, REJECT, RENEW, GAP = [1], [2], [3], [4], [0]
LAST = -1
"""The epoch that ends a session."""
LONG_MS, SHORT_MS = 5000, 200
"""How long fetches wait for records that there are, and for records that there are not."""

Acks = Sequence[tuple[int, int, Sequence[int]]]
"""First offsets, last offsets and types of acknowledgement."""


def share_fetch(partitions: Mapping[tuple[bytes, int], Acks], **fields: Any) -> ShareFetchRequest:
    """A ShareFetch of partitions by topic id and index, with options of a client."""
    values: dict[str, Any] = {
        "member_id": member_id("anna"),
        "max_wait_ms": LONG_MS,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        **fields,
    }
    return ShareFetchRequest(topics=_topics(ShareFetchRequest.FetchTopic, partitions), **values)


def share_acknowledge(
    partitions: Mapping[tuple[bytes, int], Acks], **fields: Any
) -> ShareAcknowledgeRequest:
    """A ShareAcknowledge of partitions by topic id and index."""
    topics = _topics(ShareAcknowledgeRequest.AcknowledgeTopic, partitions)
    return ShareAcknowledgeRequest(**{"member_id": member_id("anna"), "topics": topics, **fields})


def _topics(kind: Any, partitions: Mapping[tuple[bytes, int], Acks]) -> list[Any]:
    part = getattr(kind, "FetchPartition", None) or kind.AcknowledgePartition
    found: dict[bytes, Any] = {}
    for (topic_id, index), acks in partitions.items():
        topic = found.setdefault(topic_id, kind(topic_id=topic_id, partitions=[]))
        ranges = [
            part.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(types)
            )
            for first, last, types in acks
        ]
        topic.partitions.append(part(partition_index=index, acknowledgement_batches=ranges))
    return list(found.values())


class SharePlay:
    """A share group of a case, which shares one topic of the case from its beginning."""

    def __init__(self, stage: Stage, *, partitions: int = 1, **configs: str) -> None:
        self.stage, self.group_id = stage, stage.name("g")
        for who in ("anna", "bert"):
            stage.call(member_id(who), who)
        self.epochs: dict[str, int] = {}
        """The epochs of members' next requests."""
        options = {"share_auto_offset_reset": "earliest", **configs}
        configure(stage, self.group_id, **options)
        self.topic = stage.create("t", partitions=partitions)
        self.alter(dict.fromkeys(range(partitions), 0))

    @property
    def topic_id(self) -> bytes:
        return self.stage.ids[self.topic]

    def produce(self, count: int, partition: int = 0) -> None:
        """Append one batch."""
        self.stage.produce(self.topic, batch(count), partition)

    def alter(self, offsets: Mapping[int, int]) -> None:
        """Have the group begin at these offsets; it exists from then on."""
        request = self.altering(offsets)

        def is_done() -> bool:
            answer = self.stage.do(request, 0)
            parts = [each for topic in answer.responses for each in topic.partitions]
            return not answer.error_code and not any(each.error_code for each in parts)

        self.stage.until(is_done, f"offsets of {self.group_id} are set")

    def altering(self, offsets: Mapping[int, int]) -> AlterShareGroupOffsetsRequest:
        """The request that sets offsets by partition."""
        topic = AlterShareGroupOffsetsRequest.Topic
        parts = [
            topic.Partition(partition_index=index, start_offset=offset)
            for index, offset in offsets.items()
        ]
        return AlterShareGroupOffsetsRequest(
            group_id=self.group_id, topics=[topic(topic_name=self.topic, partitions=parts)]
        )

    def offsets(self, *partitions: int) -> DescribeShareGroupOffsetsRequest:
        """The request for the offsets of partitions."""
        group = DescribeShareGroupOffsetsRequest.Group
        topic = group.Topic(topic_name=self.topic, partitions=list(partitions) or [0])
        return DescribeShareGroupOffsetsRequest(
            groups=[group(group_id=self.group_id, topics=[topic])]
        )

    def heartbeat(self, who: str, epoch: int, *topics: str) -> ShareGroupHeartbeatRequest:
        """A heartbeat, with a subscription if there are topics."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id(who),
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )

    # Sessions

    def fetch(self, who: str = "anna", *acks: Any, partition: int = 0, **fields: Any) -> Any:
        """A ShareFetch in a member's session; returns the answer."""
        asked = {(self.topic_id, partition): acks}
        return self._send(who, share_fetch(asked, **self._session(who, fields)))

    def acknowledge(self, who: str, *acks: Any, partition: int = 0, **fields: Any) -> Any:
        """A ShareAcknowledge in a member's session; returns the answer."""
        asked = {(self.topic_id, partition): acks} if acks else {}
        return self._send(who, share_acknowledge(asked, **self._session(who, fields)))

    def nothing(self, who: str = "anna", *acks: Any, **fields: Any) -> Any:
        """A ShareFetch that is not expected to acquire anything."""
        return self.fetch(who, *acks, **{"max_wait_ms": SHORT_MS, **fields})

    def _session(self, who: str, fields: dict[str, Any]) -> dict[str, Any]:
        epoch = self.epochs.get(who, 0)
        named = {"group_id": self.group_id, "member_id": member_id(who)}
        return {**named, "share_session_epoch": epoch, **fields}

    def _send(self, who: str, request: Any) -> Any:
        answer = self._compared(who, request)
        if not answer.error_code:
            epoch = request.share_session_epoch
            self.epochs[who] = 0 if epoch == LAST else epoch + 1
        return answer

    def _compared(self, who: str, request: Request) -> Any:
        if isinstance(request, self.stage.case.request):
            return self.stage.ask(request, by=who)
        return self.stage.ask(request, 1, by=who)
