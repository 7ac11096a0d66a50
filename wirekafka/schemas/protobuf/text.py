"""The text of a Protobuf file, from its syntax tree, laid out as Confluent's registry does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from proto_schema_parser import ast

from wirekafka.schemas.protobuf.names import written

T = TypeVar("T")


def text_of(tree: ast.File) -> str:
    """The text: no comments, two blanks per level, and each kind of element in its section."""
    elements = tree.file_elements
    text = ""
    if tree.edition is not None:
        text += f'edition = "{tree.edition}";\n'
    elif tree.syntax is not None:
        text += f'syntax = "{tree.syntax}";\n'
    for package in _of(elements, ast.Package):
        text += f"package {written(package.name)};\n"
    sections = [
        [_import(each) for each in _in_order_of_kinds(_of(elements, ast.Import))],
        [_statement(each) for each in _of(elements, ast.Option)],
        _types(elements),
        [_extension(each) for each in _of(elements, ast.Extension)],
        [_service(each) for each in _of(elements, ast.Service)],
    ]
    for section in filter(None, sections):
        text += "\n" + "".join(section)
    return text


def _of(elements: Iterable[object], kind: type[T]) -> list[T]:
    return [each for each in elements if isinstance(each, kind)]


def _in_order_of_kinds(imports: Iterable[ast.Import]) -> list[ast.Import]:
    return sorted(imports, key=lambda each: each.public)


def _import(element: ast.Import) -> str:
    kind = "public " if element.public else "weak " if element.weak else ""
    return f'import {kind}"{element.name}";\n'


def _types(elements: Iterable[object]) -> list[str]:
    """Messages before enums."""
    messages = [_message(each) for each in _of(elements, ast.Message)]
    return messages + [_enum(each) for each in _of(elements, ast.Enum)]


def _message(element: ast.Message) -> str:
    return f"message {element.name} {_body(element.elements)}"


def _group(element: ast.Group) -> str:
    label = f"{element.cardinality.value.lower()} " if element.cardinality else ""
    return f"{label}group {element.name} = {element.number} {_body(element.elements)}"


def _body(elements: Sequence[object]) -> str:
    fields = [each for each in elements if isinstance(each, (ast.Field, ast.MapField))]
    return _block(
        [_reserved(each) for each in _of(elements, ast.Reserved)],
        [_statement(each) for each in _of(elements, ast.Option)],
        [_field(each) for each in fields],
        [_oneof(each) for each in _of(elements, ast.OneOf)],
        [_group(each) for each in _of(elements, ast.Group)],
        [_extension_range(each) for each in _of(elements, ast.ExtensionRange)],
        _types(elements),
        [_extension(each) for each in _of(elements, ast.Extension)],
    )


def _block(*sections: Sequence[str]) -> str:
    """Sections in braces, with an empty line between two."""
    text = "".join("\n" + "".join(map(_indented, section)) for section in sections if section)
    return f"{{{text}}}\n"


def _indented(text: str) -> str:
    """Each line by two blanks, empty ones too: registries have always stored them so."""
    return "".join(f"  {line}\n" for line in text.removesuffix("\n").split("\n"))


def _field(element: ast.Field | ast.MapField) -> str:
    label = ""
    if isinstance(element, ast.MapField):
        type_name = f"map<{written(element.key_type)}, {written(element.value_type)}>"
    else:
        type_name = written(element.type)
        if element.cardinality is not None:
            label = f"{element.cardinality.value.lower()} "
    options = _in_brackets(element.options)
    return f"{label}{type_name} {element.name} = {element.number}{options};\n"


def _oneof(element: ast.OneOf) -> str:
    body = _block(
        [_statement(each) for each in _of(element.elements, ast.Option)],
        [_field(each) for each in _of(element.elements, ast.Field)],
        [_group(each) for each in _of(element.elements, ast.Group)],
    )
    return f"oneof {element.name} {body}"


def _reserved(element: ast.Reserved | ast.EnumReserved) -> str:
    ranges = [" ".join(each.split()) for each in element.ranges]
    names = [f'"{each}"' for each in element.names]
    return f"reserved {', '.join([*ranges, *names])};\n"


def _extension_range(element: ast.ExtensionRange) -> str:
    ranges = ", ".join(" ".join(each.split()) for each in element.ranges)
    return f"extensions {ranges}{_in_brackets(element.options)};\n"


def _extension(element: ast.Extension) -> str:
    fields = [_field(each) for each in _of(element.elements, ast.Field)]
    groups = [_group(each) for each in _of(element.elements, ast.Group)]
    return f"extend {written(element.typeName)} {_block(fields, groups)}"


def _enum(element: ast.Enum) -> str:
    values = [
        f"{each.name} = {each.number}{_in_brackets(each.options)};\n"
        for each in _of(element.elements, ast.EnumValue)
    ]
    options = [_statement(each) for each in _of(element.elements, ast.Option)]
    reserved = [_reserved(each) for each in _of(element.elements, ast.EnumReserved)]
    return f"enum {element.name} {_block(reserved, [*options, *values])}"


def _service(element: ast.Service) -> str:
    options = [_statement(each) for each in _of(element.elements, ast.Option)]
    methods = [_method(each) for each in _of(element.elements, ast.Method)]
    return f"service {element.name} {_block(options, methods)}"


def _method(element: ast.Method) -> str:
    options = [_statement(each) for each in _of(element.elements, ast.Option)]
    body = f" {_block(options).removesuffix(chr(10))}" if options else ""
    types = [
        f"({'stream ' if each.stream else ''}{written(each.type)})"
        for each in (element.input_type, element.output_type)
    ]
    return f"rpc {element.name} {types[0]} returns {types[1]}{body};\n"


def _statement(option: ast.Option) -> str:
    return f"option {_option(option)};\n"


def _in_brackets(options: Sequence[ast.Option]) -> str:
    if not options:
        return ""
    if len(options) == 1:
        return f" [{_option(options[0])}]"
    return f" [\n{_lines([_option(each) for each in options])}]"


def _option(option: ast.Option) -> str:
    return f"{written(option.name)} = {_value(option.value)}"


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case ast.Identifier():
            return value.name
        case str():
            return f'"{value}"'
        case ast.MessageLiteral():
            fields = _of(value.elements, ast.MessageLiteralField)
            lines = _lines([f"{written(each.name)}: {_value(each.value)}" for each in fields])
            return f"{{\n{lines}}}"
        case list():
            return f"[\n{_lines([_value(each) for each in value])}]" if value else "[]"
    return repr(value)


def _lines(texts: Sequence[str]) -> str:
    """Each text in lines of its own, with commas between the texts."""
    last = len(texts) - 1
    return "".join(
        _indented(text if index == last else f"{text},") for index, text in enumerate(texts)
    )
