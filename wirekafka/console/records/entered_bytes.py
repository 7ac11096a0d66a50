"""Parts of a record as they are entered in a form: as text, JSON, digits, or by a schema."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from wirekafka.client.client import CliError

if TYPE_CHECKING:
    from wirekafka.client.schema_registry import SchemaRegistry

Header = tuple[str, bytes | None]


class EntryForm(StrEnum):
    """How bytes are entered."""

    NULL = "null"
    TEXT = "text"
    JSON = "json"
    """Checked, and sent as it is written."""
    HEX = "hex"
    BASE64 = "base64"
    SCHEMA = "schema"
    """JSON, encoded by the latest schema of a subject."""


class BadEntry(ValueError):
    """Text that does not have the form that was chosen for it; the message says why."""


def bytes_of(
    text: str, form: EntryForm, registry: SchemaRegistry | None = None, subject: str = ""
) -> bytes | None:
    """The bytes of a text in a form; None for null. Raises BadEntry, CliError of the registry."""
    # Browsers send line ends of a text area as CR LF, whatever was typed.
    text = text.replace("\r\n", "\n")
    match form:
        case EntryForm.NULL:
            if text.strip():
                raise BadEntry("leave it empty, or choose another form than null")
            return None
        case EntryForm.TEXT:
            return text.encode()
        case EntryForm.JSON:
            return _json(text)
        case EntryForm.HEX:
            return _hex(text)
        case EntryForm.BASE64:
            return _base64(text)
        case EntryForm.SCHEMA:
            return _by_schema(text, registry, subject)


def headers_of(text: str) -> Sequence[Header]:
    """The headers of lines as `name=value`; without `=` the value is null."""
    found: list[Header] = []
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            found.append((name.strip(), value.strip().encode() if equals else None))
    return found


def _json(text: str) -> bytes:
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadEntry(f"not JSON: {error}") from None
    return text.strip().encode()


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no value of JSON")


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadEntry("not pairs of hexadecimal digits") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadEntry(f"not base64: {error}") from None


def _by_schema(text: str, registry: SchemaRegistry | None, subject: str) -> bytes:
    from wirekafka.client.value_encoder import ValueEncoder

    if registry is None:
        raise BadEntry("this console has no schema registry")
    if not subject:
        raise BadEntry("name the subject of its schema")
    try:
        return ValueEncoder.of_subject(registry, subject).encoded_text(text.encode())
    except CliError as error:
        raise BadEntry(str(error)) from None
