"""JSON texts as trees that keep numbers as written, and such trees as Jackson writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from decimal import Decimal
from typing import Any

from wirekafka.schemas.schema import SchemaError

Tree = Any
"""Of dict, list, str, int, Decimal, bool and None."""

MAX_DEPTH = 200
"""Of objects and arrays within each other. Beyond about 200, libraries run out of stack."""

MAX_NODES = 50_000
"""Of values in one text: the check against a meta-schema takes up to 100 µs for each."""

_UPPER_CASE_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0C: "\\f",
    0x0D: "\\r",
    0x22: '\\"',
    0x5C: "\\\\",
}


def tree_of(text: str) -> Tree:
    """The tree of a JSON text, its size checked. Raises SchemaError."""
    try:
        tree = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except RecursionError:
        raise SchemaError("the JSON text is nested too deeply") from None
    except ValueError as error:
        raise SchemaError(f"invalid JSON: {error}") from None
    _check_size(tree)
    return tree


def compact_text(tree: Tree) -> str:
    """The tree without white space, its objects in the order of the source."""
    return "".join(_parts(tree, _in_order))


def sorted_text(tree: Tree) -> str:
    """The tree without white space, the members of objects sorted as Java sorts strings."""
    return "".join(_parts(tree, _sorted))


def without_decimals(tree: Tree) -> Tree:
    """The same tree with floating-point numbers, which validators calculate with."""
    match tree:
        case dict():
            return {name: without_decimals(value) for name, value in tree.items()}
        case list():
            return [without_decimals(value) for value in tree]
        case Decimal():
            return float(tree)
    return tree


def identity(value: Tree) -> Hashable:
    """Equal for values that JSON Schema takes for equal: 1 and 1.0, but not 1 and true."""
    match value:
        case dict():
            return "object", frozenset((name, identity(each)) for name, each in value.items())
        case list():
            return "array", tuple(identity(each) for each in value)
        case bool():
            return "boolean", value
    scalar: Hashable = value
    return scalar


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check_size(tree: Tree) -> None:
    level, depth, nodes = [tree], 0, 0
    while level:
        depth += 1
        nodes += len(level)
        if nodes > MAX_NODES:
            raise SchemaError(f"the schema has more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        for each in level:
            _check_texts(each)
        level = [value for each in level for value in _values(each)]


def _values(value: Tree) -> list[Tree]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
    return []


def _check_texts(value: Tree) -> None:
    texts = value if isinstance(value, dict) else [value] if isinstance(value, str) else []
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise SchemaError("a string of the schema has half of a surrogate pair") from None


_Members = Callable[[dict[str, Tree]], list[tuple[str, Tree]]]


def _in_order(members: dict[str, Tree]) -> list[tuple[str, Tree]]:
    return list(members.items())


def _sorted(members: dict[str, Tree]) -> list[tuple[str, Tree]]:
    return sorted(members.items(), key=lambda member: member[0].encode("utf-16-be"))


def _parts(tree: Tree, members_of: _Members) -> list[str]:
    parts: list[str] = []
    _append_parts(parts, tree, members_of)
    return parts


def _append_parts(parts: list[str], tree: Tree, members_of: _Members) -> None:
    match tree:
        case dict():
            separator = "{"
            for name, value in members_of(tree):
                parts.append(f'{separator}"{name.translate(_UPPER_CASE_ESCAPES)}":')
                _append_parts(parts, value, members_of)
                separator = ","
            parts.append("}" if tree else "{}")
        case list():
            separator = "["
            for value in tree:
                parts.append(separator)
                _append_parts(parts, value, members_of)
                separator = ","
            parts.append("]" if tree else "[]")
        case str():
            parts.append(f'"{tree.translate(_UPPER_CASE_ESCAPES)}"')
        case Decimal():
            # Java's numbers have no negative zero.
            parts.append(str(tree if tree else tree.copy_abs()))
        case _:
            parts.append(json.dumps(tree))
