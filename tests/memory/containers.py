"""Finds every container in the sources that outlives a call and has texts in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parent.parent.parent / "wirekafka"
WITHOUT = (
    "cli",
    "testing",
    "client",
    "conformance",
    "doctor",
    "reader",
    "spark",
    "tables",
    "translation",
    "log/files.py",
    "errors.py",
)
"""Parts that do not run in the process of a serving node, apart from the system's files."""
_OF_THE_WORKER = ("tables/typed", "tables/iceberg", "translation")
_MAPPINGS = {"dict", "OrderedDict", "Counter", "defaultdict", "WeakValueDictionary", "Remembered"}
_OTHERS = {"set", "list", "deque", "WeakSet", "WeakKeyDictionary"}
_CACHES = {"lru_cache", "cache"}
_TEXTS = {"str", "bytes", "Any", "object", "Hashable", "Buffer"}
_BY_IDENTITY = {"Promise", "Ticket"}
"""Generic classes whose objects end with what waits for them; clients name none of them."""


class Container(NamedTuple):
    """A container: an attribute, a variable of a module, or a cache of a function's results."""

    place: str
    """Such as `quotas/client_quotas.py:ClientQuotas._accounts`."""
    annotation: str


def containers() -> list[Container]:
    """Every container that a client may name entries of, by the types of its keys."""
    found: list[Container] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if not name.startswith(WITHOUT):
            found += in_module(_parsed(path), name)
    return found


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statements in a module, a class or a function, at any depth."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(tree, name, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from _statements(each)


def in_module(tree: ast.Module, name: str) -> Iterator[Container]:
    """The containers in one module."""
    for node in tree.body:
        match node:
            case ast.ClassDef():
                yield from _in_class(node, name)
            case ast.Assign() | ast.AnnAssign():
                yield from _assigned(node, f"{name}:")
            case ast.FunctionDef():
                yield from _cached(node, f"{name}:")
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef):
                        yield from _cached(inner, f"{name}:{node.name}.")
                    elif isinstance(inner, ast.Assign | ast.AnnAssign):
                        yield from _remembered(inner, f"{name}:{node.name}.")


def _in_class(tree: ast.ClassDef, name: str) -> Iterator[Container]:
    place = f"{name}:{tree.name}."
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            yield from _assigned(node, place)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield from _cached(node, place)
        for inner in _statements(node):
            is_first = node.name in ("__init__", "__new__") or isinstance(inner, ast.AnnAssign)
            if is_first and isinstance(inner, ast.Assign | ast.AnnAssign):
                yield from _assigned(inner, place, of_self=True)


def _assigned(
    node: ast.Assign | ast.AnnAssign, place: str, *, of_self: bool = False
) -> Iterator[Container]:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if of_self != (isinstance(target, ast.Attribute) and _text(target.value) == "self"):
        return
    value = node.value
    annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
    if value is None or not _is_container(value):
        return
    name = target.attr if isinstance(target, ast.Attribute) else _text(target)
    held = _text(annotation) if annotation is not None else _made(value)
    if annotation is None or _names_texts(annotation):
        yield Container(f"{place}{name}", held)


def _remembered(node: ast.Assign | ast.AnnAssign, place: str) -> Iterator[Container]:
    if isinstance(node.value, ast.Call) and "Remembered" in _text(node.value.func):
        yield from _assigned(node, place)


def _cached(node: ast.FunctionDef | ast.AsyncFunctionDef, place: str) -> Iterator[Container]:
    for each in node.decorator_list:
        function = each.func if isinstance(each, ast.Call) else each
        takes = [argument.annotation for argument in node.args.args if argument.arg != "self"]
        if _text(function).split(".")[-1] in _CACHES and any(map(_names_texts, takes)):
            yield Container(f"{place}{node.name}", f"@{_text(each)}")


def _is_container(value: ast.expr) -> bool:
    """Whether it makes an empty container, one that is filled later, or a cache."""
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Tuple(elts=elements):
            return any(map(_is_container, elements))
        case ast.Call(func=function, args=arguments):
            name = _text(function).split("[")[0].split("(")[0].split(".")[-1]
            if name == "field":
                return any(
                    keyword.arg == "default_factory"
                    and _text(keyword.value).split("[")[0] in _MAPPINGS | _OTHERS
                    for keyword in value.keywords
                )
            return name in _MAPPINGS | _OTHERS | _CACHES or any(
                isinstance(each, ast.Name) and each.id in _CACHES for each in arguments
            )
        case ast.BoolOp(values=values):
            return any(map(_is_container, values))
    return False


def _names_texts(annotation: ast.expr | None) -> bool:
    """Whether a type has texts in it; unknown types have."""
    match annotation:
        case None:
            return True
        case ast.Name(id=name):
            return _is_text(name)
        case ast.Subscript(value=ast.Name(id=name)) if name in _BY_IDENTITY:
            return False
    return any(
        _names_texts(each)
        for each in ast.iter_child_nodes(annotation)
        if isinstance(each, ast.expr)
    )


@cache
def _is_text(name: str) -> bool:
    if name in _TEXTS:
        return True
    known = _types().get(name)
    return known is not None and any(map(_is_text, known - {name}))


@cache
def _types() -> dict[str, frozenset[str]]:
    """The names in each alias and each tuple or frozen class of the package."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if str(path.relative_to(PACKAGE)).startswith(_OF_THE_WORKER):
            continue  # Some have the names of a node's types.
        for node in _statements(_parsed(path)):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as value):
                    found.setdefault(name, set()).update(_names(value))
                case ast.ClassDef(name=name, bases=bases, decorator_list=decorators) if any(
                    "NamedTuple" in _text(base) for base in bases
                ) or any("frozen=True" in _text(each) for each in decorators):
                    for field in node.body:
                        if isinstance(field, ast.AnnAssign):
                            found.setdefault(name, set()).update(_names(field.annotation))
    return {name: frozenset(names) for name, names in found.items()}


def _names(tree: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}


def _made(value: ast.expr) -> str:
    return _text(value)


def _text(tree: ast.AST) -> str:
    return ast.unparse(tree)
