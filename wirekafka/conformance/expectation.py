"""What Apache Kafka answers: made from several runs, and compared with another broker's answers.

Runs that differ leave open what differs: the expected value is then ANYTHING or a choice of few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from wirekafka.conformance.plain import Plain

ANYTHING = "*"
"""Instead of a value: Apache Kafka answers it differently from run to run."""
_CHOICE = "one of"
"""The only key of an object whose value lists the answers that Apache Kafka has given."""
_MOST_CHOICES = 3
_MESSAGES = ("error_message", "status_detail", "failure_reason")
"""The ends of names of fields with text for people, whose words are compared only on demand."""
_FAILURE = "UNKNOWN_SERVER_ERROR"
ABSENT = "the default"
"""Instead of a field that is left out, as its value is the default of the schema."""

Answers: TypeAlias = dict[str, Plain]
"""What a case has shown, by step, in the order of the steps."""


class Deviation(NamedTuple):
    """A place at which answers differ."""

    path: str
    expected: Plain
    got: Plain

    def __str__(self) -> str:
        return f"{self.path}: expected {said(self.expected)}, got {said(self.got)}"


def merged(first: Plain, second: Plain) -> Plain:
    """What both runs allow, where `first` may be merged already."""
    if first in (second, ANYTHING):
        return first
    if isinstance(first, dict) and isinstance(second, dict) and not is_choice(first):
        if first.keys() == second.keys():
            return {key: merged(value, second[key]) for key, value in first.items()}
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [merged(one, other) for one, other in zip(first, second, strict=True)]
    choices = _choices(first)
    for each in _choices(second):
        if each not in choices:
            choices.append(each)
    return {_CHOICE: choices} if len(choices) <= _MOST_CHOICES else ANYTHING


def differences(
    expected: Plain, got: Plain, path: str = "", *, with_messages: bool = False
) -> Iterator[Deviation]:
    """Where an answer is not as expected.

    Without `with_messages`, words for people and numbers beside an error may be any.
    """
    if expected in (got, ANYTHING):
        return
    if is_choice(expected):
        if any(not list(differences(each, got, path)) for each in _choices(expected)):
            return
        yield Deviation(path, expected, got)
    elif isinstance(expected, dict) and isinstance(got, dict):
        for key in {**expected, **got}:
            here = f"{path}.{key}" if path else key
            one, other = expected.get(key, ABSENT), got.get(key, ABSENT)
            if not with_messages and _is_unread(key, one, other, expected, got):
                continue
            yield from differences(one, other, here, with_messages=with_messages)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for number, pair in enumerate(zip(expected, got, strict=True)):
            yield from differences(*pair, f"{path}[{number}]", with_messages=with_messages)
    else:
        yield Deviation(path, expected, got)


def _is_unread(
    key: str, one: Plain, other: Plain, expected: dict[str, Plain], got: dict[str, Plain]
) -> bool:
    """Whether clients do not look at a field of these parts, or only after another difference.

    They ignore text for people, and numbers beside an error. Where only one broker has an error,
    the rest differs as a matter of course. An unknown error is Kafka's own failure: any will do.
    """
    if key.endswith(_MESSAGES):
        return True
    errors = expected.get("error_code"), got.get("error_code")
    if key == "error_code":
        return one == _FAILURE and other != ABSENT
    if (errors[0] is None) != (errors[1] is None):
        return True
    are_numbers = all(each == ABSENT or type(each) is int for each in (one, other))
    return errors[0] is not None and are_numbers


def is_choice(value: Plain) -> bool:
    """Whether an expectation lists answers, any of which Apache Kafka gives."""
    return isinstance(value, dict) and list(value) == [_CHOICE]


def _choices(value: Plain) -> list[Plain]:
    if isinstance(value, dict) and is_choice(value):
        listed = value[_CHOICE]
        assert isinstance(listed, list)
        return list(listed)
    return [value]


def said(value: Plain) -> str:
    """An expectation or an answer on one line."""
    if isinstance(value, dict) and is_choice(value):
        return " or ".join(map(said, _choices(value)))
    return ABSENT if value == ABSENT else compact(value)


def compact(value: Plain) -> str:
    """Plain data on one line, as people read it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{key}: {compact(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(compact, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def joined(runs: Sequence[Answers]) -> Plain:
    """The expectation of several runs of one case."""
    whole: Plain = runs[0]
    for each in runs[1:]:
        whole = merged(whole, each)
    return whole
