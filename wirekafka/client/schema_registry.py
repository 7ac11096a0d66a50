"""A client of schema registries: schemas by id and subject, and the values of framed records.

Nothing of a schema's format is imported before a schema is parsed.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

from wirekafka.client.client import CliError, ConnectionFailure
from wirekafka.client.registry_http import RegistryEndpoint, RegistryRefused
from wirekafka.schemas import formats
from wirekafka.schemas.framing import KEY_SCHEMA_ID, VALUE_SCHEMA_ID, Framed, framed
from wirekafka.schemas.schema import (
    Dependency,
    Format,
    ParsedSchema,
    SchemaError,
    SchemaReference,
    ValueMismatch,
)

T = TypeVar("T")

__all__ = [
    "ConnectionFailure",
    "DecodedValue",
    "Decoder",
    "RegisteredSchema",
    "RegistryRefused",
    "SchemaRegistry",
]

_NOT_FOUND = 404
_KEPT_SCHEMAS = 1_000
KEPT_CHARACTERS = 16 << 20
"""How much text of schemas a client keeps unless it is given another limit."""
_KEPT_FAILURES = 10_000
_UNKNOWN_FOR_S = 5.0
"""An id that is unknown now may be registered soon."""
_UNREACHABLE_FOR_S = 2.0
_MOST_DEPENDENCIES, _DEEPEST = 1_000, 100
_SHOWN_CHARACTERS = 200
_LATEST = "latest"
_LATEST_NUMBER = -1
"""The version of a reference to whatever is the latest."""


@dataclass(frozen=True, eq=False)
class RegisteredSchema:
    """A schema of a registry; it is parsed at the first use of `parsed`."""

    text: str
    format: Format = Format.AVRO
    references: tuple[SchemaReference, ...] = ()
    id: int | None = None
    guid: UUID | None = None
    subject: str | None = None
    version: int | None = None
    _resolve: Callable[[Sequence[SchemaReference]], Sequence[Dependency]] = field(
        default=lambda references: (), repr=False
    )

    @property
    def parsed(self) -> ParsedSchema:
        """The schema with all schemas that it refers to.

        Raises SchemaError, and ConnectionFailure and RegistryRefused for references.
        """
        if isinstance(self._outcome, SchemaError):
            raise self._outcome
        return self._outcome

    @cached_property
    def _outcome(self) -> ParsedSchema | SchemaError:
        try:
            dependencies = self._resolve(self.references)
            with _parsers():
                return formats.parse_stored(self.format, self.text, dependencies)
        except SchemaError as error:
            return error


class SchemaRegistry:
    """A registry at a URL, or at the instances of a list of URLs. Threads may share it.

    Raises CliError for a URL that is none. With `ca_file`, only that authority is trusted;
    `tls` is a context for more than that. `headers` are sent with every request.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str = "",
        password: str = "",
        ca_file: Path | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 10,
        headers: Mapping[str, str] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        kept_characters: int = KEPT_CHARACTERS,
    ) -> None:
        if tls is None and ca_file is not None:
            tls = ssl.create_default_context(cafile=ca_file)
        self._endpoints = [
            RegistryEndpoint(
                each,
                user=user,
                password=password,
                tls=tls,
                timeout_s=timeout_s,
                headers=headers or {},
            )
            for each in filter(None, map(str.strip, url.split(",")))
        ]
        if not self._endpoints:
            raise CliError("the URL of the schema registry is empty")
        self.url = ",".join(each.url for each in self._endpoints)
        """Without user and password."""
        self._now_s = now_s
        self._schemas = _Kept(kept_characters)
        self._failures = _Failures(now_s)

    def request(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Send a request; returns the decoded JSON. Segments of the path must be quoted.

        Raises RegistryRefused and ConnectionFailure.
        """
        for endpoint in self._endpoints[:-1]:
            try:
                return endpoint.request(method, path, body, query)
            except ConnectionFailure:
                continue
        return self._endpoints[-1].request(method, path, body, query)

    def schema(self, id: int, subject: str = "") -> RegisteredSchema:
        """The schema of an id, in the context of a subject if one is given; kept once known."""
        query = {"subject": subject} if subject else {}
        return self._known(("id", id, _context(subject)), f"schemas/ids/{id}", query, id)

    def schema_of_guid(self, guid: UUID) -> RegisteredSchema:
        """The schema of a GUID, which is the same in all registries; kept once known."""
        return self._known(("guid", guid), f"schemas/guids/{guid}", {})

    def version(
        self, subject: str, version: int | str = _LATEST, *, deleted: bool = False
    ) -> RegisteredSchema:
        """A version of a subject, or its latest one; also a deleted one if `deleted`."""
        query = {"deleted": "true"} if deleted else {}
        path = f"subjects/{quoted(subject)}/versions/{version}"
        return self._registered(self.request("GET", path, **query))

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of the versions of a subject, in ascending order."""
        query = {"deleted": "true"} if deleted else {}
        return self._listed(int, "GET", f"subjects/{quoted(subject)}/versions", **query)

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The names of all subjects, or of all that begin with a prefix."""
        query = {"deleted": "true"} if deleted else {}
        if prefix:
            query["subjectPrefix"] = prefix
        return self._listed(str, "GET", "subjects", **query)

    def register(
        self,
        subject: str,
        text: str,
        format: Format = Format.AVRO,
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> int:
        """Register a schema under a subject, unless it is registered; returns its id."""
        query = {"normalize": "true"} if normalize else {}
        body = _body(text, format, references)
        answer = self.request("POST", f"subjects/{quoted(subject)}/versions", body, **query)
        id = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(id, int):
            raise self._unusual(answer)
        self._failures.forget(("id", id, _context(subject)))
        return id

    def incompatibilities(
        self,
        subject: str,
        text: str,
        format: Format = Format.AVRO,
        references: Sequence[SchemaReference] = (),
        version: int | str | None = None,
    ) -> list[str]:
        """Why a schema may not be registered under a subject; empty if it may.

        Compared with one version, or by default with the versions that the level says.
        """
        path = f"compatibility/subjects/{quoted(subject)}/versions"
        if version is not None:
            path += f"/{version}"
        answer = self.request("POST", path, _body(text, format, references), verbose="true")
        if not isinstance(answer, dict) or "is_compatible" not in answer:
            raise self._unusual(answer)
        if answer["is_compatible"]:
            return []
        messages = answer.get("messages")
        found = list(map(str, messages)) if isinstance(messages, list) else []
        return found or ["the schema is incompatible"]

    def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a version of a subject, or all; returns the numbers of the deleted versions.

        A permanent deletion is of what has been deleted before.
        """
        query = {"permanent": "true"} if permanent else {}
        path = f"subjects/{quoted(subject)}"
        if version is None:
            return self._listed(int, "DELETE", path, **query)
        deleted = self.request("DELETE", f"{path}/versions/{version}", **query)
        if not isinstance(deleted, int):
            raise self._unusual(deleted)
        return [deleted]

    def dependencies(
        self, references: Sequence[SchemaReference], subject: str = ""
    ) -> list[Dependency]:
        """All schemas that references lead to, each once, and the innermost first.

        They are in the context of a subject. Raises SchemaError for too many, or for a circle.
        """
        found: dict[str, Dependency] = {}
        self._collect(references, _context(subject), found, ())
        return list(found.values())

    def close(self) -> None:
        """Close the idle connections; later requests open new ones."""
        for endpoint in self._endpoints:
            endpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _collect(
        self,
        references: Sequence[SchemaReference],
        context: str,
        found: dict[str, Dependency],
        path: tuple[tuple[str, int], ...],
    ) -> None:
        for reference in references:
            if reference.name in found:
                continue
            place = reference.subject, reference.version
            if place in path:
                raise SchemaError(f"{reference.subject} refers to itself")
            if len(path) >= _DEEPEST or len(found) >= _MOST_DEPENDENCIES:
                raise SchemaError(
                    f"more than {_MOST_DEPENDENCIES} references, or {_DEEPEST} one in another"
                )
            schema = self._referenced(reference, context)
            self._collect(schema.references, context, found, (*path, place))
            found[reference.name] = Dependency(reference.name, schema.text)

    def _referenced(self, reference: SchemaReference, context: str) -> RegisteredSchema:
        subject = reference.subject
        if context and not subject.startswith(":."):
            subject = f":{context}:{subject}"
        if reference.version == _LATEST_NUMBER:
            return self.version(subject, deleted=True)
        path = f"subjects/{quoted(subject)}/versions/{reference.version}"
        return self._known(("version", subject, reference.version), path, {"deleted": "true"})

    def _known(
        self, key: Hashable, path: str, query: Mapping[str, str], id: int | None = None
    ) -> RegisteredSchema:
        kept = self._schemas.get(key)
        if kept is not None:
            return kept
        self._failures.check(key)
        try:
            schema = self._registered(self.request("GET", path, **query), id)
        except (RegistryRefused, ConnectionFailure) as error:
            self._failures.remember(key, error)
            raise
        self._schemas.keep(key, schema)
        return schema

    def _listed(self, kind: type[T], method: str, path: str, **query: str) -> list[T]:
        answer = self.request(method, path, **query)
        if not isinstance(answer, list) or not all(isinstance(each, kind) for each in answer):
            raise self._unusual(answer)
        return answer

    def _unusual(self, answer: Any) -> CliError:
        shown = str(answer)[:_SHOWN_CHARACTERS]
        return CliError(f"{self.url} does not answer as a schema registry does: {shown}")

    def _registered(self, fields: Any, id: int | None = None) -> RegisteredSchema:
        try:
            guid = fields.get("guid")
            return RegisteredSchema(
                text=_text(fields["schema"]),
                format=Format(fields.get("schemaType") or Format.AVRO),
                references=tuple(
                    SchemaReference(each["name"], each["subject"], each["version"])
                    for each in fields.get("references") or ()
                ),
                id=fields.get("id", id),
                guid=None if guid is None else UUID(guid),
                subject=fields.get("subject"),
                version=fields.get("version"),
                _resolve=partial(self.dependencies, subject=fields.get("subject") or ""),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CliError(f"{self.url} answers with no schema that is known: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedValue:
    """A key or value that names its schema. With `error`, there is no value."""

    value: Any = None
    """Of types that JSON has."""
    error: str | None = None
    id: int | None = None
    guid: UUID | None = None
    name: str | None = None
    """The full name of the record or message, if the schema gives one."""
    schema: RegisteredSchema | None = None
    """None if the registry does not know it."""

    @property
    def reference(self) -> str:
        """The id or GUID, as people are shown it."""
        return f"id {self.id}" if self.guid is None else f"GUID {self.guid}"


class Decoder:
    """Decodes keys and values whose prefix or header names a schema of a registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry

    def decoded(
        self, data: bytes | None, *, is_key: bool, headers: Iterable[tuple[str, bytes | None]] = ()
    ) -> DecodedValue | None:
        """The value of a key or value; None if it names no schema.

        Whatever hinders it is the result's `error`: a registry that is gone, an unknown schema,
        or a payload that does not belong to its schema.
        """
        if data is None:
            return None
        found = framed(data, KEY_SCHEMA_ID if is_key else VALUE_SCHEMA_ID, headers)
        if found is None:
            return None
        try:
            schema = self._schema(found)
        except RegistryRefused as error:
            text = _unknown(found) if error.status == _NOT_FOUND else str(error)
            return DecodedValue(error=text, id=found.id, guid=found.guid)
        except CliError as error:
            return DecodedValue(error=str(error), id=found.id, guid=found.guid)
        value, name, problem = None, None, None
        try:
            parsed = schema.parsed
            name = parsed.name()
            value = parsed.decoded(found.payload)
        except (SchemaError, ValueMismatch, CliError) as error:
            problem = str(error)
        return DecodedValue(
            value=value, error=problem, id=found.id, guid=found.guid, name=name, schema=schema
        )

    def _schema(self, found: Framed) -> RegisteredSchema:
        if found.guid is not None:
            return self.registry.schema_of_guid(found.guid)
        assert found.id is not None
        return self.registry.schema(found.id)


def parsed_schema(
    format: Format, text: str, dependencies: Sequence[Dependency] = ()
) -> ParsedSchema:
    """The schema of a new text. Raises SchemaError, also where the parsers are not installed."""
    with _parsers():
        return formats.parse(format, text, dependencies)


@contextmanager
def _parsers() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise SchemaError(f"{error}: pip install 'wirekafka[registry]'") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("its text is none")
    return value


def quoted(segment: str) -> str:
    """A subject's name as one segment of a path."""
    return quote(segment, safe="")


class _Kept:
    """The schemas that were used last, as many as fit into a number of characters."""

    def __init__(self, most_characters: int) -> None:
        self._most_characters = most_characters
        self._lock = threading.Lock()
        self._schemas: OrderedDict[Hashable, RegisteredSchema] = OrderedDict()
        self._characters = 0

    def get(self, key: Hashable) -> RegisteredSchema | None:
        with self._lock:
            schema = self._schemas.get(key)
            if schema is not None:
                self._schemas.move_to_end(key)
            return schema

    def keep(self, key: Hashable, schema: RegisteredSchema) -> None:
        with self._lock:
            replaced = self._schemas.pop(key, None)
            self._characters += len(schema.text) - (len(replaced.text) if replaced else 0)
            self._schemas[key] = schema
            while len(self._schemas) > _KEPT_SCHEMAS or self._characters > self._most_characters:
                _, oldest = self._schemas.popitem(last=False)
                self._characters -= len(oldest.text)


class _Failures:
    """Failed look-ups, remembered for seconds: a reader of many records asks once for an id."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._unknown: OrderedDict[Hashable, tuple[float, CliError]] = OrderedDict()
        self._unreachable: tuple[float, CliError] | None = None

    def check(self, key: Hashable) -> None:
        """Raise the error of a look-up that failed a moment ago."""
        for found in (self._unreachable, self._unknown.get(key)):
            if found is not None and self._now_s() < found[0]:
                raise found[1].with_traceback(None)

    def remember(self, key: Hashable, error: CliError) -> None:
        if isinstance(error, ConnectionFailure):
            self._unreachable = self._now_s() + _UNREACHABLE_FOR_S, error
            return
        with self._lock:
            self._unknown[key] = self._now_s() + _UNKNOWN_FOR_S, error
            while len(self._unknown) > _KEPT_FAILURES:
                self._unknown.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        with self._lock:
            self._unknown.pop(key, None)


def _body(text: str, format: Format, references: Sequence[SchemaReference]) -> dict[str, Any]:
    """A schema as registries take it: Avro is the default, which old ones do not know by name."""
    body: dict[str, Any] = {"schema": text}
    if format is not Format.AVRO:
        body["schemaType"] = format.value
    if references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in references
        ]
    return body


def _context(subject: str) -> str:
    """The context of a subject such as `:.context:name`, in which ids are unique."""
    return subject.split(":")[1] if subject.startswith(":.") else ""


def _unknown(found: Framed) -> str:
    if found.guid is not None:
        return f"the registry has no schema with GUID {found.guid}"
    return f"the registry has no schema with id {found.id}"
