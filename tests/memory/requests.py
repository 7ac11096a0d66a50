"""Requests of every API and version with a given text in all of their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wirekafka.apis.shared import registry
from wirekafka.codec.message import Request
from wirekafka.codec.schema import Field

_BYTES = ("bytes", "records")


def requests_with(text: str) -> Iterator[tuple[Request, int]]:
    """Each request that clients may send, in each of its versions."""
    for api in registry.load().values():
        for version in range(api.request.versions.first, api.request.versions.last + 1):
            yield _filled(api.request, version, text), version


def _filled(kind: type[Any], version: int, text: str) -> Any:
    values = {
        field.name: _value(field, version, text)
        for field in kind.fields
        if version in field.versions and not (field.is_fixed or field.is_tagged(version))
    }
    return kind(**values)


def _value(field: Field, version: int, text: str) -> Any:
    if field.part is not None:
        value: Any = _filled(field.part, version, text)
    elif field.kind == "string":
        value = text
    elif field.kind in _BYTES:
        value = text.encode()
    else:
        value = bytes(16) if field.kind == "16s" else 0
    return [value] if field.is_array else value
