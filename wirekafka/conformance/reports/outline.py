"""Plain data in lines: on one line where it fits, or else indented by level."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.conformance.expectation import is_choice, said
from wirekafka.conformance.plain import Plain

_WIDTH = 100


def outline(name: str, value: Plain, indent: int = 0) -> Iterator[str]:
    """A value under its name."""
    start = " " * indent + name
    text = said(value)
    if len(start) + 2 + len(text) <= _WIDTH or not isinstance(value, dict | list) or not value:
        yield f"{start}: {text}"
        return
    if isinstance(value, dict) and is_choice(value):
        yield f"{start}: {text}"
        return
    if isinstance(value, list) and len(value) == 1:
        yield from outline(f"{name}[0]", value[0], indent)
        return
    yield f"{start}:"
    if isinstance(value, dict):
        for key, each in value.items():
            yield from outline(key, each, indent + 2)
    else:
        for number, each in enumerate(value):
            yield from outline(f"[{number}]", each, indent + 2)
