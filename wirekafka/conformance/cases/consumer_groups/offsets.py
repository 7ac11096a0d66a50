"""ConsumerGroupHeartbeat: offsets that members of consumer groups commit and fetch."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay, member_id
from wirekafka.conformance.stage import UNKNOWN_ID, Stage
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

BOOK = Book(ConsumerGroupHeartbeatRequest, "consumer groups", ConformanceLevel.GROUPS, "KIP-848")


def commit(
    group: ConsumerPlay, epoch: int, member: str, name: str = "", **fields: Any
) -> OffsetCommitRequest:
    """Offset 7 of the first partition of a topic, in a member's name."""
    name = name or group.stage.topic
    topic = OffsetCommitRequest.Topic
    id = group.stage.ids.get(name, UNKNOWN_ID)
    part = topic.Partition(partition_index=0, committed_offset=7)
    return OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[topic(name=name, topic_id=id, partitions=[part])],
        **fields,
    )


def fetch(group: ConsumerPlay, epoch: int, member: str | None) -> OffsetFetchRequest:
    """The offsets of the shared topic, in a member's name."""
    asked = OffsetFetchRequest.Group
    name = group.stage.topic
    topic = asked.Topics(name=name, topic_id=group.stage.ids[name], partition_indexes=[0, 1])
    return OffsetFetchRequest(
        groups=[
            asked(group_id=group.group_id, member_id=member, member_epoch=epoch, topics=[topic])
        ]
    )


_ANNA = member_id("anna")
_SENDERS: dict[str, tuple[str, int | None]] = {
    "with its own epoch": (_ANNA, None),
    "with the previous epoch": (_ANNA, 1),
    "with epoch 0": (_ANNA, 0),
    "with a newer epoch": (_ANNA, 9),
    "with no epoch": (_ANNA, -1),
    "with epoch minus 2": (_ANNA, -2),
    "with the highest epoch": (_ANNA, 2**31 - 1),
    "of a stranger": ("stranger", None),
    "of a stranger with no epoch": ("stranger", -1),
    "of nobody": ("", -1),
    "of nobody with an epoch": ("", 2),
}

for _what, (_member, _epoch) in _SENDERS.items():

    @BOOK.play(f"a commit {_what}", versions="1")
    def _commits(stage: Stage, member: str = _member, epoch: int | None = _epoch) -> None:
        """In three versions of OffsetCommit, while a member is there; then what is stored."""
        group = ConsumerPlay(stage)
        own = group.join("anna", stage.topic).member_epoch
        for version in (8, 9, 10):
            stage.ask(commit(group, own if epoch is None else epoch, member), version)
        stage.ask(fetch(group, -1, None), 8)

    @BOOK.play(f"a fetch {_what}", versions="1")
    def _fetches(stage: Stage, member: str = _member, epoch: int | None = _epoch) -> None:
        """In three versions of OffsetFetch: offsets that the member has committed."""
        group = ConsumerPlay(stage)
        own = group.join("anna", stage.topic).member_epoch
        stage.do(commit(group, own, _ANNA), 9)
        for version in (8, 9, 10):
            stage.ask(fetch(group, own if epoch is None else epoch, member), version)

    @BOOK.play(f"a commit in a transaction {_what}", versions="1", source="KIP-447")
    def _in_transaction(stage: Stage, member: str = _member, epoch: int | None = _epoch) -> None:
        """TxnOffsetCommit looks at the member before it looks at the transaction."""
        group = ConsumerPlay(stage)
        own = group.join("anna", stage.topic).member_epoch
        topic = TxnOffsetCommitRequest.Topic
        part = topic.Partition(partition_index=0, committed_offset=7)
        request = TxnOffsetCommitRequest(
            transactional_id=stage.name("none"),
            group_id=group.group_id,
            producer_id=4242,
            producer_epoch=0,
            generation_id_or_member_epoch=own if epoch is None else epoch,
            member_id=member,
            topics=[topic(name=stage.topic, partitions=[part])],
        )
        stage.ask(request, 3)


@BOOK.play("a commit with the epoch before a rebalance", versions="1", source="KIP-1251")
def _older(stage: Stage) -> None:
    """Partitions that the member still owned then, and after it has given them up."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    before = group.join("anna", name).member_epoch
    group.join("bert", name)
    stage.ask(commit(group, before, _ANNA, name), 9)
    group.settle()
    stage.ask(commit(group, before, _ANNA, name), 9)
    stage.ask(commit(group, before, _ANNA, name), 8)
    stage.ask(commit(group, before - 1, _ANNA, name), 9)
    stage.ask(commit(group, group.actors["anna"].epoch, _ANNA, name), 9)
    stage.ask(commit(group, group.actors["bert"].epoch, member_id("bert"), name), 9)


@BOOK.play("a commit after leaving", versions="1")
def _left(stage: Stage) -> None:
    """Nobody is in the group: only a commit without member and epoch is accepted."""
    group = ConsumerPlay(stage)
    own = group.join("anna", stage.topic).member_epoch
    group.leave("anna")
    stage.ask(commit(group, own, _ANNA), 9)
    stage.ask(commit(group, -1, _ANNA), 9)
    stage.ask(commit(group, -1, ""), 9)
    stage.ask(fetch(group, own, _ANNA), 9)
    stage.ask(fetch(group, -1, None), 9)


@BOOK.play("a commit of a static member that left for a while", versions="1", source="KIP-345")
def _static(stage: Stage) -> None:
    """Its epoch is -2 meanwhile."""
    group = ConsumerPlay(stage)
    own = group.join("anna", stage.topic, instance_id="i").member_epoch
    stage.ask(commit(group, own, _ANNA, group_instance_id="i"), 9)
    stage.ask(commit(group, own, _ANNA, group_instance_id="other"), 9)
    group.leave("anna", -2)
    stage.ask(commit(group, own, _ANNA, group_instance_id="i"), 9)
    stage.ask(commit(group, -2, _ANNA, group_instance_id="i"), 9)
    stage.ask(fetch(group, -2, _ANNA), 9)


@BOOK.play("a commit for a topic that is not subscribed", versions="1")
def _not_subscribed(stage: Stage) -> None:
    """It is accepted for any topic that exists; by an unknown id it is refused."""
    group = ConsumerPlay(stage)
    own = group.join("anna", stage.topic).member_epoch
    stage.ask(commit(group, own, _ANNA, stage.compacted), 10)
    stage.ask(commit(group, own, _ANNA, stage.missing), 10)
    stage.ask(commit(group, own, _ANNA, stage.missing), 9)


@BOOK.play("offsets that are deleted", versions="1", source="KIP-496")
def _deleted(stage: Stage) -> None:
    """Not of a topic to which a member subscribes; of any other."""
    group = ConsumerPlay(stage)
    own = group.join("anna", stage.topic).member_epoch
    stage.do(commit(group, own, _ANNA), 9)
    stage.do(commit(group, own, _ANNA, stage.compacted), 9)
    topic = OffsetDeleteRequest.Topic
    request = OffsetDeleteRequest(
        group_id=group.group_id,
        topics=[
            topic(name=name, partitions=[topic.Partition(partition_index=0)])
            for name in (stage.topic, stage.compacted, stage.missing)
        ],
    )
    stage.ask(request, 0)
    group.leave("anna")
    stage.ask(request, 0)


_OF_NO_GROUP: dict[str, tuple[str, int]] = {
    "a member": (_ANNA, 1),
    "a member without epoch": (_ANNA, -1),
    "nobody": ("", -1),
    "nobody with an epoch": ("", 4),
}

for _what, (_member, _number) in _OF_NO_GROUP.items():

    @BOOK.play(f"offsets of no group for {_what}", versions="1")
    def _no_group(stage: Stage, member: str = _member, epoch: int = _number) -> None:
        """The group does not exist: first a fetch, then a commit, then a fetch again."""
        group = ConsumerPlay(stage)
        stage.call(_ANNA, "anna")
        stage.ask(fetch(group, epoch, member or None), 9)
        stage.ask(commit(group, epoch, member), 9)
        stage.ask(fetch(group, epoch, member or None), 9)
