"""Random histories ("lives") of groups, played step by step on both brokers at once."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from compat_tests.consumer_pair import BothBrokers, Difference
from wirekafka.codec.message import Request

HEARTBEAT, DESCRIBE, COMMIT, FETCH = 1, 1, 9, 9
"""The request versions that members use where the version does not matter."""
SESSION_MS = 6000
"""The session timeout of the groups."""
_TOPICS = {"a": 3, "b": 1, "c": 17, "d": 6}
_LATE_TOPIC = "d"
_STEPS = 3
_AT_ONCE = 20
"""How many groups live at once: each must be heard of again before its sessions end."""

Action = tuple[int, Callable[[], object]]
"""What may happen, and its weight among what else may."""


class Pair(Protocol):
    """Sends each request to both brokers; raises Difference unless the responses are equal."""

    def ask(self, request: Request, version: int) -> Any: ...
    def topic_ids(self) -> dict[str, bytes]: ...


class Life(ABC):
    """The random history of one group; the same for the same seed."""

    def __init__(self, seed: int, group_id: str, topics: Mapping[str, int], pair: Any):
        self.random = random.Random(seed)
        self.group_id = group_id
        self.topics = list(topics)
        self.partitions = topics
        """The least number of partitions that each topic has once it exists."""
        self.pair = pair
        self.members: list[Any] = []
        self.silent: list[Any] = []

    @abstractmethod
    def actions(self) -> list[Action]:
        """What can happen now."""

    @abstractmethod
    def beat_all(self) -> None:
        """Heartbeats of all members."""

    def step(self) -> None:
        """Do one random action out of those that are possible now."""
        weights, choices = zip(*self.actions(), strict=True)
        self.random.choices(choices, weights)[0]()

    def silence_a_member(self) -> None:
        """Have a random member send no more heartbeats."""
        if self.present() and self.random.random() < 0.6:
            self.silent.append(self.somebody())

    def remove_silent_members(self) -> None:
        """Forget the silent members: their sessions have ended."""
        self.members = [member for member in self.members if member not in self.silent]
        self.silent = []

    def present(self) -> list[Any]:
        return [member for member in self.members if member not in self.silent]

    def somebody(self) -> Any:
        return self.random.choice(self.present())


class OwnersLife(Life):
    """A group whose members confirm what they own, and commit offsets; some are static.

    `requests` makes the requests of its members.
    """

    requests: Any
    has_statics: bool
    nothing: Any = {}
    """What a member owns at first."""
    count = 0

    def present(self) -> list[Any]:
        return [member for member in super().present() if not member.is_away]

    def beat_all(self) -> None:
        """Heartbeats of all members, most of which confirm the assignment they were given."""
        for member in self.present():
            if self.random.random() < 0.7:
                self.acknowledge(member)
            else:
                self.beat_quietly(member)

    def acknowledge(self, member: Any = None) -> None:
        member = member or self.somebody()
        member.owned = member.given
        self.beat(member, self.requests.beat(member, owned=member.owned))

    def beat_quietly(self, member: Any = None) -> None:
        member = member or self.somebody()
        self.beat(member, self.requests.beat(member))

    def beat_out_of_turn(self) -> None:
        member = self.somebody()
        epoch = member.epoch + self.random.choice((-1, -2, 1, 5))
        owned = self.random.choice((None, member.given, member.owned, self.nothing))
        if epoch > 0:
            self.beat(member, self.requests.beat(member, epoch=epoch, owned=owned))

    def commit(self) -> None:
        member = self.somebody()
        epoch = member.epoch + self.random.choice((0, 0, 0, -1, -2, 1, -99))
        self.pair.ask(
            self.requests.commit(
                member, epoch, self.random.choice(self.topics), self.random.choice((0, 1))
            ),
            self.random.choice((8, COMMIT, 10)),
        )

    def fetch(self) -> None:
        member = self.somebody()
        self.pair.ask(
            self.requests.fetch(
                member,
                member.epoch + self.random.choice((0, 0, 1, -1)),
                self.random.choice(self.topics),
            ),
            FETCH,
        )

    def instance(self) -> str | None:
        """The instance id of a new member, or None for a member that is not static."""
        if not self.has_statics or self.random.random() < 0.4:
            return None
        self.count += 1
        return f"instance-{self.count}"

    def beat(self, member: Any, request: Request, version: int = HEARTBEAT) -> bool:
        """Send a member's heartbeat; whether it was accepted."""
        response = self.pair.ask(request, version)
        member.take(response)
        return not response.error_code


class Topics:
    """The topics of groups, and how they change meanwhile: each group has its own four."""

    def __init__(self, both: BothBrokers):
        self.both = both
        self._prefixes: list[str] = []

    def create(self, prefix: str, group_ids: Sequence[str]) -> dict[str, Mapping[str, int]]:
        """Create the first topics; returns the partitions of all topics of each group."""
        self._prefixes = list(group_ids)
        counts = {name: count for name, count in _TOPICS.items() if name != _LATE_TOPIC}
        self.both.create_topics(
            {f"{id}-{name}": count for id in group_ids for name, count in counts.items()}
        )
        return {id: {f"{id}-{name}": count for name, count in _TOPICS.items()} for id in group_ids}

    def change(self) -> None:
        """Create a topic, and add partitions to another."""
        late = {f"{prefix}-{_LATE_TOPIC}": _TOPICS[_LATE_TOPIC] for prefix in self._prefixes}
        self.both.create_topics(late)
        self.both.grow_topics({f"{prefix}-b": 4 for prefix in self._prefixes})


class Lives:
    """Groups of one kind that live at once, in rounds; their topics change on the way.

    `life_of(seed, group_id, topics)` makes one.
    """

    def __init__(
        self,
        topics: Topics,
        life_of: Callable[[int, str, Mapping[str, int]], Life],
        *,
        kind: str,
        rounds: int = 12,
        at_round: Mapping[int, Callable[[list[str]], None]] | None = None,
    ):
        """`at_round` has what else happens after a round, to the groups that do not differ yet."""
        self._both = topics.both
        self._topics = topics
        self._life_of = life_of
        self._kind = kind
        self._rounds = rounds
        self._at_round = at_round or {}

    def assert_same(self, seeds: Iterable[int]) -> None:
        """Play a history per seed on both brokers: the same responses, and the same records.

        A history that differs is played once more: Kafka ends sessions by the clock and evaluates
        regular expressions in a thread of its own, so a busy machine may put a step on the other
        side of such a moment. A real difference shows again.
        """
        differences = self._differences_of_all(seeds, f"{self._kind}-life")
        if differences:
            print("\n\n".join(f"first, seed {seed}: {text}" for seed, text in differences.items()))
            differences = self._differences_of_all(differences, f"{self._kind}-again")
        assert not differences, "\n\n".join(
            f"seed {seed}: {text}" for seed, text in differences.items()
        )[:6000]

    def _differences_of_all(self, seeds: Iterable[int], prefix: str) -> dict[int, str]:
        """Play the histories of all seeds, some at once; the first difference of each, by seed."""
        ordered = sorted(seeds)
        differences: dict[int, str] = {}
        for start in range(0, len(ordered), _AT_ONCE):
            portion = ordered[start : start + _AT_ONCE]
            differences |= self._differences(portion, prefix)
            done = f"{start + len(portion)} of {len(ordered)} compared"
            print(f"{prefix}: {done}, {len(differences)} differ", flush=True)
        return differences

    def _differences(self, seeds: Sequence[int], prefix: str) -> dict[int, str]:
        """Play the history of one group per seed; the first difference of each, by seed."""
        both = self._both
        ids = {seed: f"{prefix}-{seed}" for seed in seeds}
        topics = self._topics.create(f"{prefix}-from-{seeds[0]}", list(ids.values()))
        lives = [self._life_of(seed, id, topics[id]) for seed, id in ids.items()]
        differences: dict[int, str] = {}
        for turn in range(self._rounds):
            _play(lives, differences, turn)
            if turn == self._rounds // 2:
                self._topics.change()
            if turn in self._at_round:
                self._at_round[turn]([life.group_id for life in lives])
            if turn in (3, 8):
                _lose_some(lives, differences, both)
        records = both.record_differences(life.group_id for life in lives)
        return {_seed(group_id): text for group_id, text in records.items()} | differences


def _play(lives: list[Life], differences: dict[int, str], turn: int) -> None:
    for life in list(lives):
        try:
            for _ in range(_STEPS):
                life.step()
            life.beat_all()
        except Difference as difference:
            differences[_seed(life.group_id)] = f"round {turn}: {difference}"
            lives.remove(life)


def _lose_some(lives: list[Life], differences: dict[int, str], both: BothBrokers) -> None:
    """Let the sessions of silent members, and of static members that are away, end."""
    for pause in range(2):
        for life in list(lives):
            try:
                life.beat_all()
                if not pause:
                    life.silence_a_member()
            except Difference as difference:
                differences[_seed(life.group_id)] = f"lost: {difference}"
                lives.remove(life)
        both.wait(SESSION_MS / 1000 * 0.57)
    for life in lives:
        life.remove_silent_members()


def _seed(group_id: str) -> int:
    return int(group_id.rpartition("-")[2])
