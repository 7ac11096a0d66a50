"""A plan of replicas: each partition's brokers, evenly loaded, spread over racks, few moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from wirekafka.client.client import CliError

BrokersOfPartitions = dict[tuple[str, int], list[int]]
"""The brokers of each partition; the first one is the preferred leader."""


def balanced(
    current: Mapping[tuple[str, int], Sequence[int]],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> BrokersOfPartitions:
    """Assign partitions to the brokers that `racks` has, moving few replicas.

    The brokers get numbers of replicas, and of preferred leaders, that are as equal as racks allow:
    a partition has as equal numbers of replicas in all racks as it can. Brokers without a rack are
    each a rack of their own. Without a replication factor, partitions keep theirs. Raises CliError.
    """
    plan = _Plan(racks)
    for partition, replicas in current.items():
        wanted = len(replicas) if replication_factor is None else replication_factor
        if not 0 < wanted <= len(racks):
            raise CliError(
                f"{partition[0]}-{partition[1]} needs {wanted} replicas, of {len(racks)} brokers"
            )
        plan.keep(partition, replicas, wanted)
    plan.fill()
    plan.level_replicas()
    plan.level_leaders()
    return plan.assigned


class _Plan:
    def __init__(self, racks: Mapping[int, str | None]):
        self.assigned: BrokersOfPartitions = {}
        self._wanted: dict[tuple[str, int], int] = {}
        self._rack_of = {
            broker: (rack is None, str(broker) if rack is None else rack)
            for broker, rack in racks.items()
        }
        self._rack_sizes = Counter(self._rack_of.values())
        self._load = dict.fromkeys(sorted(racks), 0)

    def keep(self, partition: tuple[str, int], replicas: Sequence[int], wanted: int) -> None:
        """Keep the replicas of a partition that may stay, up to the wanted number."""
        kept = self.assigned[partition] = []
        self._wanted[partition] = wanted
        for broker in replicas:
            is_known = broker in self._load and broker not in kept
            if is_known and len(kept) < wanted and self._has_room(partition, broker):
                kept.append(broker)
                self._load[broker] += 1

    def fill(self) -> None:
        """Add the replicas that partitions lack, in racks and on brokers that have the fewest."""
        for partition, replicas in self.assigned.items():
            while len(replicas) < self._wanted[partition]:
                in_rack = Counter(self._rack_of[each] for each in replicas)
                chosen = min(
                    (each for each in self._load if each not in replicas),
                    key=lambda each: (in_rack[self._rack_of[each]], self._load[each]),
                )
                replicas.append(chosen)
                self._load[chosen] += 1

    def level_replicas(self) -> None:
        """Move replicas from brokers to others that have at least two fewer, while racks allow."""
        while any(self._relieve(broker) for broker in self._by_load(reverse=True)):
            pass

    def level_leaders(self) -> None:
        """Put other replicas first where their brokers have at least two fewer leaders."""
        leaders = Counter(dict.fromkeys(self._load, 0))
        leaders.update(replicas[0] for replicas in self.assigned.values())
        has_changed = True
        while has_changed:
            has_changed = False
            for replicas in self.assigned.values():
                first, best = replicas[0], min(replicas, key=lambda each: leaders[each])
                if leaders[best] + 1 < leaders[first]:
                    replicas.remove(best)
                    replicas.insert(0, best)
                    leaders[first] -= 1
                    leaders[best] += 1
                    has_changed = True

    def _relieve(self, broker: int) -> bool:
        """Move one replica away from a broker; False if none can move."""
        for other in self._by_load():
            if self._load[other] + 1 >= self._load[broker]:
                return False
            for partition, replicas in self.assigned.items():
                if broker in replicas and other not in replicas:
                    place = replicas.index(broker)
                    rest = replicas[:place] + replicas[place + 1 :]
                    if self._rack_of[broker] == self._rack_of[other] or self._has_room(
                        partition, other, rest
                    ):
                        replicas[place] = other
                        self._load[broker] -= 1
                        self._load[other] += 1
                        return True
        return False

    def _by_load(self, *, reverse: bool = False) -> list[int]:
        return sorted(self._load, key=lambda each: self._load[each], reverse=reverse)

    def _has_room(
        self, partition: tuple[str, int], broker: int, others: Sequence[int] | None = None
    ) -> bool:
        """Whether the partition can get all its replicas evenly over racks with this one, too."""
        replicas = self.assigned[partition] if others is None else others
        wanted = self._wanted[partition]
        share = self._share(wanted)
        in_racks = Counter(self._rack_of[each] for each in (*replicas, broker))
        lacking = sum(
            max(0, min(size, share - 1) - in_racks[rack]) for rack, size in self._rack_sizes.items()
        )
        is_even = in_racks[self._rack_of[broker]] <= share
        return is_even and lacking <= wanted - len(replicas) - 1

    def _share(self, wanted: int) -> int:
        """The most replicas of a partition in one rack: racks with few brokers may be full."""
        share = -(-wanted // len(self._rack_sizes))
        while sum(min(size, share) for size in self._rack_sizes.values()) < wanted:
            share += 1
        return share
