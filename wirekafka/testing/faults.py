"""The faults that a test can inject into a broker, as methods of `Broker`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack
from weakref import WeakSet

from wirekafka.errors import KafkaError
from wirekafka.testing import admin, groups, share_locks
from wirekafka.testing.engine import Engine
from wirekafka.testing.hooks.names import AnyError, Apis
from wirekafka.testing.hooks.rules import RuleKind, RuleSpec, api_names, check
from wirekafka.testing.loop_thread import EngineGone
from wirekafka.testing.settings import named_error, unknown


class Match(TypedDict, total=False):
    """Which requests a rule applies to; without any of these, all requests of its APIs."""

    topic: str
    partition: int
    client_id: str
    group: str
    transactional_id: str
    nth: int
    """Only the nth matching request, from 1."""
    times: int
    """Only the first so many matching requests."""
    probability: float
    """Each matching request with this probability, above 0 and at most 1, decided by `seed`."""
    seed: int
    when: Callable[[Any], bool]
    """A predicate of the decoded request, called in the broker's thread."""
    required: bool
    """Raise AssertionError at the end of the `with` if the rule acted on no request."""


class Rule:
    """A fault rule, in force until its `with` ends or `remove` is called.

    `hits` and `remove` raise RuntimeError if the rule's `when` has raised.
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
        """How many requests the rule acted on."""
        if self._hits_at_end is not None:
            self._raise_mistake()
            return self._hits_at_end
        self._update(self._faults._engine)
        self._raise_mistake()
        return self._hits

    @property
    def waiting(self) -> int:
        """How many requests the rule holds now."""
        if self._hits_at_end is not None:
            return 0
        return self._faults._engine.rule_counts(self._number)[1]

    def release(self) -> None:
        """Let all held requests continue, and hold no further requests."""
        self._faults._engine.release(self._number)

    def remove(self) -> None:
        """End the rule and release the requests it holds. A second call does nothing."""
        if self._hits_at_end is None:
            with suppress(EngineGone, KeyError):  # It ended with the broker's process.
                self._end(self._faults._engine)
            self._hits_at_end = self._hits
            self._raise_mistake()

    def __enter__(self) -> Self:
        if self._hits_at_end is not None:
            raise RuntimeError(f"{self} has ended: create a new one")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(RuntimeError) if kind is not None else nullcontext():
            self.remove()
        __tracebackhide__ = True  # The `with` in the test has failed.
        if self._required and kind is None and not self._hits_at_end:
            raise AssertionError(
                f"{self} acted on nothing; the broker saw:\n{self._faults._traffic_text()}"
            )

    def _end(self, engine: Engine) -> None:
        if self._hits_at_end is None:
            self._update(engine)
            engine.remove_rule(self._number)
            self._hits_at_end = self._hits

    def _update(self, engine: Engine) -> None:
        self._hits = engine.rule_counts(self._number)[0]
        self._mistake = engine.rule_mistake(self._number)

    def _raise_mistake(self) -> None:
        if self._mistake is not None:
            raise RuntimeError(f"{self}: {self._mistake}")

    def __repr__(self) -> str:
        return str(self._spec)


class State:
    """A lasting fault, such as a full disk, until its `with` ends or `remove` is called."""

    def __init__(self, name: str, begin: Callable[[], None], end: Callable[[], None]):
        begin()
        self._name = name
        self._end: Callable[[], None] | None = end

    def remove(self) -> None:
        """End the fault. A second call does nothing."""
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


class Faults(ABC):
    """The fault injection methods of a broker.

    APIs have Kafka's names ("Produce", "OffsetCommit"; "*" is all), and so have errors
    ("NOT_LEADER_OR_FOLLOWER", or `wirekafka.errors.Error`). With `applied=True` the request takes
    effect before the fault hides its response. Raises ValueError for an unknown name and for a
    rule that can never match, TypeError for an unknown keyword.
    """

    _engine: Engine
    _rules: WeakSet[Rule]

    def fail(
        self, api: Apis, error: AnyError, *, applied: bool = False, **match: Unpack[Match]
    ) -> Rule:
        """Respond with an error; with `topic` or `partition`, for these only."""
        return self._rule(RuleKind.FAIL, api, match, error=named_error(error), applied=applied)

    def delay(
        self, api: Apis, seconds: float, *, applied: bool = False, **match: Unpack[Match]
    ) -> Rule:
        """Delay responses by `seconds` of the machine's clock."""
        return self._rule(RuleKind.DELAY, api, match, seconds=seconds, applied=applied)

    def drop(self, api: Apis, *, applied: bool = False, **match: Unpack[Match]) -> Rule:
        """Close the connection instead of responding."""
        return self._rule(RuleKind.DROP, api, match, applied=applied)

    def hold(self, api: Apis, *, applied: bool = False, **match: Unpack[Match]) -> Rule:
        """Hold requests until `Rule.release`."""
        return self._rule(RuleKind.HOLD, api, match, applied=applied)

    def throttle(self, api: Apis, seconds: float, **match: Unpack[Match]) -> Rule:
        """Report a throttle time to the client and mute its connection for that time (KIP-219)."""
        return self._rule(RuleKind.THROTTLE, api, match, seconds=seconds)

    def refuse_connections(self) -> State:
        """Close every connection and refuse new ones; the broker's timers keep running."""
        engine = self._engine
        return State("refuse_connections", engine.refuse_connections, engine.accept_connections)

    def drop_connections(self) -> None:
        """Close every connection once; clients may reconnect."""
        self._engine.cut_connections()

    def disk_full(self) -> State:
        """Make every append of records fail as on a full disk."""
        return State("disk_full", self._engine.fill_disk, self._engine.empty_disk)

    def move_coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None, seconds: float = 0.0
    ) -> None:
        """Resign as coordinator of a group or transactional id, and take it over after `seconds`.

        In between, its requests, waiting ones included, get NOT_COORDINATOR; then the partition
        is loaded from its log. Raises LookupError if no client has looked for it yet.
        """
        if (group is None) == (transactional_id is None):
            raise ValueError("name one: group=... or transactional_id=...")
        kind = "group" if group is not None else "transaction"
        key = group or transactional_id or ""
        try:
            self._engine.move_coordinator(kind, key, seconds)
        except KafkaError:
            raise LookupError(
                f"nobody has looked for the coordinator of {kind} {key!r} yet: have"
                " a client join or start first"
            ) from None

    def expire_member(
        self, group: str, *, client_id: str | None = None, member_id: str | None = None
    ) -> None:
        """Remove members from a group as if their sessions timed out; the group rebalances.

        Without `client_id` and `member_id`, all members. Raises LookupError if none matches.
        """
        groups.remove_members(
            self._engine,
            group,
            lambda member: client_id in (None, member.client_id) and member_id in (None, member.id),
        )

    def expire_locks(
        self, group: str, *, topic: str | None = None, partition: int | None = None
    ) -> None:
        """End the acquisition locks of a share group, as if their duration had passed.

        Its records are delivered again, up to the limit of deliveries. Raises LookupError if no
        record is locked.
        """
        expired = [
            member.on_broker(share_locks.expire, group, topic, partition)
            for member in self._engine.members()
        ]
        if not any(expired):
            raise LookupError(f"share group {group!r} has no such record locked")

    def hold_assignment(self, group: str) -> State:
        """Compute no new assignment for a group: its members keep their partitions until the end.

        Members still join, leave and send heartbeats. When the hold ends, the next heartbeat
        computes the assignment for all members. For groups whose partitions the broker assigns,
        also before their first member joins; for a classic group hold "SyncGroup".
        """
        engine = self._engine
        return State(
            f"hold_assignment of {group}",
            partial(engine.hold_assignment, group),
            partial(engine.release_assignment, group),
        )

    def fence_producer(self, transactional_id: str) -> None:
        """Fence a producer as a new producer with its id does: its requests get PRODUCER_FENCED.

        Raises LookupError if no producer with that id has started.
        """
        admin.fence(self._engine, transactional_id)

    def _rule(self, kind: RuleKind, api: Apis, match: Match, **values: Any) -> Rule:
        words: dict[str, Any] = dict(match)
        for word in words:
            if word not in Match.__annotations__:
                raise TypeError(unknown("keyword", word, Match.__annotations__))
        required = bool(words.pop("required", False))
        spec = RuleSpec(kind=kind, apis=api_names(api), **values, **words)
        check(spec)
        return Rule(self, self._engine.add_rule(spec), spec, required)

    def _end_rules(self, engine: Engine) -> None:
        """End all rules and keep their hits, which remain readable after the broker has stopped."""
        for rule in list(self._rules):
            with suppress(EngineGone, KeyError):
                rule._end(engine)

    @abstractmethod
    def _traffic_text(self) -> str:
        """The recorded requests, for messages."""
