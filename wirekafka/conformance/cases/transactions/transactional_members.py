"""TxnOffsetCommit by members of groups, and beside other changes of the group's offsets."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.cases.transactions.views import committed
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.sync_group import SyncGroupRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

BOOK = Book(TxnOffsetCommitRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-447")

_INSTANCE = "instance"
_GENERATION = "generation_id_or_member_epoch"
_LEAVES = -1


def _begun(stage: Stage) -> ScriptedProducer:
    producer = ScriptedProducer(stage, level=2 if stage.version >= 5 else 1)
    if producer.level == 1:
        stage.do(producer.add_offsets_request(stage.name("g")), 3)
    return producer


def _ask(stage: Stage, **member: Any) -> None:
    """Commit an offset as a member with a compared answer, and end the transaction."""
    group = stage.name("g")
    producer = _begun(stage)
    stage.ask(producer.offsets_request(group, {stage.topic: {0: 1}}, **member))
    producer.leave()


def _joined(stage: Stage, instance: str | None = None) -> str:
    """Join the classic group as its only member, in generation 1; returns the member's id."""
    group = stage.name("g")
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=protocols,
    )
    answer = stage.do(join, 5 if instance else 3)
    assert not answer.error_code, answer
    member = str(answer.member_id)
    kind = SyncGroupRequest.Assignment
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=answer.generation_id,
        member_id=member,
        group_instance_id=instance,
        assignments=[kind(member_id=member, assignment=b"")],
    )
    assert not stage.do(sync, 3).error_code
    return member


def _left(stage: Stage, member: str, instance: str | None = None) -> None:
    kind = LeaveGroupRequest.MemberIdentity
    request = LeaveGroupRequest(
        group_id=stage.name("g"),
        member_id=member,
        members=[kind(member_id=member, group_instance_id=instance)],
    )
    stage.do(request, 3)


_SHOWN: dict[str, dict[str, Any]] = {
    # What a request shows of a member; the id "me" stands for the member that there is.
    "its generation": {"member_id": "me", "generation_id_or_member_epoch": 1},
    "the generation before": {"member_id": "me", "generation_id_or_member_epoch": 0},
    "the next generation": {"member_id": "me", "generation_id_or_member_epoch": 2},
    "no generation": {"member_id": "me"},
    "another member": {"member_id": "other", "generation_id_or_member_epoch": 1},
    "no member": {"generation_id_or_member_epoch": 1},
    "neither member nor generation": {},
    "an unknown instance": {
        "member_id": "me",
        "generation_id_or_member_epoch": 1,
        "group_instance_id": "unknown",
    },
    "only an unknown instance": {"group_instance_id": "unknown"},
}


def _of_member(shown: dict[str, Any], member: str, epoch: int = 1) -> dict[str, Any]:
    """What is shown of a member that there is; generations count from its epoch."""
    found = {name: member if value == "me" else value for name, value in shown.items()}
    if _GENERATION in found:
        found[_GENERATION] += epoch - 1
    return found


for _what, _shown in _SHOWN.items():

    @BOOK.play(f"a group without members, {_what}", versions="3-6")
    def _without_members(stage: Stage, shown: dict[str, Any] = _shown) -> None:
        _ask(stage, **shown)

    @BOOK.play(f"a member of a classic group, {_what}", versions="3,5-6")
    def _classic(stage: Stage, shown: dict[str, Any] = _shown) -> None:
        member = _joined(stage)
        _ask(stage, **_of_member(shown, member))
        _left(stage, member)

    @BOOK.play(
        f"a member of a consumer group, {_what}",
        versions="3,5-6",
        source="KIP-848",
        level=ConformanceLevel.GROUPS,
    )
    def _consumer(stage: Stage, shown: dict[str, Any] = _shown) -> None:
        """The member's epoch is what a generation is in classic groups."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=stage.name("g"),
            member_id="",
            member_epoch=0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[stage.topic],
            topic_partitions=[],
        )
        answer = stage.do(request, 0)
        assert not answer.error_code, answer
        _ask(stage, **_of_member(shown, answer.member_id, answer.member_epoch))
        request.member_id, request.member_epoch = answer.member_id, _LEAVES
        stage.do(request, 0)


_STATIC: dict[str, dict[str, Any]] = {
    "its instance": {"member_id": "me", "group_instance_id": _INSTANCE},
    "no instance": {"member_id": "me"},
    "another member": {"member_id": "other", "group_instance_id": _INSTANCE},
    "no member": {"group_instance_id": _INSTANCE},
    "an unknown instance": {"member_id": "me", "group_instance_id": "unknown"},
}
for _what, _shown in _STATIC.items():

    @BOOK.play(f"a static member of a classic group, {_what}", versions="3,5-6", source="KIP-345")
    def _static(stage: Stage, shown: dict[str, Any] = _shown) -> None:
        member = _joined(stage, _INSTANCE)
        _ask(stage, **_of_member(shown, member), generation_id_or_member_epoch=1)
        _left(stage, member, _INSTANCE)


@BOOK.play("a member that has left", versions="3,5-6")
def _has_left(stage: Stage) -> None:
    member = _joined(stage)
    _left(stage, member)
    _ask(stage, member_id=member, generation_id_or_member_epoch=1)


@BOOK.play("without fields for members, of a group with a member", versions="0,2")
def _without_fields(stage: Stage) -> None:
    member = _joined(stage)
    _ask(stage)
    _left(stage, member)


# Other changes of the group's offsets


def _commit_request(stage: Stage, offset: int) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.Topic
    part = kind.Partition(partition_index=0, committed_offset=offset)
    topic = kind(name=stage.topic, topic_id=stage.id_of(stage.topic), partitions=[part])
    return OffsetCommitRequest(group_id=stage.name("g"), topics=[topic])


def _note_offset(stage: Stage, what: str) -> None:
    group = stage.name("g")
    stage.note(what, committed(stage, group, stage.topic))
    stage.note(f"{what} as stable", committed(stage, group, stage.topic, is_stable=True))


for _what, _is_committed in {"a commit": True, "an abort": False}.items():

    @BOOK.play(f"an offset that is overwritten before {_what}", versions="4-5")
    def _overwritten(stage: Stage, is_committed: bool = _is_committed) -> None:
        """An offset that was committed later counts, even if the transaction ends after it."""
        producer = _begun(stage)
        stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}))
        stage.ask(_commit_request(stage, 2), 8)
        _note_offset(stage, "meanwhile")
        producer.end(committed=is_committed)
        _note_offset(stage, "afterwards")

    @BOOK.play(f"a group that is deleted before {_what}", versions="4-5")
    def _deleted(stage: Stage, is_committed: bool = _is_committed) -> None:
        group = stage.name("g")
        producer = _begun(stage)
        stage.ask(producer.offsets_request(group, {stage.topic: {0: 1}}))
        stage.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        _note_offset(stage, "meanwhile")
        producer.end(committed=is_committed)
        _note_offset(stage, "afterwards")

    @BOOK.play(f"an offset that is deleted before {_what}", versions="4-5")
    def _offset_deleted(stage: Stage, is_committed: bool = _is_committed) -> None:
        producer = _begun(stage)
        stage.do(_commit_request(stage, 3), 8)
        stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}))
        kind = OffsetDeleteRequest.Topic
        part = kind.Partition(partition_index=0)
        topics = [kind(name=stage.topic, partitions=[part])]
        stage.ask(OffsetDeleteRequest(group_id=stage.name("g"), topics=topics), 0)
        _note_offset(stage, "meanwhile")
        producer.end(committed=is_committed)
        _note_offset(stage, "afterwards")


@BOOK.play("all offsets of a group with a pending one", versions="4-5")
def _all(stage: Stage) -> None:
    """Who asks for all stable offsets learns of the pending partition, too."""
    kind = OffsetFetchRequest.Group
    group = stage.name("g")
    producer = _begun(stage)
    stage.do(_commit_request(stage, 3), 8)
    stage.ask(producer.offsets_request(group, {stage.topic: {0: 4, 1: 5}}))
    for is_stable in (False, True):
        asked = OffsetFetchRequest(
            groups=[kind(group_id=group, topics=None)], require_stable=is_stable
        )
        stage.note("all offsets", stage.do(asked, 8).groups)
    producer.leave()
