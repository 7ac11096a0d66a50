"""Maps Kerberos names to user names by `sasl.kerberos.principal.to.local.rules`.

Expressions of rules are RE2's: their time is linear in a name, which clients choose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wirekafka.regex import Regex, compile_with_groups

_NAME = re.compile(r"(?P<service>[^/@]+)(?:/(?P<host>[^/@]+))?(?:@(?P<realm>[^/@]+))?")
_RULE = re.compile(
    r"RULE:\[(?P<count>\d*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<global>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$(\d+)")
_NOT_SIMPLE = re.compile(r"[/@]")


class NoShortName(ValueError):
    """A Kerberos name to which no rule applies."""


class NameRules:
    """The rules in order; the first that applies makes the user name."""

    def __init__(self, rules: Sequence[str], default_realm: str):
        """Raises ValueError for a text that is no rule."""
        self._rules = [None if rule.strip() == "DEFAULT" else _Rule.of(rule) for rule in rules]
        self._default_realm = default_realm

    def short_name(self, name: str) -> str:
        """The user name of `service/host@REALM` or `user@REALM`. Raises NoShortName."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise NoShortName(name)
        service, host, realm = match["service"], match["host"], match["realm"]
        if host is None and realm is None:
            return service
        parts = [realm or "", service] if host is None else [realm or "", service, host]
        for rule in self._rules:
            if rule is None:
                if realm == self._default_realm:
                    return service
                continue
            found = rule.apply(parts)
            if found is not None:
                return found
        raise NoShortName(name)


@dataclass(frozen=True, slots=True)
class _Rule:
    """`RULE:[count:format](match)s/from/to/g/L`."""

    count: int
    format: str
    match: Regex | None
    source: Any
    target: str
    is_global: bool
    case: str | None

    @classmethod
    def of(cls, text: str) -> _Rule:
        found = _RULE.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"an invalid rule for Kerberos names: {text}")
        return cls(
            int(found["count"] or 0),
            found["format"],
            None if found["match"] is None else Regex(found["match"]),
            None if found["from"] is None else compile_with_groups(found["from"]),
            re.sub(r"\$(\d)", r"\\\1", found["to"] or ""),
            found["global"] is not None,
            found["case"],
        )

    def apply(self, parts: Sequence[str]) -> str | None:
        """The user name for `[realm, component, …]`; None if the rule does not apply."""
        if len(parts) - 1 != self.count:
            return None
        try:
            base = _PARAMETER.sub(lambda found: parts[int(found[1])], self.format)
        except IndexError:
            return None
        if self.match is not None and not self.match.matches(base):
            return None
        if self.source is not None:
            try:
                base = self.source.sub(self.target, base, count=0 if self.is_global else 1)
            except IndexError:  # The target names a group that the expression does not have.
                raise NoShortName(base) from None
        if _NOT_SIMPLE.search(base):
            raise NoShortName(base)
        return base.lower() if self.case == "L" else base.upper() if self.case == "U" else base
