"""One request of the API: its variables, parameters and body, and the registry that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from wirekafka.registry import errors, subjects
from wirekafka.registry.access import RegistryOperation, RegistryPermissions
from wirekafka.registry.http import bodies
from wirekafka.registry.parsing import SchemaParser
from wirekafka.registry.records import SchemaRecord
from wirekafka.registry.registration import SchemaRequest
from wirekafka.registry.state import RegistryState
from wirekafka.registry.subjects import DEFAULT_CONTEXT, context_of, qualified
from wirekafka.registry.writer import Decision, Writer

T = TypeVar("T")
_UNKNOWN_PROPERTIES = "confluent-accept-unknown-properties"


@dataclass(frozen=True, slots=True)
class Registry:
    """What all requests share."""

    writer: Writer
    parser: SchemaParser
    access: RegistryPermissions | None
    threads: asyncio.Semaphore
    """How many requests may parse at once: the others wait, and the loop goes on."""
    cluster_id: str
    group_id: str


@dataclass(frozen=True, slots=True)
class RegistryCall:
    """A request that has a route."""

    registry: Registry
    request: Request
    variables: Mapping[str, str]
    context: str | None
    """From `/contexts/{context}` in front of the path."""
    body: bytes = field(default=b"", repr=False)

    @property
    def state(self) -> RegistryState:
        """All that the registry has read."""
        return self.registry.writer.state()

    async def submit(self, decision: Decision[T]) -> T:
        """Write what is decided on the newest state."""
        return await self.registry.writer.submit(decision)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that parses schemas."""
        async with self.registry.threads:
            return await asyncio.to_thread(work)

    # Permissions.

    async def require(self, operation: RegistryOperation, subject: str | None = None) -> None:
        """Raise RegistryError 401 or 403 unless the user may do it."""
        if self.registry.access is not None:
            name = None if subject is None else qualified(subject).name
            await self.registry.access.authorize(self.request, operation, name)

    async def readable(self, records: Sequence[SchemaRecord]) -> Sequence[SchemaRecord]:
        """The versions of subjects that the user may read."""
        allowed = set(await self.readable_subjects([each.subject for each in records]))
        return [each for each in records if each.subject in allowed]

    async def readable_subjects(self, subjects: Sequence[str]) -> Sequence[str]:
        """The subjects that the user may read."""
        if self.registry.access is None:
            return subjects
        names = {each: qualified(each).name for each in subjects}
        allowed = await self.registry.access.readable(self.request, set(names.values()))
        return [each for each in subjects if names[each] in allowed]

    async def require_schema(self, records: Sequence[SchemaRecord]) -> None:
        """Raise RegistryError 401 or 403 unless the user may read one of a schema's subjects."""
        refused: errors.RegistryError | None = None
        for subject in dict.fromkeys(each.subject for each in records):
            try:
                return await self.require(RegistryOperation.SCHEMA_READ, subject)
            except errors.RegistryError as error:
                refused = error
        if refused is not None:
            raise refused
        await self.require(RegistryOperation.SCHEMA_READ)

    # Variables and parameters.

    def subject(self) -> str:
        """The subject of the path, or the subject that the path names by an alias."""
        name = subjects.normal(self.variables["subject"])
        alias = (self.state.config(name) or {}).get("alias")
        if not alias:
            return name
        return subjects.within(context_of(name), alias)

    def scope(self) -> str | None:
        """The subject or context of the path, whose settings it is about."""
        return subjects.normal(self.variables["subject"]) or None

    def schema_context(self) -> str:
        """The context whose ids the path means: `?subject` may name one."""
        subject = self.text("subject")
        if subject.startswith(":."):
            return context_of(subject)
        return self.context or DEFAULT_CONTEXT

    def text(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.query_params.get(name, default)

    def texts(self, name: str) -> Sequence[str]:
        """All values of a parameter."""
        return self.request.query_params.getlist(name)

    def flag(self, name: str) -> bool:
        """Whether a parameter is true."""
        return self.text(name).lower() == "true"

    def page(self, found: Sequence[T], most: int) -> Sequence[T]:
        """The part of a list that `offset` and `limit` mean."""
        offset, limit = self._number("offset", 0), self._number("limit", -1)
        wanted = limit if 0 < limit <= most else most
        start = max(offset, 0)
        return found[start : start + wanted]

    def _number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            raise errors.of_http(404, "Not Found") from None

    # The body.

    def json(self) -> Mapping[str, Any]:
        """The object of the body."""
        return bodies.decoded_object(self.body)

    @property
    def accepts_unknown(self) -> bool:
        """Whether the client expects that the registry ignores what it does not know."""
        return self.request.headers.get(_UNKNOWN_PROPERTIES, "").lower() == "true"

    async def schema_request(self) -> SchemaRequest:
        """The schema of the body, whose references the user may read."""
        request = bodies.schema_request(
            self.json(), normalize=self.flag("normalize"), accepts_unknown=self.accepts_unknown
        )
        for each in request.references:
            await self.require(RegistryOperation.SUBJECT_READ, each.subject)
        return request

    def mode_request(self) -> str:
        """The mode of the body."""
        return bodies.mode(self.json())
