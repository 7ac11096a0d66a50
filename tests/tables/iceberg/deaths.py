"""Processes that end between two operations on the files and the catalog of a table."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

OPERATIONS = [(PyArrowFileIO, name) for name in ("new_output", "delete")]
"""Those that change something: a death before a read is one before the next write."""


class Death(BaseException):
    """The process has ended: nothing that it still does has an effect."""


@contextmanager
def death_after(count: int) -> Iterator[list[str]]:
    """Let the process end after some operations; those that took place are in the list."""
    took_place: list[str] = []

    def step(name: str) -> None:
        if len(took_place) >= count:
            raise Death
        took_place.append(name)

    def counted(name: str, operation: Callable) -> Callable:
        def wrapper(*arguments: Any, **named: Any) -> Any:
            step(name)
            return operation(*arguments, **named)

        return wrapper

    commit = SqlCatalog.commit_table

    def commit_table(*arguments: Any, **named: Any) -> Any:
        response = commit(*arguments, **named)
        step("commit")
        return response

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in OPERATIONS:
            patch.setattr(owner, name, counted(name, getattr(owner, name)))
        patch.setattr(SqlCatalog, "commit_table", commit_table)
        yield took_place


def deaths_at_every_step(run: Callable[[], object]) -> Iterator[bool]:
    """Run again and again, and end after one operation more each time, until all took place.

    Yields whether the run came to its end.
    """
    for count in range(1000):
        has_ended = False
        with death_after(count):
            try:
                run()
                has_ended = True
            except Death:
                pass
        yield has_ended
        if has_ended:
            return
