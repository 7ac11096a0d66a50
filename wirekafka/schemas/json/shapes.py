"""JSON schemas as shapes: one class for each type and operator, whatever the draft.

The rules of compatibility compare shapes. A schema with several kinds of keywords is `allOf` of one
shape for each kind: `{"type": "string", "enum": ["a"]}` is all of a string and an enumeration.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

Number = int | Decimal


class Operator(StrEnum):
    """How a combined schema joins its parts."""

    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(eq=False, slots=True, kw_only=True)
class Shape:
    """A schema; shapes are equal only if they are the same object."""

    has_default: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Anything(Shape):
    """`true`, or a schema without any keyword that constrains."""


@dataclass(eq=False, slots=True, kw_only=True)
class Nothing(Shape):
    """`false`."""


@dataclass(eq=False, slots=True, kw_only=True)
class NullShape(Shape):
    """Of type `null`."""


@dataclass(eq=False, slots=True, kw_only=True)
class BooleanShape(Shape):
    """Of type `boolean`."""


@dataclass(eq=False, slots=True, kw_only=True)
class StringShape(Shape):
    """Of type `string`."""

    limits: Mapping[str, Number]
    pattern: str | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class NumberShape(Shape):
    """Of type `number` or `integer`. Its exclusive limits are numbers, as from draft 6 on."""

    is_integer: bool
    limits: Mapping[str, Number]
    multiple_of: Number | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class ArrayShape(Shape):
    """Of type `array`: items by position, and the schema of the rest."""

    limits: Mapping[str, Number]
    is_tuple: bool = False
    """Whether items have a schema by position, be they none."""
    leading: list[Shape] = field(default_factory=list)
    rest: Shape | None = None
    """None for items of any kind, without a schema in the text."""
    are_unique: bool = False
    contained: Shape | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class ObjectShape(Shape):
    """Of type `object`.

    Its content model is open with `additionalProperties` absent or true, closed with false, and
    else partially open; patterns of properties make it partially open for matching names.
    """

    limits: Mapping[str, Number]
    properties: dict[str, Shape] = field(default_factory=dict)
    patterns: dict[str, Shape] = field(default_factory=dict)
    permits_additional: bool = True
    additional: Shape | None = None
    required: tuple[str, ...] = ()
    names: Shape | None = None
    required_by: dict[str, frozenset[str]] = field(default_factory=dict)
    """Names that are required if the object has the property."""
    dependent: dict[str, Shape] = field(default_factory=dict)
    """Schemas of the object if it has the property."""


@dataclass(eq=False, slots=True, kw_only=True)
class Enumeration(Shape):
    """`enum`."""

    values: frozenset[Hashable]


@dataclass(eq=False, slots=True, kw_only=True)
class Constant(Shape):
    """`const`."""

    value: Hashable


@dataclass(eq=False, slots=True, kw_only=True)
class Combined(Shape):
    """`allOf`, `anyOf`, `oneOf`, several types, or several kinds of keywords."""

    operator: Operator
    parts: list[Shape]


@dataclass(eq=False, slots=True, kw_only=True)
class Negated(Shape):
    """`not`."""

    part: Shape


@dataclass(eq=False, slots=True, kw_only=True)
class Conditional(Shape):
    """`if`, `then` and `else`."""

    condition: Shape
    consequence: Shape | None = None
    alternative: Shape | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Referral(Shape):
    """`$ref`: stands for its target, which is set when all schemas have been read."""

    target: Shape | None = None
