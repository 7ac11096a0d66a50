"""Other forms of a schema's text: `?format=serialized` and the like."""

from __future__ import annotations

import base64
from typing import Protocol, runtime_checkable

from wirekafka.registry.http.call import RegistryCall
from wirekafka.registry.records import SchemaRecord
from wirekafka.registry.registration import SchemaRequest
from wirekafka.schemas.schema import Format

_SERIALIZED, _RESOLVED = _FORMS = ("serialized", "resolved")


@runtime_checkable
class Serializable(Protocol):
    """A parsed schema of a format that has a binary form."""

    def serialized(self) -> str:
        """The binary form in base64."""


@runtime_checkable
class Resolvable(Protocol):
    """A parsed schema of a format whose texts can have all that they refer to in them."""

    def resolved(self) -> str:
        """The text with all of it."""


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
    if form not in _FORMS:
        return record.content.text
    parse = call.registry.parser.stored_later(call.state, record)

    def work() -> str:
        match parse():
            case Serializable() as parsed if form == _SERIALIZED:
                return parsed.serialized()
            case Resolvable() as parsed if form == _RESOLVED:
                return parsed.resolved()
        return record.content.text

    return await call.in_thread(work)


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False
