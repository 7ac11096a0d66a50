"""Reads Java's JAAS: the login module of `sasl.jaas.config`, and files of several entries."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKENS = re.compile(
    r"""
      (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
    | "(?P<double> (?: [^"\\\n] | \\. )* )"
    | '(?P<single> (?: [^'\\\n] | \\. )* )'
    | (?P<word> [A-Za-z_$\x80-\uffff\d.-]+ )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


class JaasError(ValueError):
    """A text that is no login module; the message never contains any part of the text."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module's class and options. The options, which hold passwords, are hidden in repr."""

    name: str
    """The Java class with its package."""
    options: dict[str, str] = field(repr=False)


def parse(text: str) -> LoginModule:
    """Read `<class> <flag> <name>=<value>…;` with Java's quotes, escapes and comments.

    Raises JaasError, worded as Kafka words it, for anything else and for several modules.
    """
    words = _words(text)
    module = _entry(words)
    more = 0
    while words:
        _entry(words)
        more += 1
    if more:
        raise JaasError(
            f"JAAS config property contains {1 + more} login modules, should be 1 module"
        )
    return module


def parse_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Read a JAAS file, entries of the form `<name> { <module>… };`: the modules of each name.

    Raises JaasError for anything else, and for a name that appears twice.
    """
    words = _words(text)
    entries: dict[str, tuple[LoginModule, ...]] = {}
    while words:
        name = _word(words, "Name of an entry not specified in JAAS file")
        if name in entries:
            raise JaasError(f"JAAS file has several entries for {name}")
        _sign(words, "{", f"Entry {name} of JAAS file has no opening brace")
        modules = []
        while words and words[-1] != (False, "}"):
            modules.append(_entry(words))
        _sign(words, "}", f"Entry {name} of JAAS file has no closing brace")
        _sign(words, ";", f"Entry {name} of JAAS file not terminated by semi-colon")
        entries[name] = tuple(modules)
    return entries


def _words(text: str) -> list[tuple[bool, str]]:
    """(whether it is a name or value, text) of each token, in reverse order."""
    found = []
    for match in _TOKENS.finditer(text):
        kind = match.lastgroup
        if kind == "sign":
            found.append((False, match[0]))
        elif kind == "word":
            found.append((True, match[0]))
        elif kind in ("single", "double"):
            found.append((True, _ESCAPE.sub(_unescaped, match[kind])))
    return found[::-1]


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)


def _entry(words: list[tuple[bool, str]]) -> LoginModule:
    name = _word(words, "Login module not specified in JAAS config")
    flag = _word(words, "Control flag not specified in JAAS config")
    if flag.lower() not in _FLAGS:
        raise JaasError("Invalid login module control flag in JAAS config")
    options: dict[str, str] = {}
    while words and words[-1][0]:
        key = _word(words, "")
        missing = f"Value not specified for key '{key}' in JAAS config"
        _sign(words, "=", missing)
        options[key] = _word(words, missing)
    _sign(words, ";", "JAAS config entry not terminated by semi-colon")
    return LoginModule(name, options)


def _sign(words: list[tuple[bool, str]], sign: str, otherwise: str) -> None:
    if not words or words.pop() != (False, sign):
        raise JaasError(otherwise)


def _word(words: list[tuple[bool, str]], otherwise: str) -> str:
    if not words or not words[-1][0]:
        raise JaasError(otherwise)
    return words.pop()[1]
