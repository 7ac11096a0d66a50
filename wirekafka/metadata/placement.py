"""Replica placement: spread over racks and brokers, with leaders on unfenced brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image import UNASSIGNED_DIRECTORY, BrokerImage, MetadataImage


def place(image: MetadataImage, partitions: range, replication_factor: int) -> list[list[int]]:
    """Choose replicas for each partition index, the preferred leader first.

    Leaders rotate by index, so added partitions continue the rotation.
    Raises INVALID_REPLICATION_FACTOR if there are too few brokers.
    """
    alive = _striped([broker for broker in image.brokers.values() if not broker.fenced])
    fenced = _striped([broker for broker in image.brokers.values() if broker.fenced])
    count = len(alive) + len(fenced)
    if replication_factor > count:
        raise KafkaError(
            Error.INVALID_REPLICATION_FACTOR,
            (
                f"Unable to replicate the partition {replication_factor} time(s): The target "
                f"replication factor of {replication_factor} cannot be reached because "
                f"only {count} "
                "broker(s) are registered or some brokers have all their log directories cordoned."
            ),
        )
    if not alive:
        raise KafkaError(
            Error.INVALID_REPLICATION_FACTOR,
            (
                f"Unable to replicate the partition {replication_factor} time(s): "
                "All brokers are currently fenced."
            ),
        )
    placed = []
    for index in partitions:
        turn = index % len(alive)
        # Each lap shifts the followers, so that a leader's followers are not always the same.
        lap = index // len(alive)
        others = alive[turn + 1 :] + alive[:turn]
        shift = lap % len(others) if others else 0
        followers = others[shift:] + others[:shift] + fenced
        placed.append([alive[turn], *followers][:replication_factor])
    return placed


def check_assignment(image: MetadataImage, replicas: Sequence[int], expected: int | None) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT for an invalid manual assignment.

    `expected` is the number of replicas of the other partitions, None for any.
    """
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker == previous:
            raise _invalid(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        if broker not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker}, but no "
                "such broker is registered."
            )
        previous = broker
    if expected is not None and len(replicas) != expected:
        raise _invalid(
            "The manual partition assignment includes a partition with "
            f"{len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {expected} replica(s)."
        )


def directories(image: MetadataImage, replicas: Sequence[int]) -> list[bytes]:
    """The log directory id of each replica whose broker has only one, else zeros (KIP-858)."""
    found = []
    for broker in replicas:
        log_dirs = image.brokers[broker].registration.log_dirs
        found.append(log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY)
    return found


def _striped(brokers: list[BrokerImage]) -> list[int]:
    """Order broker ids so that neighbours are on different racks where possible."""
    racks: dict[str, list[int]] = defaultdict(list)
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks[broker.rack or ""].append(broker.id)
    order = []
    for turn in range(max(map(len, racks.values()), default=0)):
        order += [rack[turn] for _, rack in sorted(racks.items()) if turn < len(rack)]
    return order


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REPLICA_ASSIGNMENT, message)
