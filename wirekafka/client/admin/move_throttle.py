"""Limits on the bytes that brokers copy for moves of partitions (KIP-73): set, found, removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from wirekafka.client.client import Client, CliError
from wirekafka.client.configurations import BROKER, TOPIC, alter_configs, values_of

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS, _FOLLOWERS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_LISTS = (_LEADERS, _FOLLOWERS)
_ALL_REPLICAS = "*"


@dataclass(frozen=True, slots=True)
class Throttle:
    """The options of one topic or broker that throttle moves; None for an option without value."""

    kind: int
    name: str
    options: Mapping[str, str | None]


def throttle_moves(
    client: Client,
    current: Mapping[tuple[str, int], Sequence[int]],
    wanted: Mapping[tuple[str, int], Sequence[int]],
    rate: int,
) -> list[Throttle]:
    """Limit what each broker sends and receives for these moves, in bytes a second.

    Returns the options as they were before, for `set_throttles`. Raises CliError.
    """
    moves = {
        partition: added
        for partition, brokers in wanted.items()
        if (added := [each for each in brokers if each not in current.get(partition, ())])
    }
    lists: dict[str, dict[str, list[str]]] = {}
    for (topic, index), added in moves.items():
        of_topic = lists.setdefault(topic, {name: [] for name in _LISTS})
        of_topic[_LEADERS] += [f"{index}:{broker}" for broker in current.get((topic, index), ())]
        of_topic[_FOLLOWERS] += [f"{index}:{broker}" for broker in added]
    brokers = {
        str(each)
        for partition, added in moves.items()
        for each in (*current.get(partition, ()), *added)
    }
    # A broker that is gone sends nothing.
    brokers &= {str(each.node_id) for each in client.metadata([]).brokers}
    before = _values(client, TOPIC, lists, _LISTS) + _values(client, BROKER, brokers, _RATES)
    after = [
        Throttle(
            each.kind,
            each.name,
            {name: _joined(old, lists[each.name][name]) for name, old in each.options.items()}
            if each.kind == TOPIC
            else dict.fromkeys(_RATES, str(rate)),
        )
        for each in before
    ]
    try:
        set_throttles(client, after)
    except CliError:
        with suppress(CliError):
            set_throttles(client, before)
        raise
    return before


def find_throttles(client: Client) -> list[Throttle]:
    """All topics and brokers with options that throttle moves. Raises CliError."""
    metadata = client.metadata()
    brokers = [str(each.node_id) for each in metadata.brokers]
    topics = [each.name or "" for each in metadata.topics]
    found = _values(client, TOPIC, topics, _LISTS) + _values(client, BROKER, brokers, _RATES)
    return [each for each in found if any(each.options.values())]


def set_throttles(client: Client, wanted: Iterable[Throttle]) -> None:
    """Give topics and brokers these options; None removes one. Raises CliError."""
    for each in wanted:
        alter_configs(client, each.kind, each.name, each.options)


def remove_throttles(client: Client, found: Iterable[Throttle]) -> None:
    """Remove the options of topics and brokers that throttle moves. Raises CliError."""
    for each in found:
        given = [name for name, value in each.options.items() if value]
        alter_configs(client, each.kind, each.name, dict.fromkeys(given))


def _values(
    client: Client, kind: int, names: Iterable[str], options: Sequence[str]
) -> list[Throttle]:
    """Only what is set for the topic or broker itself."""
    return [
        Throttle(kind, name, {option: values.get(option) for option in options})
        for name, values in values_of(client, kind, sorted(names), options).items()
    ]


def _joined(old: str | None, new: Sequence[str]) -> str:
    if old == _ALL_REPLICAS:
        return old
    known = [each for each in (old or "").split(",") if each]
    return ",".join(dict.fromkeys([*known, *new]))
