"""Classic groups of a case, whose members join, sync and leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wirekafka.conformance.stage import ANSWER_S, PreparationFailed, Question, Stage
from wirekafka.errors import Error
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription
from wirekafka.protocol.sync_group import SyncGroupRequest

SUBSCRIPTION = bytes.fromhex("000000000000ffffffff")
"""Version 0 of the consumer protocol: no topics, no user data."""
JOIN, SYNC, BEAT, LEAVE, COMMIT, FETCH, DESCRIBE = 5, 3, 3, 3, 8, 7, 4
"""The versions of requests that only prepare a case: low ones, which most brokers have."""
LONG_WAIT_S = 30.0


def subscription(*topics: str, user_data: bytes | None = None, version: int = 0) -> bytes:
    """The metadata of a consumer that reads topics.

    Whoever wants metadata of its own puts it into the user data: releases before 4.4 do not
    answer joins of consumers with metadata that cannot be read.
    """
    found = ConsumerProtocolSubscription(topics=list(topics), user_data=user_data)
    return version.to_bytes(2, "big") + bytes(found.encode(version))


def join(group: str, member: str = "", instance: str | None = None, **options: Any) -> Any:
    """A JoinGroup request.

    Options: protocols (names, or names with metadata), kind (the protocol type), session_ms,
    rebalance_ms, metadata, reason.
    """
    protocols = options.get("protocols", ["range"])
    if not isinstance(protocols, Mapping):
        metadata = options.get("metadata", SUBSCRIPTION)
        protocols = [(name, metadata) for name in protocols]
    else:
        protocols = list(protocols.items())
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=options.get("session_ms", 60_000),
        rebalance_timeout_ms=options.get("rebalance_ms", 60_000),
        member_id=member,
        group_instance_id=instance,
        protocol_type=options.get("kind", "consumer"),
        protocols=[JoinGroupRequest.Protocol(name=name, metadata=data) for name, data in protocols],
        reason=options.get("reason"),
    )


def sync(
    group: str, generation: int, member: str, *assignments: tuple[str, bytes], **options: Any
) -> SyncGroupRequest:
    """A SyncGroup request. Options: instance, kind (the protocol type), protocol."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=options.get("instance"),
        protocol_type=options.get("kind", "consumer"),
        protocol_name=options.get("protocol", "range"),
        assignments=[
            SyncGroupRequest.Assignment(member_id=each, assignment=data)
            for each, data in assignments
        ],
    )


def beat(group: str, generation: int, member: str, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )


def leave(group: str, *members: str | tuple[str, str | None]) -> LeaveGroupRequest:
    """A LeaveGroup request of members by their ids, or by their ids and instance ids."""
    pairs = [(each, None) if isinstance(each, str) else each for each in members]
    identity = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group,
        member_id=pairs[0][0] if pairs else "",
        members=[identity(member_id=id, group_instance_id=instance) for id, instance in pairs],
    )


def commit(
    stage: Stage, group: str, name: str, offset: int = 5, generation: int = -1, **options: Any
) -> OffsetCommitRequest:
    """An OffsetCommit request for one partition.

    Options: member, instance, partition, metadata, epoch (of the leader), retention_ms.
    """
    return commit_of(
        stage,
        group,
        {name: {options.pop("partition", 0): offset}},
        generation=generation,
        **options,
    )


def commit_of(
    stage: Stage, group: str, offsets: Mapping[str, Mapping[int, int]], **options: Any
) -> OffsetCommitRequest:
    """An OffsetCommit request for the offsets of partitions, by topic."""
    topic = OffsetCommitRequest.Topic
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=options.get("generation", -1),
        member_id=options.get("member", ""),
        group_instance_id=options.get("instance"),
        retention_time_ms=options.get("retention_ms", -1),
        topics=[
            topic(
                name=name,
                topic_id=stage.id_of(name),
                partitions=[
                    topic.Partition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=options.get("epoch", -1),
                        committed_metadata=options.get("metadata", "why"),
                    )
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in offsets.items()
        ],
    )


def fetched(
    stage: Stage,
    group: str,
    *names: str,
    partitions: Iterable[int] = (0, 1),
    is_all: bool = False,
    is_stable: bool = False,
    **options: Any,
) -> OffsetFetchRequest:
    """An OffsetFetch request for partitions of topics, or for all. Options: member, epoch."""
    old = OffsetFetchRequest.Topic
    new = OffsetFetchRequest.Group
    indexes = list(partitions)
    topics = [
        new.Topics(name=name, topic_id=stage.id_of(name), partition_indexes=indexes)
        for name in names
    ]
    one = new(
        group_id=group,
        member_id=options.get("member"),
        member_epoch=options.get("epoch", -1),
        topics=None if is_all else topics,
    )
    return OffsetFetchRequest(
        group_id=group,
        topics=None if is_all else [old(name=name, partition_indexes=indexes) for name in names],
        groups=[one],
        require_stable=is_stable,
    )


def forgotten(group: str, *names: str, partitions: Iterable[int] = (0,)) -> OffsetDeleteRequest:
    """An OffsetDelete request for partitions of topics."""
    topic = OffsetDeleteRequest.Topic
    indexes = list(partitions)
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            topic(name=name, partitions=[topic.Partition(partition_index=at) for at in indexes])
            for name in names
        ],
    )


def deleted(*groups: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=list(groups))


def described(*groups: str, operations: bool = False) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)


def neighbours(stage: Stage, *names: str) -> list[PlayedGroup]:
    """Groups with one coordinator, which answers show by these names on every cluster."""
    ids = stage.neighbours(len(names))
    # The last that is called is looked for first: it must not begin with another.
    for id, name in sorted(zip(ids, names, strict=True), key=lambda each: len(each[0])):
        stage.call(id, f"the {name} group")
    return [PlayedGroup(stage, name=each) for each in ids]


class PlayedMember:
    """A member of a group on a stage, with a connection and, in answers, a name of its own."""

    def __init__(
        self, group: PlayedGroup, name: str, instance: str | None = None, **options: Any
    ) -> None:
        """`options` are options of `join`."""
        self.group, self.stage, self.name = group, group.stage, name
        self.instance, self.options = instance, options
        self.id, self.generation = "", -1
        self._known: list[str] = []

    def join(self, **changes: Any) -> Any:
        """The request with which the member joins, with some options changed."""
        options = {**self.options, **changes}
        member = options.pop("member", self.id)
        instance = options.pop("instance", self.instance)
        return join(self.group.name, member, instance, **options)

    def sync(self, *assignments: tuple[str, bytes], **options: Any) -> SyncGroupRequest:
        """A request for the assignment of its generation, or another `generation`."""
        generation = options.pop("generation", self.generation)
        member = options.pop("member", self.id)
        options.setdefault("instance", self.instance)
        return sync(self.group.name, generation, member, *assignments, **options)

    def beat(self, **changes: Any) -> HeartbeatRequest:
        """A heartbeat, with another `generation`, `member` id or `instance` id if given."""
        return beat(
            self.group.name,
            changes.get("generation", self.generation),
            changes.get("member", self.id),
            changes.get("instance", self.instance),
        )

    def leave(self) -> LeaveGroupRequest:
        """The request with which the member leaves by its id."""
        return leave(self.group.name, (self.id, self.instance))

    def commit(self, name: str, offset: int = 5, **changes: Any) -> OffsetCommitRequest:
        """A commit by the member, with some options changed."""
        options = {"generation": self.generation, "member": self.id, "instance": self.instance}
        return commit(self.stage, self.group.name, name, offset, **{**options, **changes})

    def asks(self, version: int | None = None, **changes: Any) -> Any:
        """Join, and compare the answers: two if the broker gives a member id first."""
        wait_s = changes.pop("wait_s", ANSWER_S)
        request = self.join(**changes)
        answer = self.take(self.stage.ask(request, version, by=self.name, wait_s=wait_s))
        if answer.error_code == Error.MEMBER_ID_REQUIRED:
            request = self.join(**changes)
            answer = self.take(self.stage.ask(request, version, by=self.name, wait_s=wait_s))
        return answer

    def gets_id(self, version: int = JOIN) -> str:
        """Join without an id, in a version that only gives one; returns the id."""
        answer = self.take(self.stage.do(self.join(member=""), version, by=self.name))
        if answer.error_code != Error.MEMBER_ID_REQUIRED:
            raise PreparationFailed(f"no member id: {Error.of(answer.error_code).name}")
        return self.id

    def starts(
        self, version: int | None = None, *, is_compared: bool = True, **changes: Any
    ) -> Joining:
        """Join, and take the answer later; a member id is fetched first if there has to be one."""
        used = self.stage.version if version is None else version
        if used >= 4 and not self.id and self.instance is None:
            self.gets_id(used)
        request = self.join(**changes)
        return Joining(
            self, self.stage.send(request, version, by=self.name, is_compared=is_compared)
        )

    def take(self, answer: Any) -> Any:
        """Learn the id and the generation from the answer to a join, and return the answer."""
        if isinstance(answer, str):
            raise PreparationFailed(f"JoinGroup: {answer}")
        if answer.member_id and answer.member_id != self.id:
            self.know(answer.member_id)
        if not answer.error_code:
            self.generation = answer.generation_id
        return answer

    def know(self, id: str) -> None:
        """Take another id, which answers show by the name of the member."""
        self.id = id
        if id not in self._known:
            self._known.append(id)
            number = f" {len(self._known)}" if len(self._known) > 1 else ""
            self.stage.call(id, f"member {self.name}{number}")

    def error(self) -> Error:
        """The answer to a heartbeat, which is not compared."""
        return Error.of(self.stage.do(self.beat(), BEAT, by=f"{self.name}'s").error_code)

    def must_rejoin(self) -> None:
        """Wait until a rebalance has begun."""
        self.stage.until(lambda: self.error() == Error.REBALANCE_IN_PROGRESS, "a rebalance")

    def must_be_gone(self) -> None:
        """Wait until the group has lost the member."""
        self.stage.until(lambda: self.error() == Error.UNKNOWN_MEMBER_ID, "a lost member")


class Joining:
    """A join whose answer may have to wait for other members."""

    def __init__(self, member: PlayedMember, question: Question) -> None:
        self._member, self._question = member, question

    def answer(self) -> Any:
        return self._member.take(self._question.answer(LONG_WAIT_S))


class PlayedGroup:
    """A group on a stage, and the members that have been brought into it."""

    def __init__(
        self, stage: Stage, text: str = "", name: str = "", *, is_bare: bool = False
    ) -> None:
        """A bare group has no offsets but what the case commits."""
        self.stage, self.name = stage, name or stage.name(text)
        self._exists = is_bare
        self.members: list[PlayedMember] = []

    def member(self, name: str, instance: str | None = None, **options: Any) -> PlayedMember:
        """A member that has not joined yet."""
        return PlayedMember(self, name, instance, **options)

    def gather(self, *names: str | PlayedMember) -> list[PlayedMember]:
        """Bring new members into the group, one by one, and into one generation.

        The first leads. The group waits for its assignment.
        """
        new = [self.member(each) if isinstance(each, str) else each for each in names]
        if not self._exists:
            self.exists()
        for each in new:
            joins = [each.starts(JOIN, is_compared=False)]
            if self.members:
                self.members[0].must_rejoin()
            joins += [old.starts(JOIN, is_compared=False) for old in self.members]
            self.members.append(each)
            for joining in joins:
                refused = joining.answer().error_code
                if refused:
                    raise PreparationFailed(f"JoinGroup: {Error.of(refused).name}")
        return new

    def settle(self, *names: str | PlayedMember) -> list[PlayedMember]:
        """Bring new members into the group, and give each its name as the assignment."""
        new = self.gather(*names)
        self.assign()
        return new

    def assign(self) -> None:
        """Let all members have their names as assignments, which makes the group stable."""
        shares = [(each.id, each.name.encode()) for each in self.members]
        for number, each in enumerate(self.members):
            request = each.sync(*([] if number else shares))
            refused = self.stage.do(request, SYNC, by=each.name).error_code
            if refused:
                raise PreparationFailed(f"SyncGroup: {Error.of(refused).name}")

    def commit(self, name: str, offset: int = 5, **options: Any) -> None:
        """Commit an offset without a member, when the coordinator knows the topic."""

        def refused() -> int:
            asked = commit(self.stage, self.name, name, offset, **options)
            return int(self.stage.do(asked, COMMIT).topics[0].partitions[0].error_code)

        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        self.stage.until(lambda: refused() != unknown, f"{name} at the coordinator")
        if code := refused():
            raise PreparationFailed(f"OffsetCommit: {Error.of(code).name}")

    def exists(self) -> PlayedGroup:
        """Commit something, and return the group.

        Apache Kafka may describe a group as dead that has never written anything, and releases
        before 4.0 forget groups without members and offsets when any topic is deleted.
        """
        self.commit(self.stage.compacted)
        self._exists = True
        return self

    def has(self, member: PlayedMember) -> None:
        """Remember a member that has come in by a request of the case."""
        self.members.append(member)

    def loses(self, member: PlayedMember) -> None:
        """Let a member leave; its answer is not compared."""
        self.stage.do(member.leave(), LEAVE, by=member.name)
        self.members.remove(member)

    def state(self) -> str:
        """The state in which DescribeGroups shows the group."""
        found: str = self.stage.do(described(self.name), DESCRIBE).groups[0].group_state
        return found
