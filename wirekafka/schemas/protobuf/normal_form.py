"""The normal form of a Protobuf file: sorted, so that files of one meaning have one text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from proto_schema_parser import ast

_KEY, _VALUE = "key", "value"


def normal_form(tree: ast.File) -> ast.File:
    """The normal form of a tree that a descriptor gives: its names of types are full.

    The order of types, services and methods remains: the indexes of messages depend on it.
    """
    return ast.File(
        syntax=tree.syntax,
        edition=tree.edition,
        file_elements=_sorted(tree.file_elements, _package_of(tree)),
    )


def _package_of(tree: ast.File) -> str:
    packages = [each.name for each in tree.file_elements if isinstance(each, ast.Package)]
    return f".{packages[0]}" if packages else ""


def _sorted(elements: Iterable[Any], scope: str) -> list[Any]:
    """Each kind of element in its order; the printer has the order of the kinds."""
    elements = _with_maps([_normal(each, scope) for each in _one_by_one(elements)], scope)
    return sorted(elements, key=_order)


def _one_by_one(elements: Iterable[Any]) -> Iterable[Any]:
    """The elements, each reserved or extension range and reserved name for itself."""
    for each in elements:
        match each:
            case ast.Reserved() | ast.EnumReserved():
                kind = type(each)
                yield from (kind(ranges=[text]) for text in each.ranges)
                yield from (kind(names=[name]) for name in each.names)
            case ast.ExtensionRange():
                yield from (ast.ExtensionRange([text], each.options) for text in each.ranges)
            case _:
                yield each


def _normal(element: Any, scope: str) -> Any:
    match element:
        case ast.Message() | ast.Enum():
            kind: Callable[..., Any] = type(element)
            return kind(element.name, _sorted(element.elements, f"{scope}.{element.name}"))
        case ast.OneOf():
            return ast.OneOf(element.name, _sorted(element.elements, scope))
        case ast.Group():
            elements = _sorted(element.elements, f"{scope}.{element.name}")
            return ast.Group(element.name, element.number, element.cardinality, elements)
        case ast.Extension():
            return ast.Extension(element.typeName, _sorted(element.elements, scope))
        case ast.Service():
            return ast.Service(element.name, _sorted(element.elements, scope))
        case ast.Method():
            options = _sorted(element.elements, scope)
            return ast.Method(element.name, element.input_type, element.output_type, options)
        case ast.Option():
            return ast.Option(element.name, _normal_value(element.value))
        case ast.Field():
            options = _sorted(element.options, scope)
            return ast.Field(
                element.name, element.number, element.type, element.cardinality, options
            )
        case ast.EnumValue():
            return ast.EnumValue(element.name, element.number, _sorted(element.options, scope))
        case ast.ExtensionRange():
            return ast.ExtensionRange(element.ranges, _sorted(element.options, scope))
    return element


def _normal_value(value: Any) -> Any:
    """Fields of a literal by name, and a list of one value as the value."""
    match value:
        case ast.MessageLiteral():
            fields = [each for each in value.elements if isinstance(each, ast.MessageLiteralField)]
            return ast.MessageLiteral(
                [
                    ast.MessageLiteralField(each.name, _normal_value(each.value))
                    for each in sorted(fields, key=lambda each: each.name)
                ]
            )
        case list() if len(value) == 1:
            return _normal_value(value[0])
        case list():
            return [_normal_value(each) for each in value]
    return value


def _order(element: Any) -> tuple[Any, ...]:
    match element:
        case ast.Import() | ast.Option():
            return (0, element.name.strip("()"))
        case ast.Reserved() | ast.EnumReserved() if element.names:
            return (2, element.names[0])
        case ast.Reserved() | ast.EnumReserved() | ast.ExtensionRange():
            return (1, int(element.ranges[0].split()[0]))
        case ast.Field() | ast.MapField() | ast.Group():
            return (3, element.number)
        case ast.EnumValue():
            return (3, element.number, element.name)
        case ast.OneOf():
            return (4, _first_number(element), element.name)
    return (5,)


def _first_number(oneof: ast.OneOf) -> int:
    return min(each.number for each in oneof.elements if isinstance(each, (ast.Field, ast.Group)))


def _with_maps(elements: list[Any], scope: str) -> list[Any]:
    """Fields of entries as maps, without the messages of the entries."""
    entries = {
        f"{scope}.{each.name}": each
        for each in elements
        if isinstance(each, ast.Message) and _is_entry(each)
    }
    if not entries:
        return elements
    kept = [each for each in elements if not any(each is entry for entry in entries.values())]
    return [_map_of(each, entries) for each in kept]


def _is_entry(message: ast.Message) -> bool:
    return any(
        isinstance(each, ast.Option) and each.name == "map_entry" and each.value is True
        for each in message.elements
    )


def _map_of(element: Any, entries: dict[str, ast.Message]) -> Any:
    entry = entries.get(element.type) if isinstance(element, ast.Field) else None
    if entry is None:
        return element
    types = {each.name: each.type for each in entry.elements if isinstance(each, ast.Field)}
    return ast.MapField(element.name, element.number, types[_KEY], types[_VALUE], element.options)
