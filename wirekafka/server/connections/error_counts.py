"""Counts the error codes in responses, wherever their schemas have some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from wirekafka.codec.compile import FunctionSource
from wirekafka.codec.message import Message

_known: dict[type[Message], Callable[[Any], list[int]]] = {}
"""The function of each class of responses that returns all its error codes."""


def count_errors(response: Message, errors: Counter[int]) -> None:
    """Count all error codes of a response; 0 for a response whose schema has none."""
    kind = response.__class__
    codes_of = _known.get(kind)
    if codes_of is None:
        codes_of = _known[kind] = _compiled(kind)
    codes = codes_of(response)
    if not any(codes):
        errors[0] += len(codes)
        return
    for code in codes:
        errors[int(code)] += 1


def _compiled(kind: type[Message]) -> Callable[[Any], list[int]]:
    """Generated from the schema, as codecs are: half the time of `getattr` and recursion."""
    out = FunctionSource(f"{kind.__name__} errors")
    terms = _terms(kind, "response", "", 0) or ["0"]
    out(f"def codes(response): return [{', '.join(terms)}]")
    return out.compile("codes")


def _terms(kind: type[Message], name: str, loops: str, depth: int) -> list[str]:
    """The elements of the list of codes: the codes of the object `name` and of its arrays.

    `loops` are the `for` clauses by which `name` is reached.
    """
    found = []
    if any(field.name == "error_code" for field in kind.fields):
        found.append(f"*[{name}.error_code{loops}]" if loops else f"{name}.error_code")
    for field in kind.fields:
        if field.part is not None and field.is_array:
            part = f"part{depth}"
            inner = f"{loops} for {part} in {name}.{field.name} or ()"
            found += _terms(field.part, part, inner, depth + 1)
    return found
