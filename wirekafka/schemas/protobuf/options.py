"""Options of Protobuf, standard and custom: set in descriptors, from how they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from google.protobuf import message_factory, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from proto_schema_parser import ast

from wirekafka.schemas.protobuf.names import joined, scopes, written
from wirekafka.schemas.protobuf.source import escaped, syntax_tree, unescaped
from wirekafka.schemas.schema import SchemaError

Value: TypeAlias = Any
"""A value in a syntax tree: text, a number, a bool, an Identifier, a MessageLiteral or a list."""

_PART = re.compile(r"\(([\w.]+)\)|(\w+)")
_MAX_REASON_CHARS = 300


def is_custom(option: ast.Option) -> bool:
    """Whether an option is an extension, which a file defines."""
    return option.name.lstrip().startswith("(")


def set_option(
    owner: Any, option: ast.Option, pool: DescriptorPool | None = None, scope: str = ""
) -> None:
    """Set an option of a descriptor; what no file defines is kept as it is written.

    The files that define custom options are in the pool. Raises SchemaError.
    """
    parts = _parts(option.name)
    options = owner.options
    target = options if pool is None else _of_pool(options, pool)
    path = _path(target.DESCRIPTOR, parts, pool, scope)
    if path is None:
        _keep_uninterpreted(options, parts, option.value)
        return
    text = _text_of(path[-1], option.value)
    for part in reversed(path[:-1]):
        text = f"{part} {{ {text} }}"
    try:
        text_format.Merge(text, target, descriptor_pool=pool)
    except (text_format.ParseError, ValueError, TypeError, RecursionError) as error:
        reason = str(error)[:_MAX_REASON_CHARS]
        raise SchemaError(f"The option {option.name} is not valid: {reason}") from error
    if target is not options:
        options.ParseFromString(target.SerializeToString(deterministic=True))


def options_of(options: Message, pool: DescriptorPool | None) -> Iterator[ast.Option]:
    """The options as they are written, each value of a repeated option for itself."""
    known = options if pool is None else _of_pool(options, pool)
    for field, value in known.ListFields():
        if field.name == "uninterpreted_option":
            continue
        name = f"({field.full_name})" if field.is_extension else field.name
        for each in _values(field, value):
            yield ast.Option(name=name, value=_value_of(field, each))
    for kept in options.uninterpreted_option:
        yield ast.Option(name=_written_name(kept), value=_written_value(kept))


def _of_pool(options: Message, pool: DescriptorPool) -> Message:
    """The same options, as a message whose extensions are those in the pool."""
    try:
        descriptor = pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
    except KeyError:  # No file in the pool defines options.
        return options
    message: Message = message_factory.GetMessageClass(descriptor)()
    message.ParseFromString(options.SerializeToString())
    return message


def _parts(name: str) -> list[str]:
    """`(a.b).c` as `["(a.b)", "c"]`."""
    plain = written(name)
    parts = [match[0] for match in _PART.finditer(plain)]
    if not parts or ".".join(parts) != plain:
        raise SchemaError(f"Could not parse Protobuf - the option name {plain[:100]} is not valid")
    return parts


def _path(
    options: Descriptor, parts: list[str], pool: DescriptorPool | None, scope: str
) -> list[str] | None:
    """The names in the text format of messages; None if the first is not known."""
    path: list[str] = []
    descriptor: Descriptor | None = options
    for part in parts:
        field = None if descriptor is None else _field(descriptor, part, pool, scope)
        if field is None:
            if not path:
                return None
            raise SchemaError(f"The option {'.'.join(parts)} is not known: {part}")
        path.append(f"[{field.full_name}]" if field.is_extension else field.name)
        descriptor = field.message_type
    return path


def _field(
    descriptor: Descriptor, part: str, pool: DescriptorPool | None, scope: str
) -> FieldDescriptor | None:
    if not part.startswith("("):
        return descriptor.fields_by_name.get(part)
    if pool is None:
        return None
    name = part[1:-1]
    names = [name[1:]] if name.startswith(".") else [joined(outer, name) for outer in scopes(scope)]
    for full_name in [*names, name.lstrip(".")]:
        try:
            field = pool.FindExtensionByName(full_name)
        except KeyError:
            continue
        if field.containing_type.full_name == descriptor.full_name:
            return field
    return None


def _text_of(name: str, value: Value) -> str:
    """A field in the text format of messages, in which sources write aggregate options too."""
    return f"{name}{_text(value)}" if _is_message(value) else f"{name}: {_text(value)}"


def _is_message(value: Value) -> bool:
    return isinstance(value, ast.MessageLiteral)


def _text(value: Value) -> str:
    match value:
        case ast.MessageLiteral():
            fields = [
                _text_of(written(each.name), each.value)
                for each in value.elements
                if isinstance(each, ast.MessageLiteralField)
            ]
            return f" {{ {' '.join(fields)} }}"
        case ast.Identifier():
            return value.name
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case list():
            return f"[{', '.join(_text(each) for each in value)}]"
    return repr(value)


def _keep_uninterpreted(options: Any, parts: list[str], value: Value) -> None:
    kept = options.uninterpreted_option.add()
    for part in parts:
        is_extension = part.startswith("(")
        name = part.strip("()")
        kept.name.add(name_part=name, is_extension=is_extension)
    match value:
        case bool():
            kept.identifier_value = "true" if value else "false"
        case ast.Identifier():
            kept.identifier_value = value.name
        case str():
            kept.string_value = unescaped(value)
        case int() if 0 <= value < 1 << 64:
            kept.positive_int_value = value
        case int() if -(1 << 63) <= value < 0:
            kept.negative_int_value = value
        case int() | float():
            kept.double_value = float(value)
        case _:
            kept.aggregate_value = _text(value).strip()[1:-1].strip()


def _written_name(kept: Any) -> str:
    return ".".join(
        f"({part.name_part})" if part.is_extension else part.name_part for part in kept.name
    )


def _written_value(kept: Any) -> Value:
    if kept.HasField("identifier_value"):
        return ast.Identifier(kept.identifier_value)
    if kept.HasField("string_value"):
        return escaped(kept.string_value)
    for name in ("positive_int_value", "negative_int_value", "double_value"):
        if kept.HasField(name):
            return getattr(kept, name)
    option = syntax_tree(f"option x = {{ {kept.aggregate_value} }};").file_elements[0]
    assert isinstance(option, ast.Option)
    return option.value


def _values(field: FieldDescriptor, value: Any) -> list[Any]:
    if field.label != FieldDescriptor.LABEL_REPEATED:
        return [value]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = message_factory.GetMessageClass(field.message_type)
        return [
            entry(key=key, value=each) for key, each in sorted(value.items(), key=lambda x: x[0])
        ]
    return list(value)


def _value_of(field: FieldDescriptor, value: Any) -> Value:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return _literal(value)
        case FieldDescriptor.CPPTYPE_ENUM:
            named = field.enum_type.values_by_number.get(value)
            return ast.Identifier(named.name) if named else value
        case FieldDescriptor.CPPTYPE_STRING:
            return escaped(value if isinstance(value, bytes) else value.encode())
    return value


def _literal(message: Message) -> ast.MessageLiteral:
    fields: list[ast.MessageLiteralField | ast.Comment] = []
    for field, value in message.ListFields():
        name = f"[{field.full_name}]" if field.is_extension else field.name
        values = [_value_of(field, each) for each in _values(field, value)]
        fields.append(
            ast.MessageLiteralField(name=name, value=values[0] if len(values) == 1 else values)
        )
    return ast.MessageLiteral(elements=fields)
