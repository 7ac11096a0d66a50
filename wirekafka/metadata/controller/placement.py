"""Replica placement: spread over racks and brokers, with leaders on unfenced brokers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import ControllerState
from wirekafka.metadata.image.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    BrokerImage,
    MetadataImage,
)


def place(state: ControllerState, count: int, replication_factor: int) -> list[list[int]]:
    """Choose replicas for `count` partitions, the preferred leader first.

    As in Kafka's StripedReplicaPlacer, these come first to last: no broker has two replicas of a
    partition; leaders are unfenced; replicas are spread over all racks, the leaders too; unfenced
    brokers are preferred; brokers of one rack take turns. It begins at a random rack and broker.
    Raises INVALID_REPLICATION_FACTOR if there are too few brokers.
    """
    usable = [broker for broker in state.image.brokers.values() if _is_usable(state, broker)]
    unfenced = sum(not broker.fenced for broker in usable)
    if not unfenced:
        raise _unreachable(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replication_factor > len(usable):
        raise _unreachable(
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(usable)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
    if len(usable) == 1:
        return [[usable[0].id] for _ in range(count)]
    random = Random(state.new_id())  # noqa: S311
    racks = _racks(usable, random)
    placed = []
    for index in range(count):
        if index and unfenced > 1 and index % unfenced == 0:
            # All turns have been taken: another order lets other brokers share the partitions.
            random.shuffle(racks)
            for rack in racks:
                rack.shuffle(random)
        placed.append(_placed(racks, replication_factor))
        racks.append(racks.pop(0))
    return placed


class _Rack:
    """The brokers of one rack; the broker whose turn it is comes first."""

    def __init__(self, brokers: Sequence[BrokerImage], random: Random):
        self.unfenced = [broker.id for broker in brokers if not broker.fenced]
        self.fenced = [broker.id for broker in brokers if broker.fenced]
        for each in (self.unfenced, self.fenced):
            turn = random.randrange(len(each)) if each else 0
            each[:] = each[turn:] + each[:turn]

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.unfenced)
        random.shuffle(self.fenced)

    def rotate(self) -> None:
        for each in (self.unfenced, self.fenced):
            if each:
                each.append(each.pop(0))


def _racks(brokers: Sequence[BrokerImage], random: Random) -> list[_Rack]:
    by_name: dict[str | None, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        by_name.setdefault(broker.rack, []).append(broker)
    names = sorted(by_name, key=lambda name: (name is not None, name or ""))
    first = random.randrange(len(names))
    return [_Rack(by_name[name], random) for name in names[first:] + names[:first]]


def _placed(racks: Sequence[_Rack], replication_factor: int) -> list[int]:
    """The replicas of one partition: racks take turns, and brokers within a rack."""
    first = next(rack for rack in racks if rack.unfenced)
    replicas = [first.unfenced[0]]
    lap = 0
    while len(replicas) < replication_factor:
        for rack in racks:
            brokers = rack.unfenced + rack.fenced
            if lap < len(brokers) and brokers[lap] not in replicas:
                replicas.append(brokers[lap])
                if len(replicas) == replication_factor:
                    break
        lap += 1
    for rack in racks:
        rack.rotate()
    return replicas


def _is_usable(state: ControllerState, broker: BrokerImage) -> bool:
    return not state.sessions.is_leaving(broker.id) and not _is_cordoned(broker)


def _is_cordoned(broker: BrokerImage) -> bool:
    """Whether all log directories of a broker are cordoned (KIP-1066)."""
    cordoned = broker.registration.cordoned_log_dirs
    directories = broker.registration.log_dirs
    return bool(cordoned and directories and set(directories) <= set(cordoned))


def _unreachable(reason: str) -> KafkaError:
    return KafkaError(Error.INVALID_REPLICATION_FACTOR, reason)


def check_assignment(image: MetadataImage, replicas: Sequence[int], expected: int | None) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT for an invalid manual assignment.

    `expected` is the number of replicas of the other partitions, None for any.
    """
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker}, but no "
                "such broker is registered."
            )
        if _is_cordoned(image.brokers[broker]):
            raise _invalid(
                f"The manual partition assignment includes broker {broker}, but all its log "
                "directories are cordoned."
            )
        if broker == previous:
            raise _invalid(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        previous = broker
    if expected is not None and len(replicas) != expected:
        raise _invalid(
            "The manual partition assignment includes a partition with "
            f"{len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {expected} replica(s)."
        )


def default_directory(image: MetadataImage, broker_id: int) -> bytes:
    """The log directory id of a new replica: the id of the broker's only directory (KIP-858).

    With several directories the broker chooses one. MIGRATING_DIRECTORY if it has not registered
    any.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED_DIRECTORY
    directories = broker.registration.log_dirs
    if not directories:
        return MIGRATING_DIRECTORY
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REPLICA_ASSIGNMENT, message)
