"""Regular expressions of JSON schemas, evaluated in linear time.

RE2 lacks what some of them have: look-around and references to groups. A schema may have them all
the same; it is a value that cannot be checked against them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from wirekafka.regex import InvalidRegex, Regex, regex_of
from wirekafka.schemas.schema import SchemaError

MAX_CHECKED = 64
"""Patterns of one schema that are compiled when it is parsed: a pattern takes up to 30 ms."""

_CODE_UNIT = re.compile(r"(\\\\)|\\u([0-9A-Fa-f]{4})")

_NO_EXPRESSION = (
    "missing closing",
    "missing argument",
    "trailing backslash",
    "invalid character class range",
    "regexp/syntax",
)
"""How the reasons begin why a text is no expression in any language."""


def json_regex(pattern: str) -> Regex:
    """The expression of a pattern. Raises InvalidRegex."""
    return regex_of(_CODE_UNIT.sub(_as_re2, pattern))


def check_patterns(patterns: Iterable[str]) -> None:
    """Raise SchemaError for a pattern that is no regular expression in any language."""
    for pattern in islice(patterns, MAX_CHECKED):
        try:
            json_regex(pattern)
        except InvalidRegex as error:
            if str(error).startswith(_NO_EXPRESSION):
                raise SchemaError(f'invalid regular expression "{pattern}": {error}') from None


def _as_re2(found: re.Match[str]) -> str:
    return found[1] or f"\\x{{{found[2]}}}"
