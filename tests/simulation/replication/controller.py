"""A model of Apache Kafka's controller for one partition: sessions, elections, ISR and ELR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from tests.simulation.replication.network import Reply
from tests.simulation.replication.schedule import Process, Schedule
from wirekafka.errors import Error
from wirekafka.replication.partition.remote_replica import IsrChange
from wirekafka.replication.partition.replica import Leadership

SESSION_MS = 9_000
_SWEEP_MS = 500
MIN_ISR = 2
_NO_LEADER = -1
_RECOVERING = 1


@dataclass(frozen=True)
class BrokerState:
    """A registered broker. `incarnation` identifies its process."""

    epoch: int
    incarnation: object
    is_fenced: bool = True
    is_stopping: bool = False


@dataclass(frozen=True)
class PartitionState:
    """The registration of the partition, as in PartitionRecord; replaced, never changed."""

    topic_id: bytes
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    recovery: int = 0

    def leadership(self) -> Leadership:
        """The part that a broker applies."""
        return Leadership(
            leader_id=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=self.isr,
            replicas=self.replicas,
            leader_recovery_state=self.recovery,
        )


@dataclass(frozen=True)
class Image:
    """The metadata at one offset; for leaders, their `Brokers`."""

    offset: int
    brokers: Mapping[int, BrokerState]
    partition: PartitionState | None
    max_lag_ms: int

    def alive_epoch(self, broker_id: int) -> int | None:
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.is_fenced else broker.epoch

    def may_join(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and not broker.is_stopping


class Controller:
    """The active controller, which never fails: only the ways to it do.

    `noted` is called with a line for every change.
    """

    def __init__(self, schedule: Schedule, random: Random, max_lag_ms: int):
        self.process = Process(schedule, "controller")
        self.images = [Image(0, {}, None, max_lag_ms)]
        self.noted: Callable[[str], None] = lambda line: None
        self._random = random
        self._heard_ms: dict[int, int] = {}
        self._applied: dict[int, int] = {}
        self._polls: list[tuple[int, Reply]] = []
        self.process.every(_SWEEP_MS, self._sweep)

    @property
    def image(self) -> Image:
        """The newest metadata."""
        return self.images[-1]

    @property
    def partition(self) -> PartitionState | None:
        return self.image.partition

    # Requests of brokers.

    def poll(self, offset: int, reply: Reply) -> None:
        """Reply with a later image as soon as there is one: often the next, or the newest."""
        if offset >= self.image.offset:
            self._polls.append((offset, reply))
            return
        skips = offset == 0 or self._random.random() < 0.5
        reply(self.image if skips else self.images[offset + 1])

    def register(self, broker_id: int, incarnation: object, previous_epoch: int) -> int | Error:
        """Register a broker, fenced; its epoch. -1 is the previous epoch after an unclean stop."""
        known = self.image.brokers.get(broker_id)
        if known is not None and known.incarnation is incarnation:
            return known.epoch
        if known is not None and not known.is_fenced:
            if self._is_alive(broker_id) and not known.is_stopping:
                return Error.DUPLICATE_BROKER_REGISTRATION
            self._fence(broker_id)
        epoch = self.image.offset + 1
        is_clean = known is None or known.epoch == previous_epoch
        partition = self.partition
        registered = {**self.image.brokers, broker_id: BrokerState(epoch, incarnation)}
        if partition is not None and not is_clean and broker_id in (*partition.isr, *partition.elr):
            isr = _without(partition.isr, broker_id)
            partition = self._decided(partition, registered, isr=isr, unclean=broker_id)
        self._heard_ms[broker_id] = self.process.now_ms()
        how = "" if is_clean else " after an unclean stop"
        self._publish(f"broker {broker_id} registers{how}", registered, partition)
        return epoch

    def heartbeat(self, broker_id: int, epoch: int, applied: int, wants_stop: bool) -> str:
        """Record a heartbeat; replies "fenced", "alive", "stop" or "stale"."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return "stale"
        self._heard_ms[broker_id] = self.process.now_ms()
        self._applied[broker_id] = applied
        if wants_stop:
            return self._stop(broker_id, broker)
        if broker.is_fenced and applied >= epoch:
            brokers = {**self.image.brokers, broker_id: replace(broker, is_fenced=False)}
            partition = self.partition
            if partition is not None and partition.leader == _NO_LEADER:
                partition = self._decided(partition, brokers)
            self._publish(f"broker {broker_id} is unfenced", brokers, partition)
            return "alive"
        return "fenced" if broker.is_fenced else "alive"

    def alter_partition(
        self, broker_id: int, epoch: int, topic_id: bytes, change: IsrChange
    ) -> PartitionState | Error:
        """AlterPartition: the leader's new ISR, checked as in ReplicationControlManager."""
        broker, partition = self.image.brokers.get(broker_id), self.partition
        if broker is None or broker.epoch != epoch:
            return Error.STALE_BROKER_EPOCH
        if partition is None or partition.topic_id != topic_id:
            return Error.UNKNOWN_TOPIC_ID
        if (
            change.leader_epoch > partition.leader_epoch
            or change.partition_epoch > partition.partition_epoch
        ):
            return Error.NOT_CONTROLLER
        if change.leader_epoch < partition.leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        if broker_id != partition.leader:
            return Error.INVALID_REQUEST
        if change.partition_epoch < partition.partition_epoch:
            return Error.INVALID_UPDATE_VERSION
        if not set(change.isr) <= set(partition.replicas) or broker_id not in change.isr:
            return Error.INVALID_REQUEST
        for member in change.members:
            known_epoch = self.image.alive_epoch(member.broker_id)
            if not self.image.may_join(member.broker_id):
                return Error.INELIGIBLE_REPLICA
            if member.broker_epoch not in (-1, known_epoch):
                return Error.INELIGIBLE_REPLICA
        decided = self._decided(partition, self.image.brokers, isr=change.isr, recovery=0)
        self._publish(f"broker {broker_id} alters the ISR", self.image.brokers, decided)
        return decided

    # The administrator.

    def create(self, topic_id: bytes, replicas: tuple[int, ...]) -> None:
        """Create the topic, in place of the one there is."""
        alive = tuple(each for each in replicas if self.image.may_join(each))
        assert alive, replicas
        self._publish(
            "topic created",
            self.image.brokers,
            PartitionState(topic_id, replicas, isr=alive, leader=alive[0]),
        )

    def delete(self) -> None:
        """Delete the topic."""
        self._publish("topic deleted", self.image.brokers, None)

    def elect(self, leader: int) -> None:
        """Move the leadership to a member of the ISR that is alive."""
        partition = self.partition
        if partition is None or leader == partition.leader or leader not in partition.isr:
            return
        if self.image.may_join(leader):
            changed = replace(
                partition,
                leader=leader,
                leader_epoch=partition.leader_epoch + 1,
                partition_epoch=partition.partition_epoch + 1,
            )
            self._publish(f"broker {leader} is made leader", self.image.brokers, changed)

    def reassign(self, target: tuple[int, ...]) -> None:
        """Move the replicas; ends once all new ones are in sync. Ignored during another move."""
        partition = self.partition
        if partition is None or partition.adding or partition.removing:
            return
        adding = tuple(each for each in target if each not in partition.replicas)
        removing = tuple(each for each in partition.replicas if each not in target)
        if adding or removing:
            moving = replace(
                partition, replicas=target + removing, adding=adding, removing=removing
            )
            decided = self._decided(moving, self.image.brokers)
            self._publish(f"reassigned to {target}", self.image.brokers, decided)

    def call_off(self) -> None:
        """Cancel a reassignment, unless that needs an unclean election."""
        partition = self.partition
        if partition is None or not (partition.adding or partition.removing):
            return
        replicas = _only(partition.replicas, lambda each: each not in partition.adding)
        isr = _only(partition.isr, lambda each: each in replicas)
        if isr:
            moved = replace(partition, replicas=replicas, adding=(), removing=())
            moved = replace(moved, leader_epoch=partition.leader_epoch + 1)
            decided = self._decided(moved, self.image.brokers, isr=isr)
            self._publish("reassignment called off", self.image.brokers, decided)

    # State.

    def _sweep(self) -> None:
        for broker_id, broker in self.image.brokers.items():
            if not broker.is_fenced and not self._is_alive(broker_id):
                self._fence(broker_id)

    def _is_alive(self, broker_id: int) -> bool:
        return self.process.now_ms() - self._heard_ms[broker_id] <= SESSION_MS

    def _fence(self, broker_id: int) -> None:
        broker = replace(self.image.brokers[broker_id], is_fenced=True)
        self._leave(broker_id, broker, f"broker {broker_id} is fenced")

    def _stop(self, broker_id: int, broker: BrokerState) -> str:
        """Controlled shutdown: moves the leadership away, and waits until the others know."""
        if broker.is_fenced:
            return "stop"
        if not broker.is_stopping:
            self._leave(broker_id, replace(broker, is_stopping=True), f"broker {broker_id} stops")
            return "alive"
        others = [
            each
            for each, other in self.image.brokers.items()
            if each != broker_id and not other.is_fenced
        ]
        if any(self._applied.get(each, 0) < self.image.offset for each in others):
            return "alive"
        self._fence(broker_id)
        return "stop"

    def _leave(self, broker_id: int, broker: BrokerState, why: str) -> None:
        brokers = {**self.image.brokers, broker_id: broker}
        partition = self.partition
        if partition is not None and broker_id in partition.isr:
            isr = _without(partition.isr, broker_id)
            partition = self._decided(partition, brokers, isr=isr)
        self._publish(why, brokers, partition)

    def _decided(
        self,
        before: PartitionState,
        brokers: Mapping[int, BrokerState],
        *,
        isr: tuple[int, ...] | None = None,
        unclean: int | None = None,
        recovery: int | None = None,
    ) -> PartitionState:
        """The partition with another ISR: completes a reassignment, elects, and keeps the ELR.

        The rules are those of PartitionChangeBuilder (KIP-966).
        """
        isr = before.isr if isr is None else isr
        state = _completed(before, isr)
        isr = state.isr

        def may_lead(broker_id: int) -> bool:
            broker = brokers.get(broker_id)
            return broker is not None and not broker.is_fenced and not broker.is_stopping

        elr = _only(before.elr, lambda each: each != unclean)
        leader, recovery = state.leader, before.recovery if recovery is None else recovery
        if leader not in isr or not may_lead(leader):
            leader = _first(state.replicas, isr, may_lead)
            if leader == _NO_LEADER:
                leader = _first(state.replicas, elr, may_lead)
                if leader == _NO_LEADER and not isr and not elr:
                    leader = _first(state.replicas, before.last_known, may_lead)
                    recovery = _RECOVERING if leader != _NO_LEADER else recovery
                if leader != _NO_LEADER:
                    isr = (leader,)
        candidates = (*elr, *(each for each in before.isr if each not in elr))
        last_known = before.last_known
        if leader != _NO_LEADER:
            last_known = ()
        elif before.leader != _NO_LEADER:
            last_known = (before.leader,)
        needs_epoch = leader != before.leader or len(state.replicas) < len(before.replicas)
        return replace(
            state,
            isr=isr,
            leader=leader,
            recovery=recovery,
            leader_epoch=state.leader_epoch + needs_epoch,
            partition_epoch=before.partition_epoch + 1,
            elr=()
            if len(isr) >= MIN_ISR
            else _only(
                candidates,
                lambda each: each not in isr and each != unclean and each in state.replicas,
            ),
            last_known=last_known,
        )

    def _publish(
        self, why: str, brokers: Mapping[int, BrokerState], partition: PartitionState | None
    ) -> None:
        self.images.append(Image(self.image.offset + 1, brokers, partition, self.image.max_lag_ms))
        if partition is None:
            self.noted(f"controller: {why}")
        else:
            self.noted(
                f"controller: {why}: leader {partition.leader} epoch {partition.leader_epoch}"
                f" isr {partition.isr} elr {partition.elr} replicas {partition.replicas}"
                f" partition epoch {partition.partition_epoch}"
            )
        polls, self._polls = self._polls, []
        for offset, reply in polls:
            self.poll(offset, reply)


def _completed(partition: PartitionState, isr: tuple[int, ...]) -> PartitionState:
    """The partition with that ISR, and without what a reassignment removes once it is complete."""
    left = _only(isr, lambda each: each not in partition.removing)
    if not (partition.adding or partition.removing):
        return replace(partition, isr=isr)
    if not left or not set(partition.adding) <= set(isr):
        return replace(partition, isr=isr)
    replicas = _only(partition.replicas, lambda each: each not in partition.removing)
    return replace(partition, isr=left, replicas=replicas, adding=(), removing=())


def _first(replicas: Iterable[int], among: tuple[int, ...], may_lead: Callable[[int], bool]) -> int:
    return next((each for each in replicas if each in among and may_lead(each)), _NO_LEADER)


def _only(brokers: Iterable[int], keeps: Callable[[int], bool]) -> tuple[int, ...]:
    return tuple(filter(keeps, brokers))


def _without(brokers: Iterable[int], broker_id: int) -> tuple[int, ...]:
    return tuple(each for each in brokers if each != broker_id)
