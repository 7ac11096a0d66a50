"""JSON values that become keys and values of records by a schema of a registry."""

from __future__ import annotations

import json
from typing import Any

from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.schemas.framing import with_id
from wirekafka.schemas.schema import ParsedSchema, SchemaError, ValueMismatch


class ValueEncoder:
    """Encodes JSON values by one schema, behind the prefix of its id."""

    def __init__(self, id: int, schema: ParsedSchema) -> None:
        self._id, self._schema = id, schema

    @classmethod
    def of_subject(cls, registry: SchemaRegistry, subject: str) -> ValueEncoder:
        """The encoder by the latest schema of a subject. Raises CliError."""
        try:
            latest = registry.version(subject)
            if latest.id is None:
                raise CliError(f"{registry.url} returns no id for {subject}")
            return cls(latest.id, latest.parsed)
        except SchemaError as error:
            raise CliError(f"{subject}: {error}") from None

    def encoded(self, value: Any) -> bytes:
        """The bytes of a value. Raises CliError if the schema does not describe it."""
        try:
            return with_id(self._id, self._schema.encoded(value))
        except ValueMismatch as error:
            raise CliError(f"it does not fit schema {self._id}: {error}") from None

    def encoded_text(self, text: bytes) -> bytes:
        """The bytes of a value that is written as JSON. Raises CliError."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CliError(f"not JSON: {error}") from None
        return self.encoded(value)
