"""Avro schemas: parsed, written and compared as Java's library does, which registries rely on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, assert_never

from wirekafka.schemas.avro.compatibility import AvroIncompatibility, TooComplex, incompatibilities
from wirekafka.schemas.avro.text import canonical_text, json_text, normalized_text
from wirekafka.schemas.avro.types import (
    MAX_DEPTH,
    PRIMITIVES,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroName,
    AvroNamed,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    AvroUnresolved,
    branch_name,
)
from wirekafka.schemas.avro.values import AvroCodec
from wirekafka.schemas.schema import Dependency, Format, ParsedSchema, SchemaError

_TOO_DEEP = "The schema is nested too deeply"
_LAST_OF_JAVA = "\uffff"
"""Java looks at names by 16 bits, of which a pair is no letter."""
_ASCII_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_FIXED_BYTES = 2_147_483_639
_ORDERS = frozenset(("ascending", "descending", "ignore"))
_TYPE_ATTRIBUTES = frozenset(
    ["doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"]
)
_ENUM_ATTRIBUTES = _TYPE_ATTRIBUTES | {"default"}
_FIELD_ATTRIBUTES = frozenset(["default", "doc", "name", "order", "type", "aliases"])
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)'
_TOKENS = re.compile(_STRING + r'|/\*.*?(?:\*/|\Z)|//[^\n]*+|[^"/]++|/', re.DOTALL)
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)")


def parse(text: str, dependencies: Sequence[Dependency] = ()) -> AvroSchema:
    """The schema of a text that is new to a registry: its defaults have to be of their types.

    Types may be used before their definition, as Java allows. Raises SchemaError.
    """
    return _parsed(text, dependencies, _CheckingParser)


def parse_stored(text: str, dependencies: Sequence[Dependency] = ()) -> AvroSchema:
    """The schema of a text that a registry holds: registries once took defaults of any type."""
    return _parsed(text, dependencies, _Parser)


Json = dict[str, Any]
NamedTypes = Mapping[str, AvroNamed]


class AvroSchema:
    """A parsed Avro schema, with the types of the texts that it refers to."""

    format = Format.AVRO

    def __init__(self, root: AvroType, referenced: frozenset[str], canonical: str):
        self._root = root
        self._referenced = referenced
        self._canonical = canonical

    @property
    def canonical(self) -> str:
        return self._canonical

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self._canonical == other._canonical

    def __hash__(self) -> int:
        return hash(self._canonical)

    @property
    def root(self) -> AvroType:
        """The type of its values."""
        return self._root

    def normalized(self) -> AvroSchema:
        text = normalized_text(self._root, self._referenced)
        return AvroSchema(self._root, self._referenced, text)

    def resolved(self) -> str:
        """The text with the definitions of all types that it refers to."""
        return canonical_text(self._root, frozenset())

    def incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        assert isinstance(older, AvroSchema)
        try:
            return [str(each) for each in self.reasons(older)]
        except TooComplex as error:
            return [f"Unexpected exception during compatibility check: {error}"]

    def lenient_incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        """The same as `incompatibilities`: the policy is about JSON's content models."""
        return self.incompatibilities(older)

    def reasons(self, older: AvroSchema) -> Sequence[AvroIncompatibility]:
        """Each difference because of which the schema cannot read data of `older`.

        Raises TooComplex.
        """
        return incompatibilities(self._root, older._root)

    def name(self) -> str | None:
        return self._root.name.full if isinstance(self._root, AvroNamed) else None

    def decoded(self, payload: bytes) -> Any:
        return self._codec.decoded(payload)

    def encoded(self, value: Any) -> bytes:
        return self._codec.encoded(value)

    @cached_property
    def _codec(self) -> AvroCodec:
        return AvroCodec(self._root)


def _parsed(
    text: str, dependencies: Sequence[Dependency], new_parser: Callable[[NamedTypes], _Parser]
) -> AvroSchema:
    try:
        before = _Parser({})
        for dependency in dict.fromkeys(dependencies):
            before.type_of(dependency.text)
        root = new_parser(before.named).type_of(text)
        referenced = frozenset(before.named)
        return AvroSchema(root, referenced, canonical_text(root, referenced))
    except RecursionError:
        raise SchemaError(_TOO_DEEP) from None


class _Parser:
    """The types of several texts, each of which may refer to types of the texts before it."""

    def __init__(self, named: NamedTypes) -> None:
        self.named = dict(named)
        self._depth = 0
        self._has_unresolved = False

    def type_of(self, text: str) -> AvroType:
        root = self._type(_json(text), "")
        if self._has_unresolved:
            root = _resolved(root, self.named)
            self._has_unresolved = False
        return root

    def _type(self, json: Any, namespace: str) -> AvroType:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaError(_TOO_DEEP)
        match json:
            case str():
                found = self._found(json, namespace)
            case dict():
                found = self._defined(json, namespace)
            case list():
                found = self._union(json, namespace)
            case _:
                raise SchemaError(f"Schema not yet supported: {json_text(json)}")
        self._depth -= 1
        return found

    def _found(self, name: str, namespace: str) -> AvroType:
        """A primitive type or a named type; a name is looked up in its namespace first."""
        if name in PRIMITIVES:
            return AvroPrimitive(name)
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        found = self.named.get(full) or self.named.get(name)
        if found is not None:
            return found
        self._has_unresolved = True
        return AvroUnresolved(full)

    def _union(self, json: list[Any], namespace: str) -> AvroUnion:
        if any(isinstance(each, list) for each in json):
            raise SchemaError(f"Nested union: {json_text(json)}")
        branches = [self._type(each, namespace) for each in json]
        _check_branches(branches)
        return AvroUnion(branches)

    def _defined(self, json: Json, namespace: str) -> AvroType:
        match json.get("type"):
            case "record" | "error":
                return self._record(json, namespace)
            case "enum":
                return self._enum(json, namespace)
            case "fixed":
                return self._fixed(json, namespace)
            case "array":
                items = self._part(json, "items", "Array has no items type", namespace)
                return AvroArray(items, _properties(json, _TYPE_ATTRIBUTES))
            case "map":
                values = self._part(json, "values", "Map has no values type", namespace)
                return AvroMap(values, _properties(json, _TYPE_ATTRIBUTES))
            case str() as word:
                if word in PRIMITIVES:
                    return AvroPrimitive(word, _properties(json, _TYPE_ATTRIBUTES))
                return self._found(word, namespace)
        raise SchemaError(f"No type: {json_text(json)}")

    def _part(self, json: Json, attribute: str, error: str, namespace: str) -> AvroType:
        if attribute not in json:
            raise SchemaError(f"{error}: {json_text(json)}")
        return self._type(json[attribute], namespace)

    def _record(self, json: Json, namespace: str) -> AvroRecord:
        name = _name(json, namespace)
        record = AvroRecord(name, _optional(json, "doc"), json["type"] == "error")
        known = self.named.get(name.full)
        if known is None:
            self.named[name.full] = record
        elif not isinstance(known, AvroRecord) or known.fields is not None:
            raise SchemaError(f"Can't redefine: {name.full}")
        fields = json.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"Record has no fields: {json_text(json)}")
        parsed: dict[str, AvroField] = {}
        for each in fields:
            field = self._field(each, name.namespace)
            if field.name in parsed:
                raise SchemaError(f"Duplicate field {field.name} in record {name.full}")
            parsed[field.name] = field
        record.fields = list(parsed.values())
        record.properties = _properties(json, _TYPE_ATTRIBUTES)
        record.aliases = _aliases(json, name.namespace)
        return record

    def _field(self, json: Any, namespace: str) -> AvroField:
        if not isinstance(json, dict) or not isinstance(json.get("name"), str):
            raise SchemaError(f"No field name: {json_text(json)}")
        name = _checked_name(json["name"])
        type = self._part(json, "type", "No field type", namespace)
        default = json.get("default")
        if isinstance(default, str) and type.word in ("float", "double"):
            default = _double_of(default)
        order = json.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise SchemaError(f"The order of field {name} is unknown: {json_text(order)}")
        return AvroField(
            name=name,
            type=type,
            doc=_optional(json, "doc"),
            has_default="default" in json,
            default=default,
            order=order.lower(),
            aliases=list(dict.fromkeys(_alias_texts(json))),
            properties=_properties(json, _FIELD_ATTRIBUTES),
        )

    def _enum(self, json: Json, namespace: str) -> AvroType:
        name, symbols = _name(json, namespace), json.get("symbols")
        if not isinstance(symbols, list):
            raise SchemaError(f"Enum has no symbols: {json_text(json)}")
        seen = set()
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise SchemaError(f"Symbols of enum {name.full} are names: {json_text(symbol)}")
            if _checked_name(symbol) in seen:
                raise SchemaError(f"Duplicate enum symbol: {symbol}")
            seen.add(symbol)
        default = _optional(json, "default")
        if default is not None and default not in seen:
            text = f"[{', '.join(symbols)}]"
            raise SchemaError(f"The Enum Default: {default} is not in the enum symbol set: {text}")
        enum = AvroEnum(name, _optional(json, "doc"), symbols, default)
        return self._put(enum, json, _ENUM_ATTRIBUTES)

    def _fixed(self, json: Json, namespace: str) -> AvroType:
        name, size = _name(json, namespace), json.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size >= 1 << 31:
            raise SchemaError(f"Invalid or no size: {json_text(json)}")
        if size < 0:
            raise SchemaError(f"Malformed data. Length is negative: {size}")
        if size > _MAX_FIXED_BYTES:
            raise SchemaError(f"Cannot read arrays longer than {_MAX_FIXED_BYTES} bytes")
        fixed = AvroFixed(name, _optional(json, "doc"), size)
        return self._put(fixed, json, _TYPE_ATTRIBUTES)

    def _put(self, type: AvroEnum | AvroFixed, json: Json, own: frozenset[str]) -> AvroType:
        """The type, or its equal of the same name that was defined before, as Java allows."""
        known = self.named.get(type.name.full)
        if known is None:
            type.properties = _properties(json, own)
            type.aliases = _aliases(json, type.name.namespace)
            self.named[type.name.full] = type
            return type
        match known, type:
            case AvroEnum(), AvroEnum():
                is_equal = known.symbols == type.symbols
            case AvroFixed(), AvroFixed():
                is_equal = known.size_bytes == type.size_bytes
            case _:
                is_equal = False
        if not is_equal or known.properties:
            raise SchemaError(f"Can't redefine: {type.name.full}")
        return known


class _CheckingParser(_Parser):
    """A parser that refuses defaults which are not values of their types."""

    def __init__(self, named: Mapping[str, AvroNamed]):
        super().__init__(named)
        self._defaults: list[AvroField] = []

    def type_of(self, text: str) -> AvroType:
        root = super().type_of(text)
        for field in self._defaults:
            _check_default(field)
        return root

    def _field(self, json: Any, namespace: str) -> AvroField:
        field = super()._field(json, namespace)
        if field.has_default:
            # A record that is still open has no value yet: Java refuses a default of its type.
            _check_default(field)
            if self._has_unresolved:
                self._defaults.append(field)
        return field


def _check_default(field: AvroField) -> None:
    if not _is_value(field.type, field.default):
        default, text = json_text(field.default), canonical_text(field.type, ())
        raise SchemaError(f"Invalid default for field {field.name}: {default} not a {text}")


def _is_value(type: AvroType, json: Any) -> bool:
    """Whether a JSON value is a default of a type, by Java's rules: any branch of a union may be.

    Symbols of enums, sizes of fixed types and the characters of bytes are not looked at.
    """
    match type:
        case AvroPrimitive():
            return _is_primitive(type.word, json)
        case AvroEnum() | AvroFixed():
            return isinstance(json, str)
        case AvroArray():
            return isinstance(json, list) and all(_is_value(type.items, each) for each in json)
        case AvroMap():
            parts = json.values() if isinstance(json, dict) else ()
            return isinstance(json, dict) and all(_is_value(type.values, each) for each in parts)
        case AvroUnion():
            return any(_is_value(branch, json) for branch in type.branches)
        case AvroRecord():
            return isinstance(json, dict) and _has_fields(type, json)
        case AvroUnresolved():
            return isinstance(json, dict)
    assert_never(type)


def _has_fields(record: AvroRecord, json: Json) -> bool:
    if record.fields is None:
        raise SchemaError(f"A default cannot be of the type that contains it: {record.name.full}")
    return all(
        # The default of a field has been checked where the field is defined.
        _is_value(field.type, json[field.name]) if field.name in json else field.has_default
        for field in record.fields
    )


def _is_primitive(word: str, json: Any) -> bool:
    match word:
        case "null":
            return json is None
        case "boolean":
            return isinstance(json, bool)
        case "string" | "bytes":
            return isinstance(json, str)
        case "float" | "double":
            return isinstance(json, int | float) and not isinstance(json, bool)
    bits = 31 if word == "int" else 63
    is_integer = isinstance(json, int) and not isinstance(json, bool)
    return is_integer and -1 << bits <= json < 1 << bits


def _resolved(root: AvroType, named: Mapping[str, AvroNamed]) -> AvroType:
    """A type in which each name that was used before its definition is its type."""

    def definition(type: AvroType) -> AvroType:
        if not isinstance(type, AvroUnresolved):
            return type
        if type.full not in named:
            raise SchemaError(f"Undefined schema: {type.full}")
        return named[type.full]

    root = definition(root)
    ahead, seen = [root], set[int]()
    while ahead:
        type = ahead.pop()
        if id(type) in seen:
            continue
        seen.add(id(type))
        match type:
            case AvroArray():
                type.items = definition(type.items)
                ahead.append(type.items)
            case AvroMap():
                type.values = definition(type.values)
                ahead.append(type.values)
            case AvroUnion():
                type.branches = [definition(each) for each in type.branches]
                _check_branches(type.branches)
                ahead.extend(type.branches)
            case AvroRecord():
                for field in type.fields or ():
                    field.type = definition(field.type)
                    ahead.append(field.type)
    return root


def _check_branches(branches: Sequence[AvroType]) -> None:
    seen = set()
    for branch in branches:
        name = branch_name(branch)
        if name in seen:
            raise SchemaError(f"Duplicate in union:{name}")
        seen.add(name)


def _json(text: str) -> Any:
    """The JSON of a text. Comments are allowed before its end, as Java's parser allows them."""
    if not text:
        raise SchemaError("Cannot parse <null> schema")
    try:
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError:
            if "/" not in text:
                raise
            value = json.loads(_without_comments(text), parse_constant=_refuse_constant)
    except ValueError as error:
        raise SchemaError(str(error)) from None
    if _SURROGATE.search(text):
        # Half of a pair is no character. Java writes a question mark.
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def _refuse_constant(word: str) -> None:
    raise SchemaError(f"Non-standard token '{word}'")


def _without_comments(text: str) -> str:
    tokens: Iterator[str] = (match[0] for match in _TOKENS.finditer(text.rstrip()))
    kept = [" " if token.startswith(("//", "/*")) else token for token in tokens]
    if kept[-1] == " ":
        raise SchemaError("dangling content after end of schema")
    return "".join(kept)


def _name(json: Json, namespace: str) -> AvroName:
    """The name that a definition gives itself: a dot in the name precedes the attribute."""
    text = _optional(json, "name")
    if text is None:
        raise SchemaError(f"No name in schema: {json_text(json)}")
    own = _optional(json, "namespace")
    name = _qualified(text, namespace if own is None else own)
    for part in name.namespace.split(".") if name.namespace else ():
        reason = _wrong_name(part)
        if reason:
            raise SchemaError(f'Namespace part "{part}" is invalid: {reason}')
    if name.full in PRIMITIVES:
        raise SchemaError(f"Schemas may not be named after primitives: {name.full}")
    return name


def _qualified(text: str, namespace: str) -> AvroName:
    before, dot, last = text.rpartition(".")
    return AvroName(_checked_name(last), before if dot else namespace)


def _checked_name(name: str) -> str:
    reason = _wrong_name(name)
    if reason:
        raise SchemaError(reason)
    return name


def _wrong_name(name: str) -> str | None:
    """Why a text is no name: names have letters and digits of any script, and underscores."""
    if _ASCII_NAME.fullmatch(name):
        return None
    if not name:
        return "Empty name"
    if not _is_letter(name[0]):
        return f"Illegal initial character: {name}"
    if not all(_is_letter(each) or each.isdecimal() for each in name):
        return f"Illegal character in: {name}"
    return None


def _is_letter(character: str) -> bool:
    return character == "_" or (character.isalpha() and character <= _LAST_OF_JAVA)


def _aliases(json: Json, namespace: str) -> Sequence[AvroName]:
    return list(dict.fromkeys(_qualified(each, namespace) for each in _alias_texts(json)))


def _alias_texts(json: Json) -> Iterable[str]:
    aliases = json.get("aliases", ())
    if not isinstance(aliases, list | tuple):
        raise SchemaError(f"aliases not an array: {json_text(json)}")
    for alias in aliases:
        if not isinstance(alias, str):
            raise SchemaError(f"alias not a string: {json_text(alias)}")
        yield alias


def _optional(json: Json, attribute: str) -> str | None:
    value = json.get(attribute)
    return value if isinstance(value, str) else None


def _properties(json: Json, own: frozenset[str]) -> Mapping[str, Any]:
    return {name: value for name, value in json.items() if name not in own}


def _double_of(text: str) -> float:
    """The number in a text that stands for one, such as NaN."""
    trimmed = text.strip()
    if not _DOUBLE.fullmatch(trimmed):
        raise SchemaError(f'For input string: "{text}"')
    return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
