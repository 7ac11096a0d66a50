"""The metrics that clients push (KIP-714): the last values of each, bounded in every way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

MOST_SERIES = 10_000
"""Of all clients."""
MOST_OF_CLIENT = 1_000
MOST_NAMES = 500
LONGEST = 200
"""In characters, of a name or the value of a label; longer names of clients are cut."""
MOST_CHARACTERS = 2_000_000
"""Of the names and labels of all series."""

LABELS = ("node_id", "topic", "partition", "group_id")
"""The labels of series that are kept, apart from the labels that name the client."""


class Point(NamedTuple):
    """One value that a client has pushed."""

    name: str
    labels: Mapping[str, str]
    value: float
    is_delta: bool
    """Whether the value is the difference to the last push."""


class ClientIdentity(NamedTuple):
    """The names of a client in its series."""

    client_id: str
    instance_id: str
    software: tuple[str, str]

    def cut(self) -> ClientIdentity:
        """The same identity with its names cut to `LONGEST` characters."""
        name, version = self.software
        software = name[:LONGEST], version[:LONGEST]
        return ClientIdentity(self.client_id[:LONGEST], self.instance_id, software)


_Key = tuple[str, tuple[str, ...]]
"""The name of a series, and the values of its labels."""


class _Pushed:
    """The series that one client has pushed."""

    __slots__ = ("expires_ms", "identity", "series")

    def __init__(self, identity: ClientIdentity):
        self.identity = identity
        self.expires_ms = 0
        self.series: dict[_Key, float] = {}


class ClientMetrics:
    """The last values of each client, until it has not pushed for a time."""

    def __init__(self) -> None:
        self._clients: dict[bytes, _Pushed] = {}
        self._names: dict[str, int] = {}
        """How many series have each name."""
        self._count = 0
        self._characters = 0
        self.pushes = 0
        self.refused = 0
        """Pushes that could not be decoded."""
        self.dropped = 0
        """Values that were dropped: too many, too long, or of unknown kinds."""

    def __len__(self) -> int:
        """The number of clients."""
        return len(self._clients)

    def take(
        self, instance_id: bytes, identity: ClientIdentity, points: Iterable[Point], expires_ms: int
    ) -> None:
        """Replace the values of a client; values that it has not pushed again are dropped.

        `expires_ms` is when the client is forgotten unless it pushes again. Of a client without any
        value nothing is kept.
        """
        self.pushes += 1
        identity = identity.cut()
        pushed = self._clients.pop(instance_id, None) or _Pushed(identity)
        pushed.identity, pushed.expires_ms = identity, expires_ms
        before = pushed.series
        pushed.series = {}
        self._remove(before)
        for point in list(points):
            key = point.name, tuple([point.labels.get(label, "") for label in LABELS])
            if not self._has_room(pushed, point, key):
                self.dropped += 1
                continue
            if key not in pushed.series:
                self._names[point.name] = self._names.get(point.name, 0) + 1
                self._count += 1
                self._characters += _characters(key)
            value = point.value
            pushed.series[key] = before.get(key, 0) + value if point.is_delta else value
        if pushed.series:
            self._clients[instance_id] = pushed

    def expire(self, now_ms: int) -> None:
        """Forget the clients that have not pushed for long enough."""
        for instance_id in [
            instance_id
            for instance_id, pushed in self._clients.items()
            if pushed.expires_ms <= now_ms
        ]:
            self._remove(self._clients.pop(instance_id).series)

    def rows(self) -> Iterator[tuple[ClientIdentity, str, tuple[str, ...], float]]:
        """Each series: its client, name, values of `LABELS`, and value."""
        for pushed in list(self._clients.values()):
            for (name, labels), value in list(pushed.series.items()):
                yield pushed.identity, name, labels, value

    def _has_room(self, pushed: _Pushed, point: Point, key: _Key) -> bool:
        if key in pushed.series:
            return True
        if len(pushed.series) >= MOST_OF_CLIENT or self._count >= MOST_SERIES:
            return False
        if point.name not in self._names and len(self._names) >= MOST_NAMES:
            return False
        if self._characters + _characters(key) > MOST_CHARACTERS:
            return False
        return max(len(point.name), *map(len, key[1])) <= LONGEST

    def _remove(self, removed: dict[_Key, float]) -> None:
        self._count -= len(removed)
        for key in removed:
            name = key[0]
            self._characters -= _characters(key)
            left = self._names[name] - 1
            if left:
                self._names[name] = left
            else:
                del self._names[name]


def _characters(key: _Key) -> int:
    return len(key[0]) + sum(map(len, key[1]))
