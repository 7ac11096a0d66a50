"""Requests in which one value at a time is replaced by a hostile one, and their bytes.

A value may be null where Kafka's schema has no null: `frame` writes what no client would.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wirekafka.codec.frame import RequestHeader, request_header_version
from wirekafka.codec.message import Request
from wirekafka.codec.schema import FIXED_BYTES, Field
from wirekafka.codec.varint import encode_uvarint

MISSING = "t-missing"
"""The strings of `filled` requests; a user of `t...` is allowed what does not exist."""
LONG_NAME = "t" * 300
"""Longer than the name of a topic may be."""
_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_OTHERS: dict[str, tuple[Any, ...]] = {
    "H": (0, 65_535),
    "I": (0, 2**32 - 1),
    "d": (float("nan"), float("-inf"), -1.0),
    "16s": (bytes(16), bytes(15) + b"\1", b"z" * 16),
    "string": ("", LONG_NAME, "t/\n", "nobody", None),
    "bytes": (b"", b"\xff" * 5, None),
    "records": (b"", b"\xff" * 5, None),
}
_TIMES = frozenset({"max_wait_ms", "timeout_ms"})
"""Fields for which a request would wait: a negative value alone is hostile."""
_KEPT = frozenset({"validate_only", "allow_auto_topic_creation"})
"""Fields that keep requests from changing anything."""

Numbers = Callable[[int], tuple[int, ...]]
"""The hostile integers of a number of bits."""


class Variant(NamedTuple):
    """A request, and what is hostile in it."""

    label: str
    request: Request


def few_numbers(bits: int) -> tuple[int, ...]:
    """A negative number, a number of nothing, and the largest."""
    return -1, 99, 2 ** (bits - 1) - 1


def many_numbers(bits: int) -> tuple[int, ...]:
    """The few, and the smallest, 0 and 1."""
    return *few_numbers(bits), -(2 ** (bits - 1)), 0, 1


def variants(request: Request, version: int, numbers: Numbers) -> Iterator[Variant]:
    """The request as it is, and copies with one hostile value each."""
    yield Variant("as it is", request)
    for path, field in list(_fields(request, version, ())):
        for what, value in _hostile(field, _at(request, path), numbers):
            changed = copy.deepcopy(request)
            setattr(_at(changed, path[:-1]), str(path[-1]), value)
            names = ".".join(str(step) for step in path if isinstance(step, str))
            yield Variant(f"{names} {what}", changed)


def filled(kind: type[Any], **values: Any) -> Any:
    """A request with an element in every array, and these values of fields by name."""
    return kind(
        **{
            field.name: values.get(field.name, _filling(field, values))
            for field in kind.fields
            if field.tag is None
        }
    )


def _filling(field: Field, values: dict[str, Any]) -> Any:
    if field.name in _KEPT:
        return field.name == "validate_only"
    if field.part:
        one = filled(field.part, **values)
    elif field.kind == "string":
        one = MISSING
    elif field.kind == "16s":
        one = b"z" * 16
    elif field.is_array:
        one = 0
    else:
        return 60_000 if field.name in _TIMES else field.default
    return [one] if field.is_array else one


def _fields(owner: Any, version: int, path: tuple[Any, ...]) -> Iterator[tuple[Any, Field]]:
    for field in owner.fields:
        if version not in field.versions or field.name in _KEPT:
            continue
        here = (*path, field.name)
        yield here, field
        value = getattr(owner, field.name)
        if field.part and value and value is not field.default:
            if field.is_array:
                yield from _fields(value[0], version, (*here, 0))
            else:
                yield from _fields(value, version, here)


def _at(owner: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        owner = owner[step] if isinstance(step, int) else getattr(owner, step)
    return owner


def _hostile(field: Field, value: Any, numbers: Numbers) -> Iterator[tuple[str, Any]]:
    """Hostile values of a field, and how each reads after the field's name."""
    if field.is_array:
        yield "empty", []
        yield "null", None
        if value:
            yield "with an element twice", [*value, value[0]]
        elif field.kind in _OTHERS:
            yield "hostile", [each for each in _OTHERS[str(field.kind)] if each is not None]
        return
    if field.part:
        yield "null", None
        return
    if field.kind == "?":
        others: tuple[Any, ...] = (not value,)
    elif field.kind in _BITS:
        waits = field.name in {*_TIMES, "min_bytes"}
        others = (-1,) if waits else numbers(_BITS[str(field.kind)])
    else:
        others = _OTHERS[str(field.kind)]
    for other in others:
        if other != value:
            long = "= a long name" if other == LONG_NAME else f"= {other!r}"
            yield "null" if other is None else long, other


def frame(request: Request, version: int) -> bytes:
    """The request with its header, without its size."""
    kind = type(request)
    header = RequestHeader(
        request_api_key=kind.key, request_api_version=version, correlation_id=1, client_id="wire"
    )
    head = header.encode(request_header_version(kind, version))
    return head + _struct(request, version, version in kind.flexible)


def _struct(owner: Any, version: int, flexible: bool) -> bytes:
    parts, tagged = [], []
    for field in owner.fields:
        if version not in field.versions:
            continue
        value = getattr(owner, field.name)
        compact = flexible and version in field.flexible
        if not field.is_tagged(version):
            parts.append(_value(field, value, version, flexible, compact))
        elif value != field.default:
            tagged.append((field.tag, _value(field, value, version, flexible, compact)))
    if flexible:
        parts.append(encode_uvarint(len(tagged)))
        for tag, data in sorted(tagged):
            parts += [encode_uvarint(tag), encode_uvarint(len(data)), data]
    return b"".join(parts)


def _value(field: Field, value: Any, version: int, flexible: bool, compact: bool) -> bytes:
    if field.is_array:
        if value is None:
            return b"\0" if compact else struct.pack(">i", -1)
        count = encode_uvarint(len(value) + 1) if compact else struct.pack(">i", len(value))
        return count + b"".join(_one(field, each, version, flexible, compact) for each in value)
    if field.part and version in field.nullable:
        if value is None:
            return b"\0" if field.is_tagged(version) else b"\xff"
        return b"\1" + _struct(value, version, flexible)
    return _one(field, value, version, flexible, compact)


def _one(field: Field, value: Any, version: int, flexible: bool, compact: bool) -> bytes:
    if field.part:
        return b"" if value is None else _struct(value, version, flexible)
    kind = str(field.kind)
    if kind in FIXED_BYTES:
        return struct.pack(f">{kind}", value)
    size_format = ">h" if kind == "string" else ">i"
    if value is None:
        return b"\0" if compact else struct.pack(size_format, -1)
    data = value.encode() if isinstance(value, str) else bytes(value)
    size = encode_uvarint(len(data) + 1) if compact else struct.pack(size_format, len(data))
    return size + data
