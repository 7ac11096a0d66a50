"""Subscriptions by regular expression: RE2 syntax, matched by the broker (KIP-848)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from wirekafka.errors import Error, KafkaError

_GROUP_NAME = re.compile(r"\(\?P?<(\w+)>")
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")

_KAFKA_TEXTS = {
    # Kafka uses the Java port of RE2, some of whose error texts differ.
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid character class range": "invalid character class range",
    "invalid character class": "invalid character class",
    "invalid escape sequence": "invalid escape sequence",
}


def check_regex(regex: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION with Kafka's text if it cannot be compiled."""
    reason = None
    names = _GROUP_NAME.findall(regex)
    try:
        _compiled(regex)
    except ValueError as error:
        reason = str(error)
    else:
        # The Java port supports none of these.
        if len(names) > len(set(names)):
            reason = "duplicate capture group name"
        elif _ANY_BYTE.search(regex):
            reason = "invalid escape sequence"
    if reason is not None:
        raise KafkaError(
            Error.INVALID_REGULAR_EXPRESSION,
            (f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."),
        )


def matching_topics(
    regexes: Iterable[str],
    names: Iterable[str],
    may_describe: Callable[[Iterable[str]], Iterable[str]],
) -> dict[str, frozenset[str]]:
    """Return the topics that each expression matches as a whole.

    Only topics that `may_describe` returns are included. An expression that cannot be compiled
    matches nothing: another broker may have accepted it.
    """
    names = list(names)
    matching: dict[str, set[str]] = {}
    for regex in regexes:
        try:
            matches = _compiled(regex).fullmatch
        except ValueError:
            matching[regex] = set()
        else:
            matching[regex] = {name for name in names if matches(name)}
    visible = set(may_describe(set().union(*matching.values())))
    return {regex: frozenset(topics & visible) for regex, topics in matching.items()}


@lru_cache(maxsize=256)
def _compiled(regex: str) -> Any:
    """Compile an expression. Raises ValueError with Kafka's text if it is not valid.

    The library takes 2 MiB of memory: it is imported when a group first has an expression.
    """
    import re2

    quiet = re2.Options()
    quiet.log_errors = False
    try:
        return re2.compile(regex, options=quiet)
    except re2.error as error:
        raise ValueError(_reason(error)) from None


def _reason(error: Exception) -> str:
    text = error.args[0]
    text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    for theirs, kafkas in _KAFKA_TEXTS.items():
        if text.startswith(theirs):
            return kafkas
    return text.partition(":")[0]
