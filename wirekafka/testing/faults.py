"""The faults that a test can have a broker commit, as methods of `Broker`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from wirekafka.errors import Error
from wirekafka.testing import admin
from wirekafka.testing.engine import Engine, EngineGone
from wirekafka.testing.rules import Kind, RuleSpec, api_names, check
from wirekafka.testing.settings import named_error, unknown


class Match(TypedDict, total=False):
    """Which requests a rule is for; all of them where nothing is said."""

    topic: str
    partition: int
    client_id: str
    group: str
    transactional_id: str
    nth: int
    """Only the nth of those that match, from 1."""
    times: int
    """Only so many of those that match, then no more."""
    probability: float
    """Each with that probability, above 0 and at most 1; the same ones for the same `seed`."""
    seed: int
    when: Callable[[Any], bool]
    """Asked with the decoded request, in the broker's thread."""
    required: bool
    """Leaving the `with` without a hit is an AssertionError."""


class Rule:
    """A rule in force until its `with` ends or `remove` is called."""

    def __init__(self, faults: Faults, number: int, spec: RuleSpec, required: bool):
        self._faults = faults
        self._number = number
        self._spec = spec
        self._required = required
        self._hits_at_end: int | None = None

    @property
    def hits(self) -> int:
        """How many requests it acted on."""
        if self._hits_at_end is not None:
            return self._hits_at_end
        return self._faults._engine.rule_counts(self._number)[0]

    @property
    def waiting(self) -> int:
        """How many requests it holds now."""
        if self._hits_at_end is not None:
            return 0
        return self._faults._engine.rule_counts(self._number)[1]

    def release(self) -> None:
        """Let go what `hold` holds, and hold no more."""
        self._faults._engine.release(self._number)

    def remove(self) -> None:
        """End it, releasing what it holds. A second time does nothing."""
        if self._hits_at_end is None:
            try:
                hits = self.hits
                self._faults._engine.remove_rule(self._number)
            except EngineGone:
                hits = 0  # Rules end with the broker.
            self._hits_at_end = hits

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.remove()
        if self._required and kind is None and not self._hits_at_end:
            raise AssertionError(
                f"{self} acted on nothing; the broker saw:\n{self._faults._traffic_text()}")

    def __repr__(self) -> str:
        return str(self._spec)


class Faults:
    """What can be made to go wrong. APIs have Kafka's names ("Produce", "OffsetCommit"; "*" is
    all), errors too ("NOT_LEADER_OR_FOLLOWER", or `wirekafka.errors.Error`).

    `applied=True`: the request takes effect first, and the client does not learn of it.
    ValueError for an unknown name and for a rule that can never match, TypeError for an unknown
    keyword.
    """

    _engine: Engine

    def fail(self, api: str | Iterable[str], error: Error | str, *, applied: bool = False,
             **match: Unpack[Match]) -> Rule:
        """Answer with an error. With `topic` or `partition` only those fail."""
        return self._rule(Kind.FAIL, api, match, error=named_error(error), applied=applied)

    def delay(self, api: str | Iterable[str], seconds: float, *, applied: bool = False,
              **match: Unpack[Match]) -> Rule:
        """Answer later, by the machine's clock."""
        return self._rule(Kind.DELAY, api, match, seconds=seconds, applied=applied)

    def drop(self, api: str | Iterable[str], *, applied: bool = False,
             **match: Unpack[Match]) -> Rule:
        """Close the connection instead of answering."""
        return self._rule(Kind.DROP, api, match, applied=applied)

    def hold(self, api: str | Iterable[str], *, applied: bool = False,
             **match: Unpack[Match]) -> Rule:
        """Answer not before `Rule.release`."""
        return self._rule(Kind.HOLD, api, match, applied=applied)

    def throttle(self, api: str | Iterable[str], seconds: float, **match: Unpack[Match]) -> Rule:
        """Tell the client that it is over its quota, and serve its connection no sooner."""
        return self._rule(Kind.THROTTLE, api, match, seconds=seconds)

    @contextmanager
    def refuse_connections(self) -> Iterator[None]:
        """Cut every connection and have nobody connect; the broker's timers go on."""
        self._engine.refuse_connections()
        try:
            yield
        finally:
            self._engine.accept_connections()

    def drop_connections(self) -> None:
        """Cut every connection once; clients may connect again."""
        self._engine.cut_connections()

    @contextmanager
    def disk_full(self) -> Iterator[None]:
        """Have no record appended for want of space."""
        self._engine.fill_disk()
        try:
            yield
        finally:
            self._engine.empty_disk()

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None,
                         seconds: float = 0.0) -> None:
        """Have the coordinator go away and come back, as from another broker, after `seconds`.

        It is NOT_COORDINATOR meanwhile; whoever waits is told so. Then it loads its log anew.
        """
        if (group is None) == (transactional_id is None):
            raise ValueError("name one: group=... or transactional_id=...")
        kind = "group" if group is not None else "transaction"
        self._engine.move_coordinator(kind, group or transactional_id or "", seconds)

    def expire_member(self, group: str, *, client_id: str | None = None,
                      member_id: str | None = None) -> None:
        """Have a group's member (None: each) time out: the group rebalances without it.

        LookupError when there is no such member.
        """
        members = [member for each in admin.groups(self._engine) if each.id == group
                   for member in each.members if client_id in (None, member.client_id)
                   and member_id in (None, member.id)]
        if not members:
            raise LookupError(
                f"group {group!r} has no such member; there are: {admin.groups(self._engine)}")
        for member in members:
            admin.remove_member(self._engine, group, member.id)

    def fence_producer(self, transactional_id: str) -> None:
        """Do as another producer of that id that starts: the one there is gets PRODUCER_FENCED."""
        admin.fence(self._engine, transactional_id)

    def _rule(self, kind: Kind, api: str | Iterable[str], match: Match, **values: Any) -> Rule:
        words: dict[str, Any] = dict(match)
        for word in words:
            if word not in Match.__annotations__:
                raise TypeError(unknown("keyword", word, Match.__annotations__))
        required = bool(words.pop("required", False))
        spec = RuleSpec(kind=kind, apis=api_names(api), **values, **words)
        check(spec)
        return Rule(self, self._engine.add_rule(spec), spec, required)

    def _traffic_text(self) -> str:
        raise NotImplementedError
