"""Regular expressions from outside: RE2's, whose time is linear, within bounds of time and memory.

Kafka uses RE2J or Java's expressions. Of these, RE2 lacks lookaround, possessive quantifiers and
references to groups; an expression that has them is not valid.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

MAX_COST = 16_384
"""How costly an expression may be to compile: about its bytes, see `_cost`.

RE2 compiles in the interpreter's lock, so a thread would not free the event loop. Expressions
within this bound take at most 30 ms on a slow machine, ordinary ones less than 1 ms.
"""

MAX_MEMORY_BYTES = 512 << 10
"""Of one compiled expression with the states that matching adds."""

MAX_CACHED = 32
"""Compiled expressions that are kept: at most 16 MiB."""

_COSTS = (
    # Chains of optional parts take time with the square of their length, and a named class of
    # Unicode has hundreds of ranges. What is escaped or quoted is counted too: it does no harm.
    (re.compile(r"\\[pP]"), 256),
    (re.compile(r"\\[A-Za-z]|[?*+\[]"), 8),
    (re.compile(r"[.(]"), 4),
)
_COUNTS = re.compile(r"\{([0-9]{0,9}),?([0-9]{0,9})")
_COST_PER_REPETITION = 8

_GROUP_NAME = re.compile(r"\(\?P?<(\w+)>")
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")

_KAFKA_TEXTS = {
    # The Java port of RE2 has other error texts for these.
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


class InvalidRegex(ValueError):
    """An expression that is not valid, or too costly; its text is the reason, as Kafka has it."""


class Regex:
    """A compiled expression that answers whether it matches a text, as a whole or in part."""

    __slots__ = ("_compiled", "program_size")

    def __init__(self, text: str):
        """Raises InvalidRegex."""
        # Without groups RE2 needs neither the time nor the memory for where each matched.
        self._compiled = _compiled(text, never_capture=True)
        self.program_size: int = self._compiled.programsize
        """Its instructions: matching takes at most about 10 ns for each and a byte of the text."""

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        return self._compiled.fullmatch(text.encode(errors="surrogatepass")) is not None

    def is_found_in(self, text: str) -> bool:
        """Whether a part of the text matches, be it empty."""
        return self._compiled.search(text.encode(errors="surrogatepass")) is not None


@lru_cache(maxsize=MAX_CACHED)
def regex_of(text: str) -> Regex:
    """The compiled expression, from the cache if it is there. Raises InvalidRegex."""
    return Regex(text)


def compile_with_groups(text: str) -> Any:
    """A compiled expression of the `re2` library, for texts to be replaced. Raises InvalidRegex.

    Matching takes time with the number of groups: this is for expressions of the configuration.
    """
    return _compiled(text, never_capture=False)


def _compiled(text: str, *, never_capture: bool) -> Any:
    """Compile. The library takes 2 MiB of memory: it is imported with the first expression."""
    if _cost(text) > MAX_COST:
        raise InvalidRegex("expression too large")
    # The Java port supports none of these.
    names = _GROUP_NAME.findall(text)
    if len(names) > len(set(names)):
        raise InvalidRegex("duplicate capture group name")
    if _ANY_BYTE.search(text):
        raise InvalidRegex("invalid escape sequence")
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = never_capture
    options.max_mem = MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(text, options=options)
    except re2.error as error:
        raise InvalidRegex(_reason(error)) from None
    except UnicodeEncodeError:
        raise InvalidRegex("invalid UTF-8") from None
    # The library keeps 128 of them by itself.
    re2.purge()
    return compiled


def _cost(text: str) -> int:
    """An estimate of the cost of compiling that RE2 itself has no bound for."""
    cost = len(text.encode(errors="surrogatepass"))
    if cost > MAX_COST:
        return cost
    cost += sum(weight * len(pattern.findall(text)) for pattern, weight in _COSTS)
    for least, most in _COUNTS.findall(text):
        cost += _COST_PER_REPETITION * (int(least or 0) + int(most or 0))
    return cost


def _reason(error: Exception) -> str:
    text = error.args[0]
    text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    for theirs, kafkas in _KAFKA_TEXTS.items():
        if text.startswith(theirs):
            return kafkas
    return text.partition(":")[0]
