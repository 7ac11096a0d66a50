"""Other forms of a schema's text: `?format=serialized` and the like."""

from __future__ import annotations

import base64
from typing import Protocol, runtime_checkable

from wirekafka.registry.http.call import RegistryCall
from wirekafka.registry.records import SchemaRecord
from wirekafka.registry.registration import SchemaRequest
from wirekafka.schemas.schema import Format

_SERIALIZED = "serialized"


@runtime_checkable
class Serializable(Protocol):
    """A parsed schema of a format that has a binary form."""

    def serialized(self) -> str:
        """The binary form in base64."""


def text_as_sent(request: SchemaRequest, record: SchemaRecord) -> str:
    """The text of a version in the form of a request, which may be binary.

    Confluent's client for Python keeps the schema of the answer, and decodes records with it.
    """
    sent = request.text or ""
    if record.content.schema_type == Format.PROTOBUF and _is_base64(sent):
        return sent
    return record.content.text


async def text_in_form(call: RegistryCall, record: SchemaRecord) -> str:
    """The text of a version in the form that `?format` names; as it is if there is none such."""
    form = call.text("format")
    if form != _SERIALIZED:
        return record.content.text
    parse = call.registry.parser.stored_later(call.state, record)

    def work() -> str:
        parsed = parse()
        return parsed.serialized() if isinstance(parsed, Serializable) else record.content.text

    return await call.in_thread(work)


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False
