"""Fast twins of slow paths: each is listed, names its twin, and is compared with it by a test."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from benchmarks.twins import TWINS, Twin, costs_of

ROOT = Path(__file__).parents[1]
_SAYS = re.compile(r"Fast\s+twin\s+of\s+`([\w.]+)`")
_BY_NAME = pytest.mark.parametrize("twin", TWINS, ids=[each.fast for each in TWINS])


def found(name: str) -> object:
    """What a dotted name stands for."""
    module, rest = name, list[str]()
    while True:
        try:
            target: object = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
        else:
            for each in rest:
                target = getattr(target, each)
            return target


def declared() -> dict[str, str]:
    """The slow twin that docstrings name, by the fast one."""
    pairs = {}
    for path in sorted((ROOT / "wirekafka").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        places = [(module, each) for each in ast.parse(path.read_text()).body]
        for prefix, node in places:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            name = f"{prefix}.{node.name}"
            if isinstance(node, ast.ClassDef):
                places += [(name, each) for each in node.body]
            for slow in _SAYS.findall(ast.get_docstring(node) or ""):
                pairs[name] = slow
    return pairs


def test_every_fast_twin_is_in_the_table_and_names_its_slow_twin() -> None:
    assert declared() == {twin.fast: twin.slow for twin in TWINS}


@_BY_NAME
def test_both_twins_exist_and_a_generated_test_compares_them(twin: Twin) -> None:
    assert callable(found(twin.fast)) and callable(found(twin.slow))
    path, _, name = twin.compared_by.partition("::")
    text = (ROOT / path).read_text()
    assert f"def {name}(" in text and "Random(" in text, "compared by random cases"


@_BY_NAME
def test_every_fast_twin_can_be_measured(twin: Twin) -> None:
    fast_us, slow_us = costs_of(twin, turns=1)
    assert fast_us > 0 and slow_us > 0
