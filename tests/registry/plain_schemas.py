"""Schemas for tests of what uses schemas: values are JSON, and a schema's text is its name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from wirekafka.schemas import formats
from wirekafka.schemas.schema import Dependency, Format, ParsedSchema, SchemaError, ValueMismatch


class PlainSchema:
    """A schema of objects, whose text is the name of their type."""

    format = Format.AVRO

    def __init__(self, text: str, dependencies: Sequence[Dependency]):
        self.canonical = text
        self.dependencies = dependencies

    def normalized(self) -> ParsedSchema:
        return self

    def incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        return []

    def lenient_incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        return []

    def name(self) -> str | None:
        return self.canonical

    def decoded(self, payload: bytes) -> Any:
        try:
            return json.loads(payload)
        except ValueError:
            raise ValueMismatch("no object") from None

    def encoded(self, value: Any) -> bytes:
        if not isinstance(value, dict):
            raise ValueMismatch(f"{value!r} is no object")
        return json.dumps(value).encode()


def use_plain_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let texts of all formats be plain schemas, until the end of a test."""
    monkeypatch.setattr(formats, "parse", parse_plain)
    monkeypatch.setattr(formats, "parse_stored", parse_plain)


def parse_plain(format: Format, text: str, dependencies: Sequence[Dependency] = ()) -> ParsedSchema:
    """As `wirekafka.schemas.formats.parse`, for texts of no format."""
    if text.startswith("broken"):
        raise SchemaError(f"{text} is no schema")
    return PlainSchema(text, dependencies)
