"""`ssl.principal.mapping.rules`: user names from the names in client certificates (KIP-371).

Rules are separated by commas. `DEFAULT` takes the distinguished name as it is;
`RULE:pattern/replacement/`, perhaps followed by `L` or `U` for lower or upper case, applies to
names that match the pattern as a whole. The first rule that applies decides. Patterns are RE2's:
their time is linear in a name, which clients choose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from wirekafka.regex import InvalidRegex, compile_with_groups

_RULE = re.compile(
    r"""\s* (?: (?P<default>DEFAULT)
              | RULE: (?P<pattern>(?:\\.|[^\\/])*) / (?P<replacement>(?:\\.|[^\\/])*) /
                      (?P<case>[LU]?) )
        \s* (?:,|$)""",
    re.VERBOSE | re.DOTALL,
)
_NOTHING = re.compile(r"\s*(?:,|$)")
_PART = re.compile(r"\\(?P<escaped>.)|\$(?P<number>\d+)|\$\{(?P<name>[A-Za-z]\w*)\}|(?P<bad>[\\$])")


class NoMatchingRule(Exception):
    """A distinguished name that no rule makes a user name of: its owner is not authenticated."""


class _Rule(NamedTuple):
    pattern: Any
    replace: Callable[[Any], str]
    case: Callable[[str], str]


class PrincipalRules:
    """Parsed mapping rules. Raises ValueError for text that is not a list of rules."""

    def __init__(self, text: str):
        self._rules: list[_Rule | None] = []
        """None stands for DEFAULT."""
        at = 0
        while at < len(text):
            nothing = _NOTHING.match(text, at)
            if nothing is not None and nothing.end() > at:
                at = nothing.end()
                continue
            found = _RULE.match(text, at)
            if found is None:
                raise ValueError(f"Invalid rule: {text[at:].strip()}")
            self._rules.append(None if found["default"] else _parsed(found))
            at = found.end()

    def user_name(self, distinguished_name: str) -> str:
        """The user name for a distinguished name in Java's text. Raises NoMatchingRule."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name) is not None:
                # Kafka replaces every match inside the name, which may be shorter than the whole.
                return rule.case(_replaced(rule, distinguished_name))
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules fits {distinguished_name}")


def _replaced(rule: _Rule, text: str) -> str:
    """Replace all matches as Java: after an empty match, go on at the next character."""
    parts, kept_from, at = [], 0, 0
    while at <= len(text) and (match := rule.pattern.search(text, at)) is not None:
        parts += [text[kept_from : match.start()], rule.replace(match)]
        kept_from = match.end()
        at = kept_from + (match.end() == match.start())
    return "".join((*parts, text[kept_from:]))


def _parsed(found: re.Match[str]) -> _Rule:
    try:
        pattern = compile_with_groups(found["pattern"])
    except InvalidRegex as error:
        raise ValueError(f"Invalid pattern {found['pattern']}: {error}") from None
    case = {"L": str.lower, "U": str.upper}.get(found["case"], str)
    return _Rule(pattern, _replacement(found["replacement"], pattern), case)


def _replacement(text: str, pattern: Any) -> Callable[[Any], str]:
    """A function that fills in a replacement written in Java's syntax: `$1`, `${name}`, `\\$`.

    Like Kafka, it fails (NoMatchingRule) when a name is to be replaced, not when it is parsed.
    """
    parts: list[str | int] = []
    at = 0
    for found in _PART.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
        if found["escaped"]:
            parts.append(found["escaped"])
        elif found["number"] and (pattern.groups or found["number"][0] == "0"):
            parts += _numbered(found["number"], pattern.groups)
        elif found["name"] in pattern.groupindex:
            parts.append(pattern.groupindex[found["name"]])
        else:
            return partial(_fail, f"ssl.principal.mapping.rules: no group {found[0]} for {text}")
    parts.append(text[at:])

    def filled(match: Any) -> str:
        return "".join(
            part if isinstance(part, str) else (match.group(part) or "") for part in parts
        )

    return filled


def _fail(reason: str, match: Any) -> str:
    raise NoMatchingRule(reason)


def _numbered(digits: str, groups: int) -> list[str | int]:
    """The group that `$` and digits name, and the digits that are not part of its number.

    A group that the pattern does not have is literal text.
    """
    if int(digits[0]) > groups:
        return [f"${digits}"]
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    return [int(digits[:size]), digits[size:]]
