"""Bodies of requests: schemas, settings and modes in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from wirekafka.registry import contracts, errors
from wirekafka.registry.registration import SchemaRequest
from wirekafka.schemas.schema import SchemaReference

MOST_BODY_BYTES = 4 << 20
_MOST_REFERENCES = 1000
_MOST_NUMBER = (1 << 31) - 1
_SCHEMA_FIELDS = (
    "schema",
    "schemaType",
    "references",
    "metadata",
    "ruleSet",
    "id",
    "version",
    "subject",
    "guid",
    "ts",
    "deleted",
    "schemaTagsToAdd",
    "schemaTagsToRemove",
    "propagateSchemaTags",
)
_TAGS = ("schemaTagsToAdd", "schemaTagsToRemove")


async def read(request: Request) -> bytes:
    """The whole body of a request. Raises RegistryError 413."""
    parts: list[bytes] = []
    size_bytes = 0
    async for part in request.stream():
        size_bytes += len(part)
        if size_bytes > MOST_BODY_BYTES:
            raise errors.of_http(413, "Request Entity Too Large")
        parts.append(part)
    return b"".join(parts)


def decoded_object(body: bytes) -> Mapping[str, Any]:
    """The object that a body is. Raises RegistryError 400 or 422."""
    try:
        value = json.loads(body.decode()) if body.strip() else None
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise errors.malformed("The body is nested too deep") from None
    except ValueError as error:
        raise errors.malformed(f"The body is not JSON: {error}") from None
    if value is None:
        raise errors.unprocessable("The body may not be null")
    if not isinstance(value, dict):
        raise errors.malformed("The body is no JSON object")
    return value


def schema_request(
    body: Mapping[str, Any], *, normalize: bool, accepts_unknown: bool
) -> SchemaRequest:
    """The schema that a request is about. Raises RegistryError."""
    for name in body:
        if name not in _SCHEMA_FIELDS and not accepts_unknown:
            raise errors.unprocessable(f"Unrecognized field: {name}")
    if any(body.get(each) for each in _TAGS):
        raise errors.unprocessable("This registry does not edit the tags within schemas")
    references = body.get("references") or []
    if not isinstance(references, list):
        raise errors.malformed("references is no list")
    if len(references) > _MOST_REFERENCES:
        raise errors.schema_too_large("Write failed because schema has too many references")
    return SchemaRequest(
        text=_text(body, "schema"),
        schema_type=(_text(body, "schemaType") or "").upper() or None,
        references=tuple(_reference(each) for each in references),
        metadata=contracts.metadata(body.get("metadata")),
        rule_set=contracts.rule_set(body.get("ruleSet")),
        clears_metadata=body.get("metadata") is not None,
        clears_rule_set=body.get("ruleSet") is not None,
        id=_number(body, "id"),
        version=_number(body, "version"),
        normalize=normalize,
    )


def mode(body: Mapping[str, Any]) -> str:
    """The mode that a request sets. Raises RegistryError."""
    value = body.get("mode")
    if not isinstance(value, str):
        raise errors.invalid_mode()
    return value


def _reference(value: Any) -> SchemaReference:
    if not isinstance(value, dict):
        raise errors.malformed("a reference is no object")
    name, subject, version = _text(value, "name"), _text(value, "subject"), value.get("version")
    if not name or not subject:
        raise errors.invalid_schema("A reference needs a name, a subject and a version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise errors.malformed("version of a reference is no number")
    return SchemaReference(name, subject, version)


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.malformed(f"{name} is no text")
    return value


def _number(body: Mapping[str, Any], name: str) -> int | None:
    """A positive number; 0 and -1 stand for none, as clients of old versions send them."""
    value = body.get(name)
    if value is None or (value in (0, -1) and not isinstance(value, bool)):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST_NUMBER:
        raise errors.malformed(f"{name} is no number from 1 to 2^31-1")
    return value
