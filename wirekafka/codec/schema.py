"""The elements of a message schema: version ranges, wire types and fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

LATEST = 32767


class Versions(NamedTuple):
    """An inclusive range of versions; `(1, 0)` is the empty one."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse "3+", "0-12", "2" or "none", as ranges are written in Kafka's schemas."""
        if text == "none":
            return NEVER
        if text.endswith("+"):
            return cls(int(text[:-1]), LATEST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


ALWAYS = Versions(0, LATEST)
NEVER = Versions(1, 0)


@dataclass(frozen=True, slots=True)
class WireLayout:
    """How a primitive is laid out: a `struct` format, or the name of a length-prefixed kind."""

    kind: str
    zero: Any


# Bytes each fixed-width kind takes; every other kind carries its length.
FIXED_BYTES = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message or part, in declaration order, which is wire order.

    `kind` is a Wire kind or the Part class of a nested struct. A field is null only in
    `nullable` versions, tagged (KIP-482) only in `tagged` versions, and written with compact
    lengths only in versions that are both flexible and in `flexible`.
    """

    name: str
    kind: str | type[Any]
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    flexible: Versions
    tag: int | None
    default: Any

    @property
    def part(self) -> type[Any] | None:
        """The class of the nested struct, None for a primitive."""
        return self.kind if isinstance(self.kind, type) else None

    @property
    def is_fixed(self) -> bool:
        """Whether the field is one fixed-width value."""
        return not self.is_array and self.kind in FIXED_BYTES

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version in self.tagged


def least_bytes(fields: tuple[Field, ...], version: int, flexible: bool) -> int:
    """The fewest bytes a struct of these fields can take, which bounds an array's count."""
    total = 1 if flexible else 0
    for field in fields:
        if version in field.versions and not field.is_tagged(version):
            total += _least_bytes_of(field, version, flexible and version in field.flexible)
    return total


def _least_bytes_of(field: Field, version: int, flexible: bool) -> int:
    if not field.is_array:
        if isinstance(field.kind, type):
            whole = least_bytes(field.kind.fields, version, flexible)
            return 1 if version in field.nullable else whole
        if field.kind in FIXED_BYTES:
            return FIXED_BYTES[field.kind]
    if flexible:
        return 1
    return 2 if field.kind == "string" and not field.is_array else 4
