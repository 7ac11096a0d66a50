"""Bodies of answers: versions, schemas and settings in JSON, in Confluent's order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from wirekafka.registry import records
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.records import SchemaContent, SchemaRecord

_UNAUTHORIZED, _LOGIN = 401, 'Basic realm="schema-registry"'

JsonObject = Mapping[str, Any]


def response(value: Any, content_type: str, status: int = 200) -> Response:
    """An answer in JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode(errors="replace"), status, media_type=content_type)


def refusal(error: RegistryError, content_type: str) -> Response:
    """The answer to a request that is refused."""
    answer = response(error.body(), content_type, error.status)
    if error.status == _UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = _LOGIN
    return answer


def version(record: SchemaRecord, text: str | None = None) -> JsonObject:
    """A version of a subject, with its schema in another form if one is given."""
    return {
        "subject": record.subject,
        "version": record.version,
        "id": record.id,
        "guid": record.guid,
        **_content(record.content, text),
        **({} if record.timestamp_ms is None else {"ts": record.timestamp_ms}),
        "deleted": record.deleted,
    }


def registered(record: SchemaRecord, text: str) -> JsonObject:
    """The answer to a registration."""
    return {
        "id": record.id,
        "version": record.version,
        "guid": record.guid,
        **_content(record.content, text),
    }


def schema(record: SchemaRecord, text: str | None = None, max_id: int | None = None) -> JsonObject:
    """A schema that was looked up by its id or GUID."""
    found = {"guid": record.guid, **_content(record.content, text)}
    return found if max_id is None else {**found, "maxId": max_id}


def config_update(settings: JsonObject) -> JsonObject:
    """The answer to a change of settings, which calls the level by another name."""
    return {
        "compatibility" if name == "compatibilityLevel" else name: each
        for name, each in settings.items()
    }


def _content(content: SchemaContent, text: str | None) -> JsonObject:
    parts = {
        "references": records.references_json(content.references),
        "metadata": content.metadata,
        "ruleSet": content.rule_set,
    }
    return {
        "schemaType": content.schema_type,
        **{name: each for name, each in parts.items() if each},
        "schema": content.text if text is None else text,
    }
