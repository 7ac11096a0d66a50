"""The faults that a test can have a broker commit, as methods of `Broker`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack
from weakref import WeakSet

from wirekafka.errors import Error, KafkaError
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
    """A rule in force until its `with` ends or `remove` is called.

    RuntimeError, when it is counted or ends, tells that its `when` raised.
    """

    def __init__(self, faults: Faults, number: int, spec: RuleSpec, required: bool):
        self._faults = faults
        self._number = number
        self._spec = spec
        self._required = required
        self._hits_at_end: int | None = None
        self._hits = 0
        self._mistake: str | None = None
        faults._rules.add(self)

    @property
    def hits(self) -> int:
        """How many requests it acted on."""
        if self._hits_at_end is not None:
            self._tell_mistake()
            return self._hits_at_end
        self._look(self._faults._engine)
        self._tell_mistake()
        return self._hits

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
            with suppress(EngineGone, KeyError):  # It ended with the broker's process.
                self._end(self._faults._engine)
            self._hits_at_end = self._hits
            self._tell_mistake()

    def __enter__(self) -> Self:
        if self._hits_at_end is not None:
            raise RuntimeError(f"{self} has ended: make it anew")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        with suppress(RuntimeError) if kind is not None else nullcontext():
            self.remove()
        if self._required and kind is None and not self._hits_at_end:
            raise AssertionError(
                f"{self} acted on nothing; the broker saw:\n{self._faults._traffic_text()}")

    def _end(self, engine: Engine) -> None:
        if self._hits_at_end is None:
            self._look(engine)
            engine.remove_rule(self._number)
            self._hits_at_end = self._hits

    def _look(self, engine: Engine) -> None:
        self._hits = engine.rule_counts(self._number)[0]
        self._mistake = engine.rule_mistake(self._number)

    def _tell_mistake(self) -> None:
        if self._mistake is not None:
            raise RuntimeError(f"{self}: {self._mistake}")

    def __repr__(self) -> str:
        return str(self._spec)


class State:
    """What a broker is kept in until the `with` ends or `remove` is called."""

    def __init__(self, name: str, begin: Callable[[], None], end: Callable[[], None]):
        begin()
        self._name = name
        self._end: Callable[[], None] | None = end

    def remove(self) -> None:
        """End it. A second time does nothing."""
        end, self._end = self._end, None
        if end is not None:
            with suppress(EngineGone):  # It ended with the broker.
                end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return self._name


class Faults:
    """What can be made to go wrong. APIs have Kafka's names ("Produce", "OffsetCommit"; "*" is
    all), errors too ("NOT_LEADER_OR_FOLLOWER", or `wirekafka.errors.Error`).

    `applied=True`: the request takes effect first, and the client does not learn of it.
    ValueError for an unknown name and for a rule that can never match, TypeError for an unknown
    keyword.
    """

    _engine: Engine
    _rules: WeakSet[Rule]

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

    def refuse_connections(self) -> State:
        """Cut every connection and have nobody connect; the broker's timers go on."""
        engine = self._engine
        return State("refuse_connections", engine.refuse_connections, engine.accept_connections)

    def drop_connections(self) -> None:
        """Cut every connection once; clients may connect again."""
        self._engine.cut_connections()

    def disk_full(self) -> State:
        """Have no record appended for want of space."""
        return State("disk_full", self._engine.fill_disk, self._engine.empty_disk)

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None,
                         seconds: float = 0.0) -> None:
        """Have the coordinator go away and come back, as from another broker, after `seconds`.

        It is NOT_COORDINATOR meanwhile; whoever waits is told so. Then it loads its log anew.
        LookupError when it has not been asked for yet.
        """
        if (group is None) == (transactional_id is None):
            raise ValueError("name one: group=... or transactional_id=...")
        kind = "group" if group is not None else "transaction"
        key = group or transactional_id or ""
        try:
            self._engine.move_coordinator(kind, key, seconds)
        except KafkaError:
            raise LookupError(f"nobody has looked for the coordinator of {kind} {key!r} yet: have"
                              " a client join or start first") from None

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
        """Do as another producer of that id that starts: the one there is gets PRODUCER_FENCED.

        LookupError when none of that id has started.
        """
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

    def _end_rules(self, engine: Engine) -> None:
        """Take what they counted: it can be asked for when the broker has stopped."""
        for rule in list(self._rules):
            with suppress(EngineGone, KeyError):
                rule._end(engine)

    def _traffic_text(self) -> str:
        raise NotImplementedError
