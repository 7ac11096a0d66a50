"""Proposes known names in place of misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 3


def did_you_mean(given: str, known: Iterable[str], closeness: float = 0.6) -> str:
    """Return "did you mean ...?" with the closest known names; empty if none is close."""
    from difflib import get_close_matches  # Here: a start without mistakes does not need it.

    names = {name.lower(): name for name in known}
    near = get_close_matches(given.lower(), names, n=_MOST, cutoff=closeness)
    return f"did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else ""
