"""Fault rules: the requests that a rule matches, its effect on them, and its counters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from wirekafka.apis.shared import routes
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.testing.hooks import subjects
from wirekafka.testing.hooks.subjects import NameOf, Subjects
from wirekafka.testing.settings import unknown


class RuleKind(Enum):
    """The effects of a rule on a request."""

    FAIL = "fail"
    DELAY = "delay"
    DROP = "drop"
    HOLD = "hold"
    THROTTLE = "throttle"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A rule as a test wrote it. A value of None matches anything.

    `applied`: the request takes effect before the fault; otherwise it never reaches the broker.
    """

    kind: RuleKind
    apis: tuple[str, ...]
    error: Error = Error.NONE
    seconds: float = 0.0
    applied: bool = False
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    nth: int | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    when: Callable[[Any], bool] | None = None

    @property
    def names_partitions(self) -> bool:
        """Whether the rule is limited to some topics or partitions."""
        return self.topic is not None or self.partition is not None

    def chooses(self, topic: str, partition: int | None) -> bool:
        """Whether the rule applies to that partition (None: to the topic as a whole)."""
        if self.topic not in (None, topic):
            return False
        return self.partition is None or partition is None or partition == self.partition

    def __str__(self) -> str:
        parts = [", ".join(self.apis)]
        if self.kind is RuleKind.FAIL:
            parts.append(self.error.name)
        for name in (
            "topic",
            "partition",
            "client_id",
            "group",
            "transactional_id",
            "nth",
            "times",
        ):
            if getattr(self, name) is not None:
                parts.append(f"{name}={getattr(self, name)!r}")
        return f"{self.kind.value}({', '.join(parts)})"


class LiveRule:
    """A rule in force, with its counters; used on the broker's event loop only."""

    def __init__(self, spec: RuleSpec):
        self.spec = spec
        self.hits = 0
        self.seen = 0
        self.mistake: str | None = None
        """The error that `when` raised, as text."""
        # Which requests fail must be repeatable.
        self._random = Random(spec.seed)  # noqa: S311
        self._is_released = False
        self._held: set[asyncio.Future[None]] = set()

    def takes(self, named: Subjects, request: Request, client_id: str | None) -> bool:
        """Whether the rule acts on this request; updates the counters."""
        spec = self.spec
        if not (
            spec.client_id in (None, client_id)
            and (spec.group is None or spec.group in named.groups)
            and (spec.transactional_id is None or spec.transactional_id in named.transactional_ids)
            and self._is_about(named, request)
            and self._is_when(request)
        ):
            return False
        self.seen += 1
        if spec.nth is not None and self.seen != spec.nth:
            return False
        if spec.times is not None and self.hits >= spec.times:
            return False
        if spec.probability < 1.0 and self._random.random() >= spec.probability:
            return False
        self.hits += 1
        return True

    @property
    def waiting(self) -> int:
        """How many requests are held or delayed at present."""
        return len(self._held)

    async def released(self, within_s: float | None = None) -> None:
        """Wait until `release`, but no longer than `within_s` seconds."""
        if self._is_released:
            return
        loop = asyncio.get_running_loop()
        held = loop.create_future()
        # asyncio.wait_for demands a task, in which requests are not served.
        timer = None if within_s is None else loop.call_later(within_s, _resume, held)
        self._held.add(held)
        try:
            await held
        finally:
            self._held.discard(held)
            if timer is not None:
                timer.cancel()

    def release(self) -> None:
        """Let waiting requests continue, and hold no further requests."""
        self._is_released = True
        for held in self._held:
            _resume(held)

    def _is_when(self, request: Request) -> bool:
        if self.spec.when is None:
            return True
        try:
            return bool(self.spec.when(request))
        except Exception as error:
            # Reported to the author of the rule; the client is not affected.
            self.mistake = f"its when= failed: {type(error).__name__}: {error}"
            return False

    def _is_about(self, named: Subjects, request: Request) -> bool:
        spec = self.spec
        if not spec.names_partitions or named.has_topic(spec.topic, spec.partition):
            return True
        # No topics named means all of them.
        return type(request).key == 3 and not named.partitions


class RuleBook:
    """The rules in force, by API."""

    def __init__(self) -> None:
        self.by_api: dict[str, list[LiveRule]] = {}
        self._rules: dict[int, LiveRule] = {}
        # Numbers differ between processes, so that a restarted one does not mistake an old rule.
        self._serial = os.getpid() << 20

    def add(self, spec: RuleSpec) -> int:
        """Put a rule in force; returns its number."""
        self._serial += 1
        rule = self._rules[self._serial] = LiveRule(spec)
        self.adopt(rule)
        return self._serial

    def adopt(self, rule: LiveRule) -> None:
        """Put a rule in force here as well, which another book has numbered."""
        for api in rule.spec.apis:
            # A new list, because a request may be iterating over the old one.
            self.by_api[api] = [*self.by_api.get(api, ()), rule]

    def remove(self, number: int) -> None:
        """Take a rule out of force and release the requests it holds."""
        rule = self._rules[number]
        self.disown(rule)
        rule.release()

    def disown(self, rule: LiveRule) -> None:
        """Take a rule out of force here, but not in other books."""
        for api in rule.spec.apis:
            left = [each for each in self.by_api.get(api, ()) if each is not rule]
            if left:
                self.by_api[api] = left
            else:
                self.by_api.pop(api, None)

    @property
    def is_about_fetched_partitions(self) -> bool:
        """Whether a rule for Fetch names partitions or fails them."""
        return any(
            rule.spec.names_partitions or rule.spec.kind is RuleKind.FAIL
            for rule in self.by_api.get("Fetch", ())
        )

    def rule(self, number: int) -> LiveRule:
        """The rule with this number, in force or not."""
        return self._rules[number]

    def clear(self) -> None:
        """Take all rules out of force, also rules that another book has numbered."""
        for number in list(self._rules):
            self.remove(number)
        self.by_api.clear()

    def matching(
        self, request: Request, name: str, client_id: str | None, name_of: NameOf
    ) -> list[LiveRule]:
        """The rules that act on a request, oldest first."""
        rules = self.by_api.get(name)
        if not rules:
            return []
        named = subjects.subjects_of(request, name_of)
        return [rule for rule in rules if rule.takes(named, request, client_id)]


def api_names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Kafka's names of APIs, "*" being all. Raises ValueError for an API that is not served."""
    known = [each.name for each in routes.BROKERS.served()]
    names = []
    if not isinstance(given, str | Iterable):
        raise TypeError(f"{given!r} is no API: write its name, such as 'Produce', or '*' for all")
    for name in [given] if isinstance(given, str) else given:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no API: write its name, such as 'Produce'")
        if name == "*":
            return tuple(known)
        found = {each.lower(): each for each in known}.get(name.replace("_", "").lower())
        if found is None:
            raise ValueError(unknown("API", name, known))
        names.append(found)
    if not names:
        raise ValueError("a rule needs an API, such as 'Produce', or '*' for all")
    return tuple(names)


def check(spec: RuleSpec) -> None:
    """Raise ValueError, with a proposal, for a rule that can never match.

    Raises TypeError for a value of the wrong type.
    """
    _check_types(spec)
    if spec.nth is not None and spec.nth < 1:
        raise ValueError(f"nth={spec.nth} never comes: the first request is nth=1")
    if spec.times is not None and spec.times < 1:
        raise ValueError(f"times={spec.times} means never: leave it out for always")
    if not 0.0 < spec.probability <= 1.0:
        raise ValueError(f"probability={spec.probability} must be above 0, and at most 1")
    if spec.seconds < 0:
        raise ValueError(f"seconds={spec.seconds} must not be negative")
    if spec.partition is not None and spec.partition < 0:
        raise ValueError(f"partition={spec.partition}: partitions are numbered from 0")
    if spec.kind is RuleKind.THROTTLE:
        _check_any(
            spec,
            lambda kind, response: "throttle_time_ms" in subjects.fields_of(response),
            "its answer has no throttle time",
        )
    needs = (
        ("topic", spec.topic, subjects.names_topics),
        ("partition", spec.partition, subjects.names_partitions),
        ("group", spec.group, subjects.names_groups),
        ("transactional_id", spec.transactional_id, subjects.names_transactions),
    )
    for name, value, can in needs:
        if value is not None:
            _check_any(
                spec,
                lambda request, _, can=can: can(request),
                f"it names no {name}; leave out {name}={value!r}",
            )


def _check_types(spec: RuleSpec) -> None:
    for name in ("topic", "client_id", "group", "transactional_id"):
        value = getattr(spec, name)
        if not isinstance(value, str | None):
            raise TypeError(f"{name}={value!r} must be one name; make a rule for each")
    for name in ("partition", "nth", "times", "seed"):
        value = getattr(spec, name)
        if not isinstance(value, int | None):
            raise TypeError(f"{name}={value!r} must be a whole number")
    for name in ("seconds", "probability"):
        value = getattr(spec, name)
        if not isinstance(value, int | float):
            raise TypeError(f"{name}={value!r} must be a number, such as 0.5")
    if not (spec.when is None or callable(spec.when)):
        raise TypeError(
            f"when={spec.when!r} must be a function of the request, such as"
            " lambda request: request.acks == -1"
        )


def _check_any(spec: RuleSpec, can: Callable[..., bool], reason: str) -> None:
    served = {each.name: each for each in routes.BROKERS.served()}
    if not any(can(served[api].request, served[api].response) for api in spec.apis):
        raise ValueError(f"a rule for {', '.join(spec.apis[:3])} can never match: {reason}")


def _resume(held: asyncio.Future[None]) -> None:
    if not held.done():
        held.set_result(None)
