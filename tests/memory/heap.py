"""What a process keeps: which objects hold a text, and how many bytes an object holds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from sys import getsizeof
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)
"""Not part of what an object holds."""


def holders(marker: str, spared: Callable[[Any], bool]) -> list[str]:
    """Every text in a container of the process that has a marker in it, but for spared ones.

    `spared` is asked for each container, whose whole content is then passed over.
    """
    wanted = marker.encode()
    gc.collect()
    found: list[str] = []
    seen: set[int] = set()
    for owner in gc.get_objects():
        if isinstance(owner, FrameType) or spared(owner):
            continue
        for part in _untracked(owner, seen):
            if (wanted if isinstance(part, bytes) else marker) in part:
                found.append(f"{type(owner).__name__} holds {part[:60]!r}")
    return found


def _untracked(owner: Any, seen: set[int]) -> Iterator[Any]:
    """What an object refers to, directly or by way of objects that the collector does not track."""
    pending = [owner]
    while pending:
        for part in _parts(pending.pop()):
            if isinstance(part, str | bytes):
                yield part
            elif (
                not gc.is_tracked(part) and id(part) not in seen and isinstance(part, tuple | dict)
            ):
                pending.append(part)


def _parts(owner: Any) -> list[Any]:
    # The collector passes over the keys of a dictionary that has only texts as keys.
    keys = list(dict.keys(owner)) if isinstance(owner, dict) else []
    return [*gc.get_referents(owner), *keys]


def held_bytes(*roots: Any, shared: tuple[type, ...] = ()) -> int:
    """What objects hold, directly and indirectly, without objects of `shared` types."""
    total = 0
    seen: set[int] = set()
    pending = list(roots)
    while pending:
        part = pending.pop()
        if id(part) in seen or isinstance(part, (*_SHARED, *shared)):
            continue
        seen.add(id(part))
        total += getsizeof(part)
        pending += _parts(part)
    return total
