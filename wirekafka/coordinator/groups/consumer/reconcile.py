"""Moves a member of a consumer group step by step to its target assignment (KIP-848).

A member first revokes the partitions that it loses, and only then enters the target's epoch. It
gets a partition when the previous owner has revoked it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias, assert_never

from wirekafka.coordinator.groups.assignment import Assignment
from wirekafka.coordinator.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from wirekafka.coordinator.java_order import (
    HashOrder,
    copied_capacity,
    grown_capacity,
    integers_in_order,
    sized_capacity,
    uuid_hash_code,
)
from wirekafka.errors import Error, KafkaError

Reported: TypeAlias = Mapping[bytes, Collection[int]] | None
"""The partitions a member reports as owned; None if the request has none."""

_Owned: TypeAlias = dict[bytes, Mapping[int, int]]


class AssignmentAim(NamedTuple):
    """The target to reconcile a member with.

    `topic_ids` are the existing topics of the member's current subscription, whatever the target
    was computed for; `has_topics` says that it subscribes to any topic, existing or not.
    `owner_epochs` returns the owner's epoch of each owned partition of a topic.
    """

    epoch: int
    target: Assignment
    topic_ids: Collection[bytes]
    owner_epochs: Callable[[bytes], Mapping[int, int]]
    has_topics: bool = True
    has_new_subscription: bool = False


def reconcile(member: ConsumerMember, aim: AssignmentAim, reported: Reported) -> ConsumerMember:
    """Return the member's next state; the same object if there is nothing to do."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch != aim.epoch:
                return _advance(member, aim, reported)
            return _trim(member, aim, reported) if aim.has_new_subscription else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _holds_any(reported, member.revoking):
                return _advance(member, aim, reported)
            return _trim(member, aim, reported) if aim.has_new_subscription else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(member, aim, reported)
        case MemberState.UNKNOWN:
            if reported is None or reported:
                raise KafkaError(
                    Error.FENCED_MEMBER_EPOCH,
                    (
                        "The consumer group member is in a unknown state. "
                        "The member must abandon all its partitions and rejoin."
                    ),
                )
            return _advance(member, aim, reported, epoch=aim.epoch)
        case _:
            assert_never(member.state)


def in_epoch_of_same_target(
    member: ConsumerMember, epoch: int, target: Assignment
) -> ConsumerMember | None:
    """Return the result of `reconcile` for a member that owns exactly its target in one topic.

    Returns None for any other member. The topic exists, and the member subscribes to it.
    """
    owned = member.assigned
    if (
        len(owned) != 1
        or member.revoking
        or member.state not in (MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS)
    ):
        return None
    [(topic, epochs)] = owned.items()
    partitions = target.get(topic, ())
    if len(partitions) != len(epochs) or epochs.keys() != set(partitions):
        return None
    ordered = _in_partition_order(epochs, len(epochs))
    return member.moved(
        epoch, member.epoch, MemberState.STABLE, owned if ordered is epochs else {topic: ordered}
    )


def _holds_any(reported: Reported, partitions: OwnedPartitions) -> bool:
    """Whether the member owns one of these; it does unless it reports otherwise."""
    if reported is None:
        return True
    return any(
        not partitions[topic].keys().isdisjoint(owned)
        for topic, owned in reported.items()
        if topic in partitions
    )


def _trim(member: ConsumerMember, aim: AssignmentAim, reported: Reported) -> ConsumerMember:
    """Remove topics the member does not subscribe to, without waiting for a new target."""
    dropped = {
        topic: epochs for topic, epochs in member.assigned.items() if topic not in aim.topic_ids
    }
    if not dropped and (aim.has_topics or member.revoking):
        return member
    kept = {topic: epochs for topic, epochs in member.assigned.items() if topic not in dropped}
    if not kept and not dropped:
        # Kafka also writes a record for a member without partitions and subscriptions.
        return member._replace(previous_epoch=member.epoch)
    kept = {topic: kept[topic] for topic in _copied_order(member.assigned).walk() if topic in kept}
    is_all = not aim.has_topics and not member.revoking
    revoking = dropped if is_all else _merged(member.revoking, dropped)
    if _holds_any(reported, revoking):
        return member._replace(
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )
    return member._replace(previous_epoch=member.epoch, assigned=kept)


class _Difference:
    """The partitions that a member keeps, revokes and gets; `withheld` if any is not free."""

    def __init__(self, member: ConsumerMember, aim: AssignmentAim):
        self.kept: _Owned = {}
        self.revoked: _Owned = {}
        self.granted: dict[bytes, list[int]] = {}
        self.withheld = False
        for topic in _all_topics(aim.target, member.assigned):
            self._compare(topic, member, aim)

    def _compare(self, topic: bytes, member: ConsumerMember, aim: AssignmentAim) -> None:
        target = aim.target.get(topic, ()) if topic in aim.topic_ids else ()
        owned = member.assigned.get(topic, {})
        if len(owned) == len(target) and owned and owned.keys() == set(target):
            self.kept[topic] = owned
            return
        missing = [partition for partition in target if partition not in owned]
        if owned:
            wanted = set(target)
            kept = {partition: epoch for partition, epoch in owned.items() if partition in wanted}
            if kept:
                self.kept[topic] = kept
            if len(kept) < len(owned):
                self.revoked[topic] = {p: epoch for p, epoch in owned.items() if p not in wanted}
        if missing:
            taken = aim.owner_epochs(topic)
            # A partition that this member has yet to revoke has no other owner.
            revoking = member.revoking.get(topic, {})
            granted = [each for each in missing if each not in taken or each in revoking]
            if granted:
                self.granted[topic] = granted
            if len(granted) < len(missing):
                self.withheld = True


def _advance(
    member: ConsumerMember, aim: AssignmentAim, reported: Reported, epoch: int | None = None
) -> ConsumerMember:
    difference = _Difference(member, aim)
    if difference.revoked and _holds_any(reported, difference.revoked):
        return member.moved(
            member.epoch if epoch is None else epoch,
            member.epoch,
            MemberState.UNREVOKED_PARTITIONS,
            _in_order(difference.kept, member.assigned),
            _in_order(difference.revoked, member.assigned),
        )
    assigned, granted = difference.kept, difference.granted
    kept_topics = list(assigned)
    granted_topics = list(granted) if len(granted) < 2 else _topic_order(granted).walk()
    for topic in granted_topics:
        new = dict.fromkeys(granted[topic], aim.epoch)
        assigned[topic] = {**assigned.get(topic, {}), **new}
    if len(assigned) > 1:
        order = _topic_order(kept_topics)
        for topic in granted_topics:
            order.compute(topic)
        assigned = {topic: assigned[topic] for topic in order.walk()}
    return member.moved(
        aim.epoch,
        member.epoch,
        MemberState.UNRELEASED_PARTITIONS if difference.withheld else MemberState.STABLE,
        _in_partition_orders(assigned, member.assigned),
    )


def _in_order(owned: _Owned, before: OwnedPartitions) -> OwnedPartitions:
    """Return topics and partitions in the order of Java maps."""
    if len(owned) > 1:
        owned = {topic: owned[topic] for topic in _topic_order(owned).walk()}
    return _in_partition_orders(owned, before)


def _in_partition_orders(owned: _Owned, before: OwnedPartitions) -> OwnedPartitions:
    """Return partitions in the order of Java maps, each copied from the topic's previous map."""
    return {
        topic: _in_partition_order(epochs, len(before.get(topic, ())))
        for topic, epochs in owned.items()
    }


def _merged(revoking: OwnedPartitions, dropped: OwnedPartitions) -> OwnedPartitions:
    """Return the partitions that were being revoked together with the newly revoked."""
    order = _copied_order(revoking)
    merged = dict(revoking)
    for topic, epochs in dropped.items():
        order.compute(topic)
        before = revoking.get(topic)
        merged[topic] = (
            epochs if before is None else _in_partition_order({**before, **epochs}, len(before))
        )
    return {topic: merged[topic] for topic in order.walk()}


def _in_partition_order(epochs: Mapping[int, int], copied: int) -> Mapping[int, int]:
    """Return `epochs` in the order of a Java map copied with `copied` entries that then grew."""
    ordered = integers_in_order(epochs, _copied_and_grown(copied, len(epochs)))
    return epochs if ordered == list(epochs) else {p: epochs[p] for p in ordered}


@lru_cache(1 << 10)
def _copied_and_grown(copied: int, count: int) -> int:
    """Return the buckets of a Java map copied with `copied` entries that grew to `count`."""
    return grown_capacity(count, sized_capacity(copied)) if copied else grown_capacity(count)


def _copied_order(topics: Collection[bytes]) -> HashOrder[bytes]:
    buckets = sized_capacity(len(topics)) if topics else grown_capacity(0)
    order = HashOrder(uuid_hash_code, buckets)
    for topic in topics:
        order.put(topic)
    return order


def _topic_order(topics: Iterable[bytes]) -> HashOrder[bytes]:
    order = HashOrder(uuid_hash_code)
    for topic in topics:
        order.put(topic)
    return order


def _all_topics(target: Iterable[bytes], owned: Iterable[bytes]) -> list[bytes]:
    """Return the topics of both in Kafka's order: a set made of the target's, then grown."""
    targeted = list(target)
    topics = dict.fromkeys((*targeted, *owned))
    if len(topics) < 2:
        return list(topics)
    order = HashOrder(uuid_hash_code, copied_capacity(len(targeted)))
    for topic in topics:
        order.put(topic)
    return order.walk()


def reported_partitions(topics: Iterable[tuple[bytes, Collection[int]]] | None) -> Reported:
    """Return the partitions that a heartbeat reports as owned, by topic id."""
    if topics is None:
        return None
    reported: dict[bytes, list[int]] = {}
    for topic, partitions in topics:
        reported.setdefault(topic, []).extend(partitions)
    return reported
