"""The syntax tree of a Protobuf file, from its descriptor, with the full names of all types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from proto_schema_parser import ast

from wirekafka.schemas.protobuf import options
from wirekafka.schemas.protobuf.descriptor import SCALARS
from wirekafka.schemas.protobuf.source import escaped, unescaped

_Field = descriptor_pb2.FieldDescriptorProto
_WORDS = {number: word for word, number in SCALARS.items()}
_CARDINALITIES = {
    _Field.LABEL_OPTIONAL: ast.FieldCardinality.OPTIONAL,
    _Field.LABEL_REQUIRED: ast.FieldCardinality.REQUIRED,
    _Field.LABEL_REPEATED: ast.FieldCardinality.REPEATED,
}
_EDITIONS = {descriptor_pb2.EDITION_2023: "2023"}


def tree_of(
    file: descriptor_pb2.FileDescriptorProto, pool: DescriptorPool | None = None
) -> ast.File:
    """The tree, with entries of maps as the messages that they are.

    The pool has the files that define custom options; these are left out without it.
    """
    return _Tree(file.syntax or "proto2", pool).file(file)


def default_json_name(name: str) -> str:
    """`some_value` as `someValue`."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


class _Tree:
    def __init__(self, syntax: str, pool: DescriptorPool | None) -> None:
        self._syntax = syntax
        self._pool = pool

    def file(self, file: descriptor_pb2.FileDescriptorProto) -> ast.File:
        elements: list[Any] = []
        if file.package:
            elements.append(ast.Package(file.package))
        for index, name in enumerate(file.dependency):
            elements.append(
                ast.Import(
                    name, weak=index in file.weak_dependency, public=index in file.public_dependency
                )
            )
        elements += self._options(file)
        elements += [self._message(each) for each in file.message_type]
        elements += [self._enum(each) for each in file.enum_type]
        elements += self._extensions(file, file.message_type)
        elements += [self._service(each) for each in file.service]
        return ast.File(
            # Descriptors do not say whether the source of a file says proto2, the default.
            syntax=self._syntax if self._syntax == "proto3" else None,
            edition=_EDITIONS.get(file.edition) if file.syntax == "editions" else None,
            file_elements=elements,
        )

    def _options(self, owner: Any) -> Iterator[ast.Option]:
        if owner.HasField("options"):
            yield from options.options_of(owner.options, self._pool)

    def _message(self, message: Any) -> ast.Message:
        return ast.Message(message.name, self._elements(message))

    def _elements(self, message: Any) -> list[Any]:
        groups = {each.name: each for each in message.nested_type}
        group_names = self._group_names(message)
        elements: list[Any] = list(_reserved(message, ast.Reserved, 1))
        elements += self._options(message)
        oneofs = [ast.OneOf(each.name, list(self._options(each))) for each in message.oneof_decl]
        for field in message.field:
            element = self._field(field, groups)
            in_oneof = field.HasField("oneof_index") and not field.proto3_optional
            target = oneofs[field.oneof_index].elements if in_oneof else elements
            target.append(element)
        elements += [each for each in oneofs if _has_fields(each)]
        for each in message.extension_range:
            range_text = _range(each.start, each.end - 1, (1 << 29) - 1)
            elements.append(ast.ExtensionRange([range_text], list(self._options(each))))
        elements += [
            self._message(each) for each in message.nested_type if each.name not in group_names
        ]
        elements += [self._enum(each) for each in message.enum_type]
        elements += self._extensions(message, message.nested_type)
        return elements

    def _group_names(self, parent: Any) -> set[str]:
        return {
            field.type_name.rpartition(".")[2]
            for field in (*getattr(parent, "field", ()), *parent.extension)
            if field.type == _Field.TYPE_GROUP
        }

    def _field(self, field: Any, groups: Mapping[str, Any]) -> ast.Field | ast.Group:
        if field.type == _Field.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            elements = self._elements(groups[name]) if name in groups else []
            return ast.Group(name, field.number, self._cardinality(field), elements)
        return ast.Field(
            name=field.name,
            number=field.number,
            type=_WORDS.get(field.type) or field.type_name,
            cardinality=self._cardinality(field),
            options=list(self._field_options(field)),
        )

    def _cardinality(self, field: Any) -> ast.FieldCardinality | None:
        if field.HasField("oneof_index") and not field.proto3_optional:
            return None
        is_implicit = self._syntax != "proto2" and field.label != _Field.LABEL_REPEATED
        if is_implicit and not field.proto3_optional:
            return None
        return _CARDINALITIES[field.label]

    def _field_options(self, field: Any) -> Iterator[ast.Option]:
        yield from self._options(field)
        if field.HasField("default_value"):
            value: Any = ast.Identifier(field.default_value)
            if field.type == _Field.TYPE_STRING:
                value = escaped(field.default_value.encode())
            elif field.type == _Field.TYPE_BYTES:
                value = escaped(unescaped(field.default_value))
            yield ast.Option("default", value)
        if field.json_name and field.json_name != default_json_name(field.name):
            yield ast.Option("json_name", escaped(field.json_name.encode()))

    def _extensions(self, parent: Any, nested: Sequence[Any]) -> list[ast.Extension]:
        groups = {each.name: each for each in nested}
        found: dict[str, ast.Extension] = {}
        for field in parent.extension:
            element = self._field(field, groups)
            found.setdefault(field.extendee, ast.Extension(field.extendee)).elements.append(element)
        return list(found.values())

    def _enum(self, enum: Any) -> ast.Enum:
        elements: list[Any] = list(_reserved(enum, ast.EnumReserved, 0))
        elements += self._options(enum)
        elements += [
            ast.EnumValue(each.name, each.number, list(self._options(each))) for each in enum.value
        ]
        return ast.Enum(enum.name, elements)

    def _service(self, service: Any) -> ast.Service:
        elements: list[Any] = list(self._options(service))
        for method in service.method:
            elements.append(
                ast.Method(
                    method.name,
                    ast.MessageType(method.input_type, method.client_streaming),
                    ast.MessageType(method.output_type, method.server_streaming),
                    list(self._options(method)),
                )
            )
        return ast.Service(service.name, elements)


def _reserved(owner: Any, kind: type[Any], beyond: int) -> Iterator[Any]:
    """The ranges and the names; `beyond` is 1 if the ends of ranges are exclusive."""
    maximum = (1 << 29) - 1 if beyond else (1 << 31) - 1
    ranges = [_range(each.start, each.end - beyond, maximum) for each in owner.reserved_range]
    if ranges:
        yield kind(ranges=ranges)
    if owner.reserved_name:
        yield kind(names=[escaped(name.encode()) for name in owner.reserved_name])


def _range(first: int, last: int, maximum: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= maximum else last}"


def _has_fields(oneof: ast.OneOf) -> bool:
    return any(isinstance(each, (ast.Field, ast.Group)) for each in oneof.elements)
