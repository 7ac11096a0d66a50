"""Subscriptions by regular expression: RE2 syntax, matched by the broker (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wirekafka.coordinator.groups.steps import Steps
from wirekafka.errors import Error, KafkaError
from wirekafka.regex import InvalidRegex, regex_of

_WORK_PER_STEP = 1_000
"""Instructions of a program times bytes of a name between two places where matching may pause."""


def check_regex(regex: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION with Kafka's text if it cannot be compiled."""
    try:
        regex_of(regex)
    except InvalidRegex as error:
        raise KafkaError(
            Error.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


def matching_topics(
    regexes: Iterable[str],
    names: Iterable[str],
    may_describe: Callable[[Iterable[str]], Iterable[str]],
) -> Steps[dict[str, frozenset[str]]]:
    """Return the topics that each expression matches as a whole, in steps.

    Only topics that `may_describe` returns are included. An expression that cannot be compiled
    matches nothing: another broker may have accepted it.
    """
    names = list(names)
    matching: dict[str, set[str]] = {}
    for regex in regexes:
        try:
            compiled = regex_of(regex)
        except InvalidRegex:
            matching[regex] = set()
            continue
        found = matching[regex] = set()
        work = 0
        for name in names:
            if compiled.matches(name):
                found.add(name)
            work += compiled.program_size * len(name)
            while work > _WORK_PER_STEP:
                work -= _WORK_PER_STEP
                yield
        yield
    visible = set(may_describe(set().union(*matching.values())))
    return {regex: frozenset(topics & visible) for regex, topics in matching.items()}
