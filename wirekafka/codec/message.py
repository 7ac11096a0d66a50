"""The message DSL: a class body is the schema, compiled per version to straight-line code.

    class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
        group_id: string
        generation_id: int32
        member_id: string
        group_instance_id: string | None = field("3+")
"""

from __future__ import annotations

import linecache
import struct
import sys
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, dataclass_transform

from wirekafka.codec import compile as emit


@dataclass(frozen=True)
class Wire:
    """How one primitive is laid out: a struct format letter, or the name of an emitter."""
    kind: str
    zero: Any


Bool = Annotated[bool, Wire("?", False)]
Int8 = Annotated[int, Wire("b", 0)]
Int16 = Annotated[int, Wire("h", 0)]
UInt16 = Annotated[int, Wire("H", 0)]
Int32 = Annotated[int, Wire("i", 0)]
UInt32 = Annotated[int, Wire("I", 0)]
Int64 = Annotated[int, Wire("q", 0)]
Float64 = Annotated[float, Wire("d", 0.0)]
Uuid = Annotated[bytes, Wire("16s", bytes(16))]
String = Annotated[str, Wire("string", "")]
Bytes = Annotated[bytes, Wire("bytes", b"")]
Records = Annotated[memoryview, Wire("records", b"")]

MISSING = object()


class Versions(typing.NamedTuple):
    """An inclusive range such as "3+", "0-12" or "2"."""
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text.endswith("+"):
            return cls(int(text[:-1]), 32767)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return self.first <= version <= self.last


ALWAYS = Versions(0, 32767)
NEVER = Versions(1, 0)


def field(versions: str = "0+", *, default: Any = MISSING, tag: int | None = None) -> Any:
    """Narrow a field to some versions, give it a default, or make it a tagged field."""
    return versions, default, tag


@dataclass(frozen=True)
class Field:
    name: str
    kind: str | type            # a Wire kind, or the Struct class of a nested struct
    is_array: bool
    nullable: bool
    versions: Versions
    tag: int | None
    default: Any


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct:
    """Base of every message and nested struct; subclasses declare fields as annotations."""

    __slots__ = ()
    fields: typing.ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, f.name) == getattr(other, f.name) for f in self.fields)

    def __repr__(self) -> str:
        body = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.fields)
        return f"{type(self).__name__}({body})"


def _read_fields(namespace: dict, owner_globals: dict) -> tuple[Field, ...]:
    found = []
    for name, annotation in namespace.get("__annotations__", {}).items():
        if "ClassVar" in annotation:
            continue
        hint = eval(annotation, owner_globals, namespace)
        nullable = False
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            hint = next(h for h in typing.get_args(hint) if h is not type(None))
            nullable = True
        is_array = typing.get_origin(hint) is list
        if is_array:
            hint = typing.get_args(hint)[0]
        wire = getattr(hint, "__metadata__", (None,))[0]
        declared = namespace.pop(name, MISSING)
        spec = declared if isinstance(declared, tuple) else ("0+", declared, None)
        versions, default, tag = spec
        if default is MISSING:
            default = None if nullable else [] if is_array else wire.zero if wire else hint
        found.append(Field(name, wire.kind if wire else hint, is_array, nullable,
                           Versions.parse(versions), tag, default))
    return tuple(found)


class _Meta(type):
    def __new__(meta, name, bases, namespace, **options):
        if bases and "__annotations__" in namespace:
            fields = _read_fields(namespace, sys.modules[namespace["__module__"]].__dict__)
            namespace["__slots__"] = tuple(f.name for f in fields)
            namespace["fields"] = fields
            namespace["__init__"] = emit.initializer(fields)
        elif bases:
            namespace["__slots__"] = ()
        return super().__new__(meta, name, bases, namespace)

    def __init__(cls, name, bases, namespace, key=None, versions=None, flexible=None):
        super().__init__(name, bases, namespace)
        if versions:
            cls.key, cls.versions = key, Versions.parse(versions)
            cls.flexible = Versions.parse(flexible) if flexible else NEVER
            cls._codecs = {}

    def codec(cls, version: int):
        """The (decode, encode) pair compiled for one version."""
        pair = cls._codecs.get(version)
        if pair is None:
            pair = cls._codecs[version] = emit.codec(cls, version, version in cls.flexible)
        return pair


class Message(Struct, metaclass=_Meta):
    @classmethod
    def decode(cls, data, version: int, at: int = 0):
        return cls.codec(version)[0](data, at)[0]

    def encode(self, version: int) -> bytearray:
        out = bytearray()
        type(self).codec(version)[1](self, out)
        return out


class Part(Struct, metaclass=_Meta):
    """A nested struct."""


class Request(Message):
    pass


class Response(Message):
    pass
