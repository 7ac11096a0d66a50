"""Asks a schema registry, in threads, whether the schemas of clients' records are registered."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

from wirekafka.client.client import CliError, ConnectionFailure
from wirekafka.client.registry_settings import tls_of
from wirekafka.client.schema_registry import (
    RegisteredSchema,
    RegistryRefused,
    SchemaRegistry,
    quoted,
)
from wirekafka.clock import Clock
from wirekafka.config.option import ConfigError
from wirekafka.config.options.schema_validation import BY_RECORD, BY_TOPIC
from wirekafka.config.own import (
    SCHEMA_REGISTRY,
    SCHEMA_REGISTRY_CERTIFICATE,
    SCHEMA_REGISTRY_SSL,
    RegistryAccess,
)
from wirekafka.replication.partition.schema_checks import (
    PATIENCE_MS,
    ByMessage,
    SchemaChecks,
    SchemaUse,
    UnreachableRegistry,
)
from wirekafka.schemas.schema import Format, ParsedSchema, SchemaError, ValueMismatch
from wirekafka.server.background.threads import sync_in_thread

_THREADS = 4
_ATTEMPTS, _PAUSE_S = 10, 0.2
"""How often a registry is asked that nobody reaches, and the pause between two attempts."""
_NOT_FOUND = 404


class SchemaLookUps:
    """The checks of one broker, and the threads in which these ask its registry."""

    def __init__(self, access: RegistryAccess, clock: Clock):
        """Connects to nothing yet. Raises ConfigError for a URL that is none."""
        try:
            self._registry = SchemaRegistry(
                access.url,
                user=access.user,
                password=access.password,
                tls=_tls(access),
                timeout_s=PATIENCE_MS / 1_000,
            )
        except CliError as error:
            raise ConfigError(SCHEMA_REGISTRY, "[hidden]", str(error)) from None
        self._stopped = Event()
        self._pool = ThreadPoolExecutor(_THREADS, "schemas")
        self.checks = SchemaChecks(self.reason, self._run, clock)

    def stop(self) -> None:
        """Refuse the batches that wait; the connections to the registry are closed."""
        self.checks.stop()
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._registry.close()

    def _run(self, run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        sync_in_thread(run, done, self._pool)

    def reason(self, use: SchemaUse) -> str | ByMessage | None:
        """Why records with a schema are refused; None if they are not (a `LookUp`).

        A registry that starts, or that is replaced, is waited for.
        """
        for attempt in range(_ATTEMPTS):
            try:
                if isinstance(use.reference, UUID):
                    return self._reason_by_guid(use, use.reference)
                return self._reason_by_id(use, use.reference)
            except ConnectionFailure as error:
                is_last = attempt == _ATTEMPTS - 1
                if is_last or self._stopped.wait(_PAUSE_S):
                    raise UnreachableRegistry(str(error)) from None
            except CliError as error:
                raise UnreachableRegistry(str(error)) from None
        raise AssertionError("the last attempt returns or raises")

    def _reason_by_id(self, use: SchemaUse, id: int) -> str | ByMessage | None:
        named = f"The {use.part} has schema id {id}"
        places = self._found(f"schemas/ids/{id}/versions")
        if places is None:
            return f"{named}, which the schema registry does not know"
        schema = None if use.strategy == BY_TOPIC else self._registry.schema(id)
        if _is_by_message(use, schema):
            return ByMessage()
        subject = _subject(use, schema)
        if subject is None:
            return f"{named}, whose schema has no name to be registered by"
        if any(place["subject"] == subject for place in places):
            return None
        return f"{named}, which is not registered for subject {subject}"

    def _reason_by_guid(self, use: SchemaUse, guid: UUID) -> str | ByMessage | None:
        named = f"The {use.part} has the schema with GUID {guid}"
        try:
            schema = self._registry.schema_of_guid(guid)
        except RegistryRefused as error:
            if error.status == _NOT_FOUND:
                return f"{named}, which the schema registry does not know"
            raise
        if _is_by_message(use, schema):
            return ByMessage()
        subject = _subject(use, schema)
        if subject is None:
            return f"{named}, which has no name to be registered by"
        body: dict[str, Any] = {"schema": schema.text, "references": []}
        if schema.format is not Format.AVRO:
            body["schemaType"] = schema.format.value
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ]
        if self._found(f"subjects/{quoted(subject)}", body) is None:
            return f"{named}, which is not registered for subject {subject}"
        return None

    def _found(self, path: str, body: Any = None) -> Any:
        """The registry's answer; None if it has no such thing."""
        try:
            return self._registry.request("GET" if body is None else "POST", path, body)
        except RegistryRefused as error:
            if error.status == _NOT_FOUND:
                return None
            raise


def _is_by_message(use: SchemaUse, schema: RegisteredSchema | None) -> bool:
    """Whether the subject depends on the message, which the use does not name yet."""
    return (
        use.strategy != BY_TOPIC
        and use.message is None
        and schema is not None
        and schema.format is Format.PROTOBUF
    )


def _subject(use: SchemaUse, schema: RegisteredSchema | None) -> str | None:
    """The subject for which a schema must be registered; None if it has no name for that."""
    if use.strategy == BY_TOPIC:
        return f"{use.topic}-{use.part}"
    name = None
    with suppress(SchemaError, ValueMismatch):
        name = None if schema is None else _name(schema.parsed, use.message)
    if name is None:
        return None
    return name if use.strategy == BY_RECORD else f"{use.topic}-{name}"


def _name(schema: ParsedSchema, message: tuple[int, ...] | None) -> str | None:
    """The name of a record, or of a Protobuf message. Raises ValueMismatch."""
    if message is None:
        return schema.name()
    from wirekafka.schemas.protobuf.schema import ProtobufSchema

    assert isinstance(schema, ProtobufSchema), "no other schema has messages"
    return schema.message_name(message)


def _tls(access: RegistryAccess) -> ssl.SSLContext | None:
    """How the registry is trusted; None for the authorities of the system. Raises ConfigError."""
    if access.certificate is not None:
        return _trusting(access.certificate)
    return tls_of(access.ssl, f"{SCHEMA_REGISTRY_SSL}*")


def _trusting(certificate: Path) -> ssl.SSLContext:
    """A context that accepts a server with this very certificate, under any of its names.

    Raises ConfigError.
    """
    try:
        context = ssl.create_default_context(cafile=certificate)
    except (OSError, ValueError) as error:
        raise ConfigError(SCHEMA_REGISTRY_CERTIFICATE, str(certificate), str(error)) from None
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
