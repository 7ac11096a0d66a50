"""Who may do what in a registry: the operations of its requests, by the names Confluent uses."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

from starlette.requests import Request


class RegistryOperation(StrEnum):
    """What a request does, to a subject or to the whole registry."""

    SUBJECT_READ = "SUBJECT_READ"
    SUBJECT_WRITE = "SUBJECT_WRITE"
    SUBJECT_DELETE = "SUBJECT_DELETE"
    SCHEMA_READ = "SCHEMA_READ"
    """Read a schema by its id or GUID: allowed with any subject that has the schema."""
    SUBJECT_COMPATIBILITY_READ = "SUBJECT_COMPATIBILITY_READ"
    """Read the configuration or the mode of a subject."""
    SUBJECT_COMPATIBILITY_WRITE = "SUBJECT_COMPATIBILITY_WRITE"
    GLOBAL_COMPATIBILITY_READ = "GLOBAL_COMPATIBILITY_READ"
    GLOBAL_COMPATIBILITY_WRITE = "GLOBAL_COMPATIBILITY_WRITE"
    GLOBAL_SUBJECTS_READ = "GLOBAL_SUBJECTS_READ"
    """List subjects or contexts; the answer has the subjects with SUBJECT_READ only."""


class RegistryPermissions(Protocol):
    """Decides about the user of a request."""

    async def authorize(
        self, request: Request, operation: RegistryOperation, subject: str | None
    ) -> None:
        """Raise RegistryError 401, or 403 (40301), unless the user may do it.

        The subject has no context (`:.context:`) in front: it is a topic's by its strategy.
        """

    async def readable(self, request: Request, subjects: Collection[str]) -> Collection[str]:
        """The subjects of which the user has SUBJECT_READ, for answers that list many.

        Raises RegistryError 401.
        """
