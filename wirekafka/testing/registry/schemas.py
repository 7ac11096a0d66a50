"""The schema registry of a broker under test: its schemas, decoded records, and faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wirekafka.client.schema_registry import DecodedValue, Decoder, RegisteredSchema, SchemaRegistry
from wirekafka.registry.faults import Refusal, RegistryFault, RegistryFaults, RequestPattern
from wirekafka.schemas.framing import with_id
from wirekafka.schemas.schema import Format, SchemaReference, ValueMismatch
from wirekafka.visible_text import json_text

_EVERY = "/**"
_STORE_FAILS = 50001
"""Confluent's code of a registry that cannot write."""
_SERVER_ERROR = 500
_SHOWN_CHARACTERS = 120

Reference = SchemaReference | tuple[str, str, int]
"""A schema that another one refers to: its name there, its subject and its version."""


class KeyAndValue(Protocol):
    """A record, such as a `StoredRecord`, or a record of a client with these attributes."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]: ...


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """The key and value of a record, of types that JSON has.

    A part that names no schema is the bytes that it was, and its schema is None.
    """

    key: Any
    value: Any
    key_schema: RegisteredSchema | None
    value_schema: RegisteredSchema | None


class Schemas:
    """The registry of `Broker(schema_registry=True)`. Faults do not apply to these methods."""

    def __init__(self, connect: Callable[[], SchemaRegistry], faults: RegistryFaults) -> None:
        self._connect = connect
        self._faults = faults
        self._decoder: Decoder | None = None

    @property
    def registry(self) -> SchemaRegistry:
        """A client of the registry, for all other requests."""
        return self._decodes.registry

    def register(
        self,
        subject: str,
        schema: str | Path | Mapping[str, Any],
        type: str = Format.AVRO,
        references: Sequence[Reference] = (),
    ) -> int:
        """Register a schema under a subject, such as "orders-value"; returns its id.

        schema: its text, a file, or the JSON value of an Avro or JSON schema. type: "AVRO",
        "JSON" or "PROTOBUF". references: each (name, subject, version).

        Raises RegistryRefused, such as for an incompatible schema, and ValueError.
        """
        return self.registry.register(
            subject,
            _text(schema),
            _format(type),
            [SchemaReference(*each) if isinstance(each, tuple) else each for each in references],
        )

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject. Raises RegistryRefused."""
        return self.registry.version(subject)

    def encoded(self, subject: str, value: Any) -> bytes:
        """A value by the latest schema of a subject, as a serializer encodes it.

        Raises ValueMismatch, a ValueError, and RegistryRefused.
        """
        schema = self.latest(subject)
        assert schema.id is not None
        return with_id(schema.id, schema.parsed.encoded(value))

    def decoded(self, record: KeyAndValue) -> DecodedRecord:
        """The key and value of a record, by the schemas that they name.

        Raises ValueMismatch, a ValueError, for a part that its schema does not describe, and for a
        schema that is unknown or cannot be parsed.
        """
        key, value = (
            self._decodes.decoded(data, is_key=is_key, headers=record.headers)
            for is_key, data in ((True, record.key), (False, record.value))
        )
        return DecodedRecord(
            key=_value(key, record.key, "key"),
            value=_value(value, record.value, "value"),
            key_schema=None if key is None else key.schema,
            value_schema=None if value is None else value.schema,
        )

    def fail(
        self,
        request: str = _EVERY,
        status: int = _SERVER_ERROR,
        code: int | None = None,
        message: str = "the registry fails, as the test wants",
        *,
        times: int | None = None,
        applied: bool = False,
    ) -> RegistryFault:
        """Respond to requests with an error, until the fault ends.

        request: such as "POST /subjects/*/versions", "/schemas/ids/*" or "GET /**": `*` is a
        segment, `**` all that follows. code: the registry's; None is 50001 for status 500, and
        otherwise the status. times: only the first so many requests. applied: the request takes
        effect first, so that only its response is lost.
        """
        if not 400 <= status < 600:
            raise ValueError(f"status={status!r}: an error is 400 to 599")
        if code is None:
            code = _STORE_FAILS if status == _SERVER_ERROR else status
        refusal = Refusal(status=status, code=code, message=message, applied=applied)
        return self._begin(
            RegistryFault(RequestPattern.parse(request), times=times, refusal=refusal)
        )

    def delay(
        self, seconds: float, request: str = _EVERY, *, times: int | None = None
    ) -> RegistryFault:
        """Let requests wait before they take effect, or until the fault ends.

        The other arguments are as for `fail`. It is the machine's time, not the broker's clock.
        """
        return self._begin(
            RegistryFault(RequestPattern.parse(request), times=times, seconds=seconds)
        )

    def shown(self, data: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> str | None:
        """A value for a report of requests; None if it is not decoded."""
        part = self._decodes.decoded(data, is_key=False, headers=headers)
        if part is None or part.error is not None:
            return None
        text = json_text(part.value)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."

    def clear_faults(self) -> None:
        """End all faults."""
        self._faults.clear()

    def forget(self) -> None:
        """Forget what is known of a registry that has been emptied or restored."""
        self._decoder = None

    def _begin(self, fault: RegistryFault) -> RegistryFault:
        self._decodes  # noqa: B018
        return self._faults.add(fault)

    @property
    def _decodes(self) -> Decoder:
        if self._decoder is None:
            self._decoder = Decoder(self._connect())
        return self._decoder


def _text(schema: str | Path | Mapping[str, Any]) -> str:
    match schema:
        case str():
            return schema
        case Path():
            return schema.read_text()
    return json.dumps(schema)


def _format(name: str) -> Format:
    if name.upper() not in Format.__members__:
        raise ValueError(f"type={name!r}: say {', '.join(Format)}")
    return Format[name.upper()]


def _value(part: DecodedValue | None, data: bytes | None, name: str) -> Any:
    if part is None:
        return data
    if part.error is not None:
        raise ValueMismatch(f"the {name}: {part.error}")
    return part.value
