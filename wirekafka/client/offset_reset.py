"""Plans the change of a group's committed offsets: which partitions, and to where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from wirekafka.client.client import Client, CliError, check
from wirekafka.client.group_types import GroupType, type_of
from wirekafka.client.membership import TopicPartition

_LATEST, _EARLIEST = -1, -2
_EMPTY_STATES = ("Empty", "Dead")


class Reset(NamedTuple):
    """The offsets of a group before and after a change that has not been made yet."""

    group: str
    kind: GroupType
    before: Mapping[TopicPartition, int]
    after: dict[TopicPartition, int]

    def apply(self, client: Client) -> None:
        """Commit the offsets. Raises CliError."""
        check(self.kind.reset(client, self.group, self.after), f"group {self.group}")


def plan_reset(client: Client, group: str, topics: Iterable[str], to: str) -> Reset:
    """Plan a change for topics, each as TOPIC or TOPIC:0,1; changes nothing.

    `to` is "earliest", "latest", an offset, +N or -N from the committed offset, or an ISO 8601
    time. Raises CliError, also if the group has members.
    """
    kind = type_of(client, group)
    state = _state(client, group, kind)
    if state not in _EMPTY_STATES:
        raise CliError(f"group {group} is {state}: its offsets can be reset only while it is Empty")
    partitions = [each for word in topics for each in _partitions(client, word)]
    before = {each: found.offset for each, found in kind.offsets(client, group).items()}
    return Reset(group, kind, before, _targets(client, partitions, to, before))


def _state(client: Client, name: str, kind: GroupType) -> str:
    try:
        return kind.describe(client, name).state
    except CliError as error:
        # A group that does not exist yet may get its first offsets.
        if str(error) == f"no group {name}":
            return "Empty"
        raise


def _partitions(client: Client, word: str) -> list[TopicPartition]:
    """The partitions named by TOPIC or TOPIC:0,1; CliError if one does not exist."""
    name, colon, listed = word.partition(":")
    every = sorted(p.partition_index for p in client.topic(name).partitions)
    if not colon:
        return [(name, index) for index in every]
    if not all(part.isdigit() for part in listed.split(",")):
        raise CliError(f"bad --topic {word!r}: expected TOPIC or TOPIC:0,1,...")
    chosen = [int(part) for part in listed.split(",")]
    for index in chosen:
        if index not in every:
            raise CliError(f"topic {name} has no partition {index}")
    return [(name, index) for index in chosen]


def _targets(
    client: Client, partitions: list[TopicPartition], to: str, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The new offset of each partition, between its earliest and latest one."""
    earliest, latest = (client.offsets(partitions, at) for at in (_EARLIEST, _LATEST))
    if to == "earliest":
        return earliest
    if to == "latest":
        return latest
    if to.lstrip("+-").isdigit():
        start: Mapping[TopicPartition, int] = before if to[0] in "+-" else {}
        wanted = {p: start.get(p, 0) + int(to) for p in partitions}
    else:
        found = client.offsets(partitions, _milliseconds(to))
        wanted = {p: found[p] if found[p] >= 0 else latest[p] for p in partitions}
    return {p: min(max(wanted[p], earliest[p]), latest[p]) for p in partitions}


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise CliError(
            f"bad --to {text!r}: earliest, latest, an offset, +N, -N or an ISO 8601 time"
        ) from None
