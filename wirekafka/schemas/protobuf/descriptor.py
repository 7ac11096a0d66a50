"""The descriptor of a Protobuf file, from the syntax tree of its source, as protoc makes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from proto_schema_parser import ast

from wirekafka.schemas.protobuf import options
from wirekafka.schemas.protobuf.names import TypeNames, joined, written
from wirekafka.schemas.protobuf.source import unescaped
from wirekafka.schemas.schema import SchemaError

_Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
        *("bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
"""The numbers in descriptors of the types that have words in source."""

_LABELS = {
    ast.FieldCardinality.OPTIONAL: _Field.LABEL_OPTIONAL,
    ast.FieldCardinality.REQUIRED: _Field.LABEL_REQUIRED,
    ast.FieldCardinality.REPEATED: _Field.LABEL_REPEATED,
}
_EDITIONS = {"2023": descriptor_pb2.EDITION_2023}
_MAX_FIELD = (1 << 29) - 1
_MAX_EXTENSION_OF_MESSAGE_SET = (1 << 31) - 2
_MAX_ENUM = (1 << 31) - 1
_ENTRY_FIELDS = (("key", 1), ("value", 2))


@dataclass(slots=True)
class DescriptorDraft:
    """A descriptor with names of types as the source has them, and without its options."""

    file: descriptor_pb2.FileDescriptorProto
    options: list[tuple[Any, ast.Option, str]] = field(default_factory=list)
    """Descriptors, options to be set in them, and the scopes of the names of these options."""

    def resolve(self, imported: Iterable[descriptor_pb2.FileDescriptorProto]) -> None:
        """Give each name of a type its full form and its kind. Raises SchemaError."""
        names = TypeNames([self.file, *imported])
        package = self.file.package
        for message in self.file.message_type:
            _resolve_message(message, names, package)
        for extension in self.file.extension:
            _resolve_field(extension, names, package)
        for service in self.file.service:
            scope = joined(package, service.name)
            for method in service.method:
                method.input_type, _ = names.resolved(method.input_type, scope)
                method.output_type, _ = names.resolved(method.output_type, scope)

    def set_options(self) -> None:
        """Set all options that files need not define. Raises SchemaError."""
        for owner, option, scope in self.options:
            if not options.is_custom(option):
                options.set_option(owner, option, None, scope)

    def has_custom_options(self) -> bool:
        return any(options.is_custom(option) for _, option, _ in self.options)

    def set_custom_options(self, pool: DescriptorPool) -> None:
        """Set the options that files in the pool define. Raises SchemaError."""
        for owner, option, scope in self.options:
            if options.is_custom(option):
                options.set_option(owner, option, pool, scope)


def draft(tree: ast.File, name: str) -> DescriptorDraft:
    """The draft of the descriptor of a file. Raises SchemaError."""
    file = descriptor_pb2.FileDescriptorProto(name=name)
    found = DescriptorDraft(file)
    if tree.edition is not None:
        if tree.edition not in _EDITIONS:
            raise SchemaError(f"The edition {tree.edition[:50]} is not supported")
        file.syntax, file.edition = "editions", _EDITIONS[tree.edition]
    elif tree.syntax not in (None, "proto2", "proto3"):
        raise SchemaError(f"Could not parse Protobuf - unknown syntax: {tree.syntax[:50]}")
    elif tree.syntax == "proto3":
        file.syntax = tree.syntax
    packages = [each for each in tree.file_elements if isinstance(each, ast.Package)]
    if len(packages) > 1:
        raise SchemaError("Could not parse Protobuf - more than one package")
    if packages:
        file.package = written(packages[0].name)
    _FileDraft(found).add(tree.file_elements)
    return found


@dataclass(slots=True)
class _FileDraft:
    draft: DescriptorDraft

    def add(self, elements: Sequence[object]) -> None:
        file = self.draft.file
        for element in elements:
            match element:
                case ast.Import():
                    self._import(element)
                case ast.Option():
                    self._option(file, element, file.package)
                case ast.Message():
                    self._message(file.message_type.add(), element, file.package)
                case ast.Enum():
                    self._enum(file.enum_type.add(), element, file.package)
                case ast.Extension():
                    self._extension(file, element, file.package)
                case ast.Service():
                    self._service(element)

    def _import(self, element: ast.Import) -> None:
        file = self.draft.file
        if element.name in file.dependency:
            raise SchemaError(f'Import "{element.name}" was listed twice')
        if element.public:
            file.public_dependency.append(len(file.dependency))
        if element.weak:
            file.weak_dependency.append(len(file.dependency))
        file.dependency.append(element.name)

    def _option(self, owner: Any, option: ast.Option, scope: str) -> None:
        self.draft.options.append((owner, option, scope))

    def _message(self, message: Any, element: ast.Message | ast.Group, scope: str) -> None:
        message.name = element.name
        scope = joined(scope, element.name)
        maximum = _max_extension(element)
        for each in element.elements:
            self._message_element(message, each, scope, maximum)
        # protoc counts the oneofs of optional fields after those in the source.
        taken = {
            *(each.name for each in message.field),
            *(each.name for each in message.oneof_decl),
        }
        for each in message.field:
            if each.proto3_optional:
                name = each.name if each.name.startswith("_") else f"_{each.name}"
                while name in taken:
                    name = f"X{name}"
                taken.add(name)
                each.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _message_element(self, message: Any, element: object, scope: str, maximum: int) -> None:
        match element:
            case ast.Field():
                self._field(message.field.add(), element, scope)
            case ast.MapField():
                self._map_field(message, element, scope)
            case ast.Group():
                self._group(message.field.add(), message, element, scope)
            case ast.OneOf():
                self._oneof(message, element, scope)
            case ast.Option():
                self._option(message, element, scope)
            case ast.ExtensionRange():
                for start, end in _ranges(element.ranges, maximum):
                    added = message.extension_range.add(start=start, end=end + 1)
                    for option in element.options:
                        self._option(added, option, scope)
            case ast.Reserved():
                for start, end in _ranges(element.ranges, _MAX_FIELD):
                    message.reserved_range.add(start=start, end=end + 1)
                message.reserved_name.extend(element.names)
            case ast.Message():
                self._message(message.nested_type.add(), element, scope)
            case ast.Enum():
                self._enum(message.enum_type.add(), element, scope)
            case ast.Extension():
                self._extension(message, element, scope)

    def _field(self, found: Any, element: ast.Field, scope: str) -> None:
        self._set(found, element.name, element.number, element.type)
        found.label = self._label(element)
        is_optional = element.cardinality is ast.FieldCardinality.OPTIONAL
        if is_optional and self.draft.file.syntax == "proto3":
            found.proto3_optional = True
        self._field_options(found, element.options, scope)

    def _label(self, element: ast.Field) -> Any:
        syntax = self.draft.file.syntax
        if element.cardinality is None:
            if not syntax:
                raise SchemaError(
                    f"Could not parse Protobuf - unexpected label: the field {element.name[:100]}"
                    " is not optional, required or repeated, as syntax proto2 needs it"
                )
            return _Field.LABEL_OPTIONAL
        if element.cardinality is ast.FieldCardinality.REQUIRED and syntax:
            raise SchemaError(
                "Could not parse Protobuf - 'required' label forbidden in proto3 field"
                f" declarations: {element.name[:100]}"
            )
        return _LABELS[element.cardinality]

    def _set(self, found: Any, name: str, number: int, type_name: str) -> None:
        if not 0 < number <= _MAX_EXTENSION_OF_MESSAGE_SET:
            raise SchemaError(f"The number of the field {name[:100]} is out of range")
        found.name, found.number = name, number
        type_name = written(type_name)
        if type_name in SCALARS:
            found.type = SCALARS[type_name]
        else:
            found.type_name = type_name

    def _field_options(self, found: Any, options: Sequence[ast.Option], scope: str) -> None:
        for option in options:
            name = written(option.name)
            if name == "default":
                found.default_value = _default(found, option.value)
            elif name == "json_name" and isinstance(option.value, str):
                found.json_name = unescaped(option.value).decode(errors="replace")
            else:
                self._option(found, option, scope)

    def _map_field(self, message: Any, element: ast.MapField, scope: str) -> None:
        entry = message.nested_type.add(name=_entry_name(element.name))
        entry.options.map_entry = True
        types = (element.key_type, element.value_type)
        for (name, number), type_name in zip(_ENTRY_FIELDS, types, strict=True):
            self._set(
                added := entry.field.add(label=_Field.LABEL_OPTIONAL), name, number, type_name
            )
            if added.type == _Field.TYPE_GROUP:
                raise SchemaError("Map fields have no groups")
        found = message.field.add(label=_Field.LABEL_REPEATED)
        self._set(found, element.name, element.number, entry.name)
        self._field_options(found, element.options, scope)

    def _group(self, found: Any, parent: Any, element: ast.Group, scope: str) -> None:
        """The field is named like its type, in lower case."""
        if self.draft.file.syntax:
            raise SchemaError("Could not parse Protobuf - 'group' is for syntax proto2")
        self._set(found, element.name.lower(), element.number, element.name)
        found.type = _Field.TYPE_GROUP
        found.label = _LABELS[element.cardinality or ast.FieldCardinality.OPTIONAL]
        nested = parent.nested_type if hasattr(parent, "nested_type") else parent.message_type
        self._message(nested.add(), element, scope)

    def _oneof(self, message: Any, element: ast.OneOf, scope: str) -> None:
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=element.name)
        for each in element.elements:
            match each:
                case ast.Field():
                    found = message.field.add(label=_Field.LABEL_OPTIONAL, oneof_index=index)
                    self._set(found, each.name, each.number, each.type)
                    self._field_options(found, each.options, scope)
                case ast.Group():
                    found = message.field.add(oneof_index=index)
                    self._group(found, message, each, scope)
                case ast.Option():
                    self._option(oneof, each, scope)

    def _extension(self, parent: Any, element: ast.Extension, scope: str) -> None:
        for each in element.elements:
            match each:
                case ast.Field():
                    found = parent.extension.add(extendee=written(element.typeName))
                    self._field(found, each, scope)
                case ast.Group():
                    found = parent.extension.add(extendee=written(element.typeName))
                    self._group(found, parent, each, scope)

    def _enum(self, enum: Any, element: ast.Enum, scope: str) -> None:
        enum.name = element.name
        scope = joined(scope, element.name)
        for each in element.elements:
            match each:
                case ast.EnumValue():
                    if not -_MAX_ENUM - 1 <= each.number <= _MAX_ENUM:
                        raise SchemaError(f"The number of {each.name[:100]} is out of range")
                    value = enum.value.add(name=each.name, number=each.number)
                    for option in each.options:
                        self._option(value, option, scope)
                case ast.Option():
                    self._option(enum, each, scope)
                case ast.EnumReserved():
                    for start, end in _ranges(each.ranges, _MAX_ENUM):
                        enum.reserved_range.add(start=start, end=end)
                    enum.reserved_name.extend(each.names)

    def _service(self, element: ast.Service) -> None:
        service = self.draft.file.service.add(name=element.name)
        scope = joined(self.draft.file.package, element.name)
        for each in element.elements:
            match each:
                case ast.Option():
                    self._option(service, each, scope)
                case ast.Method():
                    method = service.method.add(name=each.name)
                    method.input_type = written(each.input_type.type)
                    method.output_type = written(each.output_type.type)
                    if each.input_type.stream:
                        method.client_streaming = True
                    if each.output_type.stream:
                        method.server_streaming = True
                    for option in each.elements:
                        if isinstance(option, ast.Option):
                            self._option(method, option, scope)


def _max_extension(message: ast.Message | ast.Group) -> int:
    is_set = any(
        isinstance(each, ast.Option) and each.name == "message_set_wire_format" and each.value
        for each in message.elements
    )
    return _MAX_EXTENSION_OF_MESSAGE_SET if is_set else _MAX_FIELD


def _ranges(texts: Sequence[str], maximum: int) -> Iterator[tuple[int, int]]:
    """The first and last number of each."""
    for text in texts:
        words = text.split()
        first = int(words[0])
        last = first if len(words) == 1 else maximum if words[-1] == "max" else int(words[-1])
        if not -_MAX_ENUM - 1 <= first <= last <= maximum:
            raise SchemaError(f"The range {text[:100]} is not valid")
        yield first, last


def _entry_name(field_name: str) -> str:
    """`some_values` as `SomeValuesEntry`."""
    parts = field_name.split("_")
    return "".join(part[:1].upper() + part[1:] for part in parts) + "Entry"


def _default(found: Any, value: options.Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case ast.Identifier():
            return value.name
        case str() if found.type == _Field.TYPE_BYTES:
            return _escaped_for_bytes(unescaped(value))
        case str():
            return unescaped(value).decode(errors="replace")
        case int() | float() if found.type in (_Field.TYPE_DOUBLE, _Field.TYPE_FLOAT):
            return _shortest(float(value), found.type == _Field.TYPE_FLOAT)
        case int() | float():
            return str(value)
    raise SchemaError(f"The default of the field {found.name} is not valid")


def _escaped_for_bytes(value: bytes) -> str:
    """As protoc writes the defaults of bytes: all that does not print in ASCII in octal."""
    escapes = {9: r"\t", 10: r"\n", 13: r"\r", 34: r"\"", 39: r"\'", 92: r"\\"}
    return "".join(
        escapes.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value
    )


def _shortest(value: float, is_single: bool) -> str:
    """A number with the fewest digits that give it back, of two numbers of digits."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    few, many = (6, 9) if is_single else (15, 17)
    text = f"{value:.{few}g}"
    return text if float(text) == value else f"{value:.{many}g}"


def _resolve_message(message: Any, names: TypeNames, scope: str) -> None:
    scope = joined(scope, message.name)
    for each in (*message.field, *message.extension):
        _resolve_field(each, names, scope)
    for nested in message.nested_type:
        _resolve_message(nested, names, scope)


def _resolve_field(found: Any, names: TypeNames, scope: str) -> None:
    if found.extendee:
        found.extendee, _ = names.resolved(found.extendee, scope)
    if found.type_name:
        full_name, kind = names.resolved(found.type_name, scope)
        found.type_name = full_name
        if found.type != _Field.TYPE_GROUP:
            found.type = kind
