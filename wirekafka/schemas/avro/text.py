"""The text of an Avro schema, byte for byte as Java's `Schema.toString()` writes it.

Registries compare these texts to find a schema again, so the order of attributes, the spelling of
numbers and the place of each namespace count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from math import copysign, inf, isfinite, isnan, log10
from struct import Struct
from typing import Any, TypeAlias, TypeGuard, assert_never

from wirekafka.schemas.avro.types import (
    MAX_DEPTH,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNamed,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    AvroUnresolved,
)
from wirekafka.schemas.schema import SchemaError

_Annotated: TypeAlias = AvroPrimitive | AvroArray | AvroMap | AvroNamed

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_LOGICAL = ("logicalType",)
_DECIMAL = ("logicalType", "precision", "scale")
_INSTANTS = tuple(
    f"{prefix}timestamp-{unit}"
    for prefix in ("", "local-")
    for unit in ("millis", "micros", "nanos")
)
_LOGICAL_WORDS = {
    "int": ("date", "time-millis"),
    "long": ("time-micros", *_INSTANTS),
    "bytes": ("big-decimal",),
}
_FLOAT, _FLOAT_DIGITS = Struct(">f"), 9
_UUID_BYTES, _DURATION_BYTES = 16, 12
_PLAIN_EXPONENTS = range(-3, 7)
"""Powers of ten for which Java writes a number without an exponent."""


def canonical_text(root: AvroType, referenced: Iterable[str]) -> str:
    """The text of a schema, in which the types of other texts appear by their names only."""
    return _Text(set(referenced)).of(root, "")


def normalized_text(root: AvroType, referenced: Iterable[str]) -> str:
    """The canonical text with what has no order sorted, and without empty documentation.

    As Confluent's: the namespace is left out of types that have none in types that have one, so
    that these types change their names.
    """
    return _SortedText(set(referenced)).of(root, "")


def json_text(value: Any) -> str:
    """A JSON value as Jackson writes it."""
    match value:
        case str():
            return _quoted(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _double(value)
        case list():
            return f"[{','.join(map(json_text, value))}]"
        case _:
            parts = (f"{_quoted(name)}:{json_text(each)}" for name, each in value.items())
            return f"{{{','.join(parts)}}}"


class _Text:
    """The parts of a text, each type in the namespace that encloses it."""

    def __init__(self, known: set[str]):
        self._known = known
        self._depth = 0

    def of(self, type: AvroType, namespace: str) -> str:
        # A type that is used before its definition is written where it is used first.
        if self._depth == MAX_DEPTH:
            raise SchemaError("The schema is nested too deeply")
        self._depth += 1
        text = self._of(type, namespace)
        self._depth -= 1
        return text

    def _of(self, type: AvroType, namespace: str) -> str:
        match type:
            case AvroPrimitive():
                word = _quoted(type.word)
                return f'{{"type":{word}{self._annotations(type)}}}' if type.properties else word
            case AvroArray():
                items, more = self.of(type.items, namespace), self._annotations(type)
                return f'{{"type":"array","items":{items}{more}}}'
            case AvroMap():
                values, more = self.of(type.values, namespace), self._annotations(type)
                return f'{{"type":"map","values":{values}{more}}}'
            case AvroUnion():
                return f"[{','.join([self.of(each, namespace) for each in type.branches])}]"
            case AvroRecord() | AvroEnum() | AvroFixed():
                return self._named(type, namespace)
            case AvroUnresolved():
                return _quoted(type.full)
        assert_never(type)

    def _named(self, type: AvroNamed, namespace: str) -> str:
        if type.name.full in self._known:
            return _quoted(type.name.within(namespace))
        self._known.add(type.name.full)
        word = "error" if isinstance(type, AvroRecord) and type.is_error else type.word
        parts = [f'{{"type":"{word}","name":{_quoted(type.name.name)}']
        inner = self._inner(type, namespace)
        if inner != namespace:
            parts.append(f',"namespace":{_quoted(inner)}')
        parts.append(self._doc(type.doc))
        match type:
            case AvroRecord():
                fields = ",".join([self._field(each, inner) for each in type.fields or ()])
                parts.append(f',"fields":[{fields}]')
            case AvroEnum():
                parts.append(f',"symbols":[{",".join(map(_quoted, type.symbols))}]')
                if type.default is not None:
                    parts.append(f',"default":{_quoted(type.default)}')
            case AvroFixed():
                parts.append(f',"size":{type.size_bytes}')
        parts.append(self._annotations(type))
        parts.append(self._aliases(self._alias_names(type)))
        parts.append("}")
        return "".join(parts)

    def _field(self, field: AvroField, namespace: str) -> str:
        parts = [f'{{"name":{_quoted(field.name)},"type":{self.of(field.type, namespace)}']
        parts.append(self._doc(field.doc))
        if field.has_default:
            parts.append(f',"default":{self._default(field)}')
        if field.order != "ascending":
            parts.append(f',"order":"{field.order}"')
        parts.append(self._aliases(self._field_aliases(field)))
        parts.append(self._properties(field.properties))
        parts.append("}")
        return "".join(parts)

    def _doc(self, doc: str | None) -> str:
        return "" if doc is None else f',"doc":{_quoted(doc)}'

    def _aliases(self, aliases: Iterable[str]) -> str:
        texts = ",".join(map(_quoted, aliases))
        return f',"aliases":[{texts}]' if texts else ""

    def _inner(self, type: AvroNamed, namespace: str) -> str:
        """The namespace in which the fields of a type are written."""
        return type.name.namespace

    def _alias_names(self, type: AvroNamed) -> Iterable[str]:
        return [alias.within(type.name.namespace) for alias in type.aliases]

    def _default(self, field: AvroField) -> str:
        return self._value(field.default)

    def _field_aliases(self, field: AvroField) -> Iterable[str]:
        return field.aliases

    def _annotations(self, type: _Annotated) -> str:
        return self._properties(type.properties)

    def _properties(self, properties: Mapping[str, Any]) -> str:
        return "".join([f",{_quoted(name)}:{self._value(properties[name])}" for name in properties])

    def _value(self, value: Any) -> str:
        return json_text(value)


class _SortedText(_Text):
    """The text of all schemas that differ only in the order of what has none."""

    def _doc(self, doc: str | None) -> str:
        return super()._doc(doc or None)

    def _inner(self, type: AvroNamed, namespace: str) -> str:
        return type.name.namespace or namespace

    def _alias_names(self, type: AvroNamed) -> Iterable[str]:
        ordered = sorted(type.aliases, key=lambda alias: alias.full)
        return [alias.within(type.name.namespace) for alias in ordered]

    def _default(self, field: AvroField) -> str:
        return self._value(_typed(field.type, field.default))

    def _field_aliases(self, field: AvroField) -> Iterable[str]:
        return sorted(field.aliases)

    def _annotations(self, type: _Annotated) -> str:
        first = [name for name in _logical_names(type) if name in type.properties]
        rest = sorted(type.properties.keys() - set(first))
        return super()._properties({name: type.properties[name] for name in (*first, *rest)})

    def _properties(self, properties: Mapping[str, Any]) -> str:
        return super()._properties(dict(sorted(properties.items())))

    def _value(self, value: Any) -> str:
        return json_text(_sorted(value))


def _is_valid_decimal(properties: Mapping[str, Any], size_bytes: int | None) -> bool:
    precision, scale = properties.get("precision"), properties.get("scale", 0)
    if not (_is_integer(precision) and _is_integer(scale)):
        return False
    largest = precision if size_bytes is None else int(log10(2) * (8 * size_bytes - 1))
    return bool(0 < precision <= largest and 0 <= scale <= precision)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _logical_names(type: _Annotated) -> Sequence[str]:
    """The properties that make up a logical type which Java's library knows and finds valid."""
    properties = type.properties
    word = properties.get("logicalType")
    size = type.size_bytes if isinstance(type, AvroFixed) else None
    match getattr(type, "word", ""), word:
        case ("string", "uuid") if "avro.java.string" not in properties:
            return _LOGICAL
        case ("fixed", "uuid") if size == _UUID_BYTES:
            return _LOGICAL
        case ("fixed", "duration") if size == _DURATION_BYTES:
            return _LOGICAL
        case (("int" | "long" | "bytes"), _) if word in _LOGICAL_WORDS[type.word]:
            return _LOGICAL
        case (("bytes" | "fixed"), "decimal") if _is_valid_decimal(properties, size):
            return _DECIMAL if properties.get("scale") else _DECIMAL[:2]
    return ()


def _typed(type: AvroType, value: Any) -> Any:
    """A default value with the numbers that its type has: a double, or the nearest float."""
    match type, value:
        case AvroUnion(), _ if type.branches:
            return _typed(type.branches[0], value)
        case AvroArray(), list():
            return [_typed(type.items, each) for each in value]
        case AvroMap(), dict():
            return {name: _typed(type.values, each) for name, each in value.items()}
        case AvroRecord(), dict():
            types = {field.name: field.type for field in type.fields or ()}
            return {
                name: _typed(types[name], each) if name in types else each
                for name, each in value.items()
            }
        case AvroPrimitive(word="double"), int() | float() if not isinstance(value, bool):
            return _float_of(value)
        case AvroPrimitive(word="float"), int() | float() if not isinstance(value, bool):
            return _nearest_float(_float_of(value))
        case _:
            return value


def _float_of(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _nearest_float(value: float) -> float:
    """The number with the fewest digits that is the same in 32 bits."""
    try:
        packed = _FLOAT.pack(value)
    except OverflowError:
        return inf if value > 0 else -inf
    (exact,) = _FLOAT.unpack(packed)
    for digits in range(1, _FLOAT_DIGITS + 1):
        short = float(f"{exact:.{digits}g}")
        with suppress(OverflowError):
            if _FLOAT.pack(short) == packed:
                return short
    return value


def _sorted(value: Any) -> Any:
    """A JSON value with the names of each object in order."""
    match value:
        case dict():
            return {name: _sorted(value[name]) for name in sorted(value)}
        case list():
            return [_sorted(each) for each in value]
        case _:
            return value


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def _double(value: float) -> str:
    """A number as Java's `Double.toString` writes it; Jackson quotes what is not a number."""
    if not isfinite(value):
        return '"NaN"' if isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0:
        return "-0.0" if copysign(1, value) < 0 else "0.0"
    sign, digits, _ = Decimal(repr(value)).as_tuple()
    exponent = Decimal(repr(value)).adjusted()
    text = "".join(map(str, digits)).rstrip("0")
    if len(text) == 1:
        # Java writes two digits at least, and chooses the nearest number that has two.
        text = f"{abs(value):.1e}".replace(".", "")[:2].rstrip("0")
    minus = "-" if sign else ""
    if exponent not in _PLAIN_EXPONENTS:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{minus}0.{'0' * (-exponent - 1)}{text}"
    whole = text[: exponent + 1].ljust(exponent + 1, "0")
    return f"{minus}{whole}.{text[exponent + 1 :] or '0'}"
