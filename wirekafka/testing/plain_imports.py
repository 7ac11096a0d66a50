"""Imports this package in pytest processes without rewriting the assertions of its modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_PACKAGE = __name__.partition(".")[0] + "."


class _PlainFinder(MetaPathFinder):
    """Finds modules of this package, and of no other, as Python does by itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return (
            PathFinder.find_spec(fullname, path, target) if fullname.startswith(_PACKAGE) else None
        )


def import_plainly() -> None:
    """Let modules of this package be imported from the bytecode that Python caches.

    pytest marks the whole distribution of a plugin for rewriting: its own finder would compile 600
    modules anew where its cache is missing, as in every fresh container. That takes seconds, and
    rewriting helps only assertions that a test writes itself.
    """
    if not any(isinstance(finder, _PlainFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PlainFinder())  # Ahead of pytest's.
