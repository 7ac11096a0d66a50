"""Conditions on fields of decoded keys and values, as `value.customer.id = 17`.

A condition is a path, an operator and a literal; `and` joins several. A path begins with `key` or
`value` and has the names of fields, or the indexes of elements, after dots. Names and literals with
spaces, dots or operators are strings of JSON in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_CONDITIONS = 10
_LONGEST_TEXT = 2000
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r'[^\s".=<>!]+')
_OPERATOR = re.compile(r"\s*(<=|>=|!=|=|<|>|(?<=\s)contains(?=[\s\"]))\s*")
_BARE = re.compile(r"\S+")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?")
_ABSENT = object()


class BadCondition(ValueError):
    """A text that is no condition, with a message for the user."""


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """One comparison of a field with a literal."""

    is_key: bool
    steps: tuple[str, ...]
    operator: str
    text: str
    """The literal as it was written, or the content of its quotes."""
    literal: Any
    """The literal as a value of JSON; the text where it is no number, boolean or null."""

    def holds(self, decoded: Any) -> bool:
        """Whether the field of a decoded key or value is as the condition says.

        A field that is not there fulfils no condition, not even `!=`.
        """
        found = decoded
        for step in self.steps:
            found = _inside(found, step)
        if found is _ABSENT:
            return False
        return _OPERATORS[self.operator](self, found)


def conditions_of(text: str) -> Sequence[FieldCondition]:
    """The conditions of a text. Raises BadCondition."""
    if len(text) > _LONGEST_TEXT:
        raise BadCondition(f"a condition has at most {_LONGEST_TEXT} characters")
    text = text.strip()
    found: list[FieldCondition] = []
    at = 0
    while True:
        condition, at = _condition(text, at)
        found.append(condition)
        if at == len(text):
            return found
        joint = _AND.match(text, at)
        if joint is None:
            raise BadCondition(f"expected the end or `and`, not {text[at:].strip()!r}")
        if len(found) == MOST_CONDITIONS:
            raise BadCondition(f"a search has at most {MOST_CONDITIONS} conditions")
        at = joint.end()


def _condition(text: str, at: int) -> tuple[FieldCondition, int]:
    steps, at = _path(text, at)
    operator = _OPERATOR.match(text, at)
    if operator is None:
        operators = ", ".join(_OPERATORS)
        raise BadCondition(f"expected one of {operators} after {text[:at]!r}")
    at = operator.end()
    quoted = _STRING.match(text, at)
    bare = quoted or _BARE.match(text, at)
    if bare is None:
        raise BadCondition(f"expected a number, a text or a string in quotes after {text[:at]!r}")
    literal = _string(quoted[0]) if quoted else _literal(bare[0])
    written = literal if quoted else bare[0]
    return FieldCondition(steps[0] == "key", steps[1:], operator[1], written, literal), bare.end()


def _path(text: str, at: int) -> tuple[tuple[str, ...], int]:
    steps: list[str] = []
    while True:
        quoted = _STRING.match(text, at)
        name = quoted or _NAME.match(text, at)
        if name is None:
            raise BadCondition("begin with the path of a field, as value.customer.id = 17")
        steps.append(_string(name[0]) if quoted else name[0])
        at = name.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    if steps[0] not in ("key", "value"):
        raise BadCondition(f"a path begins with key or value, not {steps[0]!r}")
    return tuple(steps), at


def _string(quoted: str) -> str:
    try:
        text: str = json.loads(quoted)
    except ValueError:
        raise BadCondition(f"{quoted} is not a string of JSON") from None
    return text


def _literal(text: str) -> Any:
    if _NUMBER.fullmatch(text):
        return json.loads(text) if not _has_leading_zero(text) else text
    return {"true": True, "false": False, "null": None}.get(text, text)


def _has_leading_zero(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits[:1] == "0" and digits[1:2].isdigit()


def _inside(found: Any, step: str) -> Any:
    if isinstance(found, dict):
        return found.get(step, _ABSENT)
    if isinstance(found, list) and step.isascii() and step.isdigit() and len(step) < 10:
        return found[int(step)] if int(step) < len(found) else _ABSENT
    return _ABSENT


def _equals(condition: FieldCondition, found: Any) -> bool:
    if isinstance(found, str):
        return found == condition.text
    literal = condition.literal
    # In Python, True equals 1.
    return isinstance(found, bool) == isinstance(literal, bool) and bool(found == literal)


def _differs(condition: FieldCondition, found: Any) -> bool:
    return not _equals(condition, found)


def _contains(condition: FieldCondition, found: Any) -> bool:
    match found:
        case str():
            return condition.text in found
        case dict():
            return condition.text in found
        case list():
            return any(_equals(condition, each) for each in found)
        case _:
            return False


def _ordered(is_so: Callable[[Any, Any], bool]) -> Callable[[FieldCondition, Any], bool]:
    def compare(condition: FieldCondition, found: Any) -> bool:
        literal = condition.literal
        if _is_number(literal):
            number = _number_of(found)
            return number is not None and is_so(number, literal)
        return isinstance(literal, str) and isinstance(found, str) and is_so(found, literal)

    return compare


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_of(found: Any) -> float | None:
    """A number, or a string of digits: Protobuf's JSON has integers of 64 bits as strings."""
    if _is_number(found):
        number: float = found
        return number
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        return float(found) if set(found) & set(".eE") else int(found)
    return None


_OPERATORS: Mapping[str, Callable[[FieldCondition, Any], bool]] = {
    "=": _equals,
    "!=": _differs,
    "<": _ordered(lambda found, literal: bool(found < literal)),
    "<=": _ordered(lambda found, literal: bool(found <= literal)),
    ">": _ordered(lambda found, literal: bool(found > literal)),
    ">=": _ordered(lambda found, literal: bool(found >= literal)),
    "contains": _contains,
}
