"""The types of an Avro schema, as Avro's specification names them, with all that a text holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
TYPE_WORDS = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}

MAX_DEPTH = 100
"""Of types within types in a text: functions that walk over a text recur for each of them."""


class AvroName(NamedTuple):
    """The name of a record, enum or fixed type, and its namespace, which may be empty."""

    name: str
    namespace: str

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    def within(self, namespace: str) -> str:
        """The name by which a schema of a namespace refers to the type."""
        is_clear = self.namespace == namespace and self.name not in TYPE_WORDS
        return self.name if is_clear else self.full


@dataclass(slots=True, eq=False)
class AvroPrimitive:
    """A type without parts, and the properties that annotate it, such as a logical type."""

    word: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroArray:
    items: AvroType
    properties: Mapping[str, Any] = field(default_factory=dict)
    word = "array"


@dataclass(slots=True, eq=False)
class AvroMap:
    values: AvroType
    properties: Mapping[str, Any] = field(default_factory=dict)
    word = "map"


@dataclass(slots=True, eq=False)
class AvroUnion:
    branches: list[AvroType]
    word = "union"


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record. `has_default` distinguishes a default of null from no default."""

    name: str
    type: AvroType
    doc: str | None
    has_default: bool
    default: Any
    order: str
    aliases: Sequence[str]
    properties: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class AvroRecord:
    """A record, or an error of a protocol. `fields` is None while the record is parsed."""

    name: AvroName
    doc: str | None
    is_error: bool = False
    fields: list[AvroField] | None = None
    aliases: Sequence[AvroName] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    word = "record"


@dataclass(slots=True, eq=False)
class AvroEnum:
    name: AvroName
    doc: str | None
    symbols: Sequence[str]
    default: str | None
    aliases: Sequence[AvroName] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    word = "enum"


@dataclass(slots=True, eq=False)
class AvroFixed:
    name: AvroName
    doc: str | None
    size_bytes: int
    aliases: Sequence[AvroName] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    word = "fixed"


@dataclass(slots=True, eq=False)
class AvroUnresolved:
    """A full name that is used before its definition. A parsed schema has none."""

    full: str
    word = "unresolved"


AvroNamed = AvroRecord | AvroEnum | AvroFixed
AvroType = AvroPrimitive | AvroArray | AvroMap | AvroUnion | AvroNamed | AvroUnresolved


def branch_name(type: AvroType) -> str:
    """The name that distinguishes a branch of a union from the others."""
    return type.name.full if isinstance(type, AvroNamed) else type.word
