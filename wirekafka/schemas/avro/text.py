"""The text of an Avro schema, byte for byte as Java's `Schema.toString()` writes it.

Registries compare these texts to find a schema again, so the order of attributes, the spelling of
numbers and the place of each namespace count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from math import copysign, isfinite, isnan
from typing import Any, assert_never

from wirekafka.schemas.avro.types import (
    MAX_DEPTH,
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
)
from wirekafka.schemas.schema import SchemaError

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
_PLAIN_EXPONENTS = range(-3, 7)
"""Powers of ten for which Java writes a number without an exponent."""


def canonical_text(root: AvroType, referenced: Iterable[str]) -> str:
    """The text of a schema, in which the types of other texts appear by their names only."""
    return _Text(set(referenced)).of(root, "")


def normalized_text(root: AvroType, referenced: Iterable[str]) -> str:
    """The canonical text with properties and aliases in order, and without empty documentation."""
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
                return (
                    f'{{"type":{word}{self._properties(type.properties)}}}'
                    if (type.properties)
                    else word
                )
            case AvroArray():
                items, more = self.of(type.items, namespace), self._properties(type.properties)
                return f'{{"type":"array","items":{items}{more}}}'
            case AvroMap():
                values, more = self.of(type.values, namespace), self._properties(type.properties)
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
        if type.name.namespace != namespace:
            parts.append(f',"namespace":{_quoted(type.name.namespace)}')
        parts.append(self._doc(type.doc))
        match type:
            case AvroRecord():
                inner = type.name.namespace
                fields = ",".join([self._field(each, inner) for each in type.fields or ()])
                parts.append(f',"fields":[{fields}]')
            case AvroEnum():
                parts.append(f',"symbols":[{",".join(map(_quoted, type.symbols))}]')
                if type.default is not None:
                    parts.append(f',"default":{_quoted(type.default)}')
            case AvroFixed():
                parts.append(f',"size":{type.size_bytes}')
        parts.append(self._properties(type.properties))
        parts.append(self._aliases(_alias_texts(type.aliases, type.name.namespace)))
        parts.append("}")
        return "".join(parts)

    def _field(self, field: AvroField, namespace: str) -> str:
        parts = [f'{{"name":{_quoted(field.name)},"type":{self.of(field.type, namespace)}']
        parts.append(self._doc(field.doc))
        if field.has_default:
            parts.append(f',"default":{json_text(field.default)}')
        if field.order != "ascending":
            parts.append(f',"order":"{field.order}"')
        parts.append(self._aliases(field.aliases))
        parts.append(self._properties(field.properties))
        parts.append("}")
        return "".join(parts)

    def _doc(self, doc: str | None) -> str:
        return "" if doc is None else f',"doc":{_quoted(doc)}'

    def _aliases(self, aliases: Iterable[str]) -> str:
        texts = ",".join(map(_quoted, aliases))
        return f',"aliases":[{texts}]' if texts else ""

    def _properties(self, properties: Mapping[str, Any]) -> str:
        return "".join([f",{_quoted(name)}:{json_text(properties[name])}" for name in properties])


class _SortedText(_Text):
    """The text of all schemas that differ only in the order of what has none."""

    def _doc(self, doc: str | None) -> str:
        return super()._doc(doc or None)

    def _aliases(self, aliases: Iterable[str]) -> str:
        return super()._aliases(sorted(aliases))

    def _properties(self, properties: Mapping[str, Any]) -> str:
        return super()._properties(dict(sorted(properties.items())))


def _alias_texts(aliases: Iterable[AvroName], namespace: str) -> Iterable[str]:
    return [alias.within(namespace) for alias in aliases]


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
