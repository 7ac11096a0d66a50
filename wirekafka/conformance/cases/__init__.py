"""The cases: a module for each API, whose `BOOK` has them, in a folder for each area.

A module whose cases are made from a table of several APIs has `BOOKS`.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from wirekafka.codec.schema import ALWAYS
from wirekafka.conformance.case import Book, Case, ConformanceLevel
from wirekafka.protocol.metadata import MetadataRequest

SHARED = Case(
    api="Metadata",
    title="the shared topics",
    area="preparation",
    level=ConformanceLevel.CORE,
    source="",
    request=MetadataRequest,
    versions=(ALWAYS,),
    play=lambda stage: None,
)
"""Stands for the preparation of a run where a stage needs a case."""


@cache
def books() -> tuple[Book, ...]:
    """The books of all areas, in the order of their modules' names."""
    found: list[Book] = []
    for area in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        room = import_module(f"{__name__}.{area.name}")
        for module in sorted(pkgutil.iter_modules(room.__path__), key=lambda each: each.name):
            page = import_module(f"{room.__name__}.{module.name}")
            found += [page.BOOK] if hasattr(page, "BOOK") else getattr(page, "BOOKS", ())
    return tuple(found)


def all_cases() -> list[Case]:
    """Every case there is."""
    return [case for book in books() for case in book.cases]
