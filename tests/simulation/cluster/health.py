"""Whether a simulated cluster is whole: everyone runs, is in sync, and agrees."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from tests.simulation.cluster.member import Member
from wirekafka.metadata.image.image import MetadataImage

if TYPE_CHECKING:
    from tests.simulation.cluster.simulation import Simulation


class Health:
    """Looks at the nodes from outside."""

    def __init__(self, simulation: Simulation):
        self._simulation = simulation

    def is_whole(self) -> bool:
        """Whether nothing is missing anywhere."""
        return self.missing() is None

    def is_lost(self) -> bool:
        """Whether some partition has no leader until an operator chooses an unclean one.

        As in Kafka: a replica that may have all records was removed by a reassignment, and then the
        last leader failed. The only eligible leader is a broker that is no replica any more.
        """
        image = self.newest_image()
        partitions = [each for topic in image.topics.values() for each in topic.partitions.values()]
        return any(
            not each.isr
            and each.eligible_leader_replicas
            and set(each.eligible_leader_replicas).isdisjoint(each.replicas)
            for each in partitions
        )

    def leader_epochs(self) -> dict[tuple[str, int], int]:
        """The leader epoch of each partition."""
        return {
            (name, index): partition.leader_epoch
            for name, topic in self.newest_image().topics.items()
            for index, partition in topic.partitions.items()
        }

    def newest_image(self) -> MetadataImage:
        """The metadata up to the highest offset that some node knows as committed."""
        images = (member.image for member in self._simulation.members.values())
        return max((each for each in images if each is not None), key=itemgetter(1))[0]

    def has_open_transaction(self) -> bool:
        """Whether a transaction has records in some partition, and has not ended there."""
        for name, topic in self.newest_image().topics.items():
            for index, partition in topic.partitions.items():
                leader = self._simulation.members.get(partition.leader)
                if leader is None or not leader.is_up:
                    return True
                found = leader.broker.partitions.get((name, index))
                if found is None or found.last_stable_offset < found.log.end_offset:
                    return True
        return False

    def missing(self) -> str | None:
        """What is not as it should be; None if everything is."""
        members = list(self._simulation.members.values())
        for member in members:
            if not member.is_up:
                return f"{member.name} does not serve"
            if member.process is None or member.process.is_paused:
                return f"{member.name} is paused"
        active = [member for member in members if member.is_active]
        if len(active) != 1:
            return f"{len(active)} controllers are active"
        return _behind(active[0], members) or _out_of_sync(active[0], members)


def _behind(leader: Member, members: list[Member]) -> str | None:
    """A node whose log is not that of the leader, up to its end."""
    log = leader.log
    assert log is not None
    if log.committed_offset != log.end_offset:
        return f"{leader.name} has committed {log.committed_offset} of {log.end_offset}"
    for member in members:
        own, image = member.log, member.image
        if own is None or image is None or own.epoch != log.epoch:
            return f"{member.name} does not follow {leader.name}"
        if own.committed_offset < log.committed_offset or image[1] < log.committed_offset:
            return f"{member.name} is at {image[1]} of {log.committed_offset}"
    return None


def _out_of_sync(leader: Member, members: list[Member]) -> str | None:
    """A partition without all of its replicas, as the controller and its leader know it."""
    image, _ = leader.image or (None, 0)
    assert image is not None
    brokers = {member.id: member for member in members if member.spec.is_broker}
    for id in brokers:
        known = image.brokers.get(id)
        if known is None or known.fenced:
            return f"broker {id} is fenced"
    for name, topic in image.topics.items():
        for index, partition in topic.partitions.items():
            where = f"{name}-{index}"
            adding, removing = partition.adding_replicas, partition.removing_replicas
            # As in Kafka, a reassignment that has replaced another may both add and remove a
            # replica; it then lasts until the next one.
            if (adding or removing) and set(adding).isdisjoint(removing):
                return f"{where} is being reassigned"
            if sorted(partition.isr) != sorted(partition.replicas):
                return f"{where} has the ISR {partition.isr} of {partition.replicas}"
            found = brokers[partition.leader].broker.partitions.get((name, index))
            if found is None or found.high_watermark != found.log.end_offset:
                return f"{where} is not committed to its end at {partition.leader}"
            for id in partition.replicas:
                replica = brokers[id].broker.partitions.get((name, index))
                if replica is None or replica.log.end_offset != found.log.end_offset:
                    return f"{where} is not in sync at {id}"
    return None
