"""Secrets to plant in a node's configuration, which a search finds wherever they leak to."""

from __future__ import annotations

MARK = "planted-secret"
"""Part of every planted secret: a search for it finds all of them."""


def planted(name: str) -> str:
    """A secret to configure under this name, such as a password."""
    return f"{MARK}-{name}"
