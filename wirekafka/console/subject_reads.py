"""Reads of a schema registry for pages: subjects, versions, differences, and uses."""

from __future__ import annotations

import difflib
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import (
    RegisteredSchema,
    RegistryRefused,
    SchemaRegistry,
    quoted,
)
from wirekafka.console.excerpts import Excerpt, indented
from wirekafka.console.topic_reads import Seen
from wirekafka.schemas.framing import KEY_SCHEMA_ID, VALUE_SCHEMA_ID, framed
from wirekafka.schemas.schema import Format
from wirekafka.visible_text import visible

EVERY_CONTEXT = ":*:"
"""The prefix of the subjects of all contexts."""
LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
MOST_SHOWN_CHARACTERS = 1 << 20
_AT_ONCE = 4
"""Requests to the registry at a time."""
_LIST_S = 4.0
"""How long a page collects what takes a request for each line."""
_MOST_REFERRING = 50
_MOST_COMPARED_LINES = 4_000
_CONTEXT_LINES = 4
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """A subject in the list."""

    name: str
    is_deleted: bool
    versions: Sequence[int] = ()
    latest: RegisteredSchema | None = None
    level: str = ""
    """Its own compatibility level; empty where the level of all subjects counts."""
    problem: str = ""


class SubjectVersion(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int


class DifferenceLine(NamedTuple):
    """A line of a unified difference; `kind` is "+", "-", "@" or " "."""

    kind: str
    text: str


class TopicUse(NamedTuple):
    """A topic whose records a subject describes, by a strategy of naming subjects."""

    topic: str
    parts: tuple[str, ...]
    """ "key", "value", or both where the strategy leaves it open."""
    strategy: str


@dataclass(slots=True)
class SeenIds:
    """The ids in the newest records of a topic."""

    records: int = 0
    unnamed: int = 0
    """Keys or values that name no schema."""
    ids: Counter[str] = field(default_factory=Counter)
    """How many keys or values name each, as "17" or a GUID."""


def subject_names(registry: SchemaRegistry, *, with_deleted: bool) -> tuple[list[str], set[str]]:
    """The names of all subjects, and which of them are deleted. Raises CliError."""
    live = registry.subjects(EVERY_CONTEXT)
    if not with_deleted:
        return live, set()
    every = registry.subjects(EVERY_CONTEXT, deleted=True)
    return every, set(every) - set(live)


def subject_lines(
    registry: SchemaRegistry, names: Sequence[str], deleted: set[str]
) -> list[SubjectLine]:
    """The lines of some subjects; a line that takes too long has a problem."""
    until_s = time.monotonic() + _LIST_S

    def line(name: str) -> SubjectLine:
        is_deleted = name in deleted
        if time.monotonic() > until_s:
            return SubjectLine(name, is_deleted, problem="the registry is slow")
        try:
            versions = registry.versions(name, deleted=is_deleted)
            latest = registry.version(name, max(versions), deleted=True) if versions else None
            return SubjectLine(name, is_deleted, versions, latest, own_level(registry, name) or "")
        except CliError as error:
            return SubjectLine(name, is_deleted, problem=str(error))

    with ThreadPoolExecutor(_AT_ONCE, "console-registry") as threads:
        return list(threads.map(line, names))


def version_numbers(registry: SchemaRegistry, subject: str) -> tuple[list[int], set[int]]:
    """All versions of a subject, and which of them are deleted. Raises CliError."""
    every = registry.versions(subject, deleted=True)
    try:
        live = registry.versions(subject)
    except RegistryRefused as error:
        if error.status != _NOT_FOUND:
            raise
        live = []
    return every, set(every) - set(live)


def own_level(registry: SchemaRegistry, subject: str = "") -> str | None:
    """The compatibility level of a subject, None without one; of all, without a subject."""
    try:
        found = registry.request("GET", f"config/{quoted(subject)}" if subject else "config")
    except RegistryRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return None
    level = found.get("compatibilityLevel") if isinstance(found, dict) else None
    return str(level) if level else None


def mode(registry: SchemaRegistry) -> str:
    """The mode of the registry, such as READWRITE."""
    found = registry.request("GET", "mode")
    return str(found.get("mode", "")) if isinstance(found, dict) else ""


def places_of(registry: SchemaRegistry, id: int, subject: str = "") -> list[SubjectVersion]:
    """The versions that have an id in the context of a subject."""
    context = subject[: subject.index(":", 2) + 1] if subject.startswith(":.") else ""
    query = {"subject": context} if context else {}
    found = registry.request("GET", f"schemas/ids/{id}/versions", **query)
    return [SubjectVersion(str(each["subject"]), int(each["version"])) for each in found]


def referring(
    registry: SchemaRegistry, subject: str, version: int
) -> tuple[list[SubjectVersion], int]:
    """The versions that refer to a version, as many as are shown, and the number of their ids."""
    path = f"subjects/{quoted(subject)}/versions/{version}/referencedby"
    try:
        ids = registry.request("GET", path)
    except RegistryRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return [], 0  # A deleted version.
    found: list[SubjectVersion] = []
    until_s = time.monotonic() + _LIST_S
    for id in ids[:_MOST_REFERRING]:
        if time.monotonic() > until_s:
            break
        found += places_of(registry, int(id), subject)
    return found, len(ids)


def schema_text(schema: RegisteredSchema) -> str:
    """The text of a schema as it is shown: JSON with a line for each member."""
    text = schema.text
    if schema.format is not Format.PROTOBUF and len(text) <= MOST_SHOWN_CHARACTERS:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return visible(text)
        text = indented(text)
    return visible(text)


def difference(older: str, newer: str) -> list[DifferenceLine] | None:
    """The unified difference of two texts; None if they are too long to compare."""
    before, after = older.splitlines(), newer.splitlines()
    if len(before) + len(after) > _MOST_COMPARED_LINES:
        return None
    lines = difflib.unified_diff(before, after, lineterm="", n=_CONTEXT_LINES)
    # The first two lines name files.
    return [DifferenceLine(line[:1], line) for line in list(lines)[2:]]


def uses_of(subject: str, record_name: str | None, topics: Iterable[str]) -> list[TopicUse]:
    """The topics that a subject may belong to, by the strategies of naming subjects."""
    name = subject.split(":", 2)[2] if subject.startswith(":.") else subject
    known = set(topics)
    found = []
    for part in ("key", "value"):
        topic = name.removesuffix(f"-{part}")
        if topic != name and topic in known:
            found.append(TopicUse(topic, (part,), "TopicNameStrategy"))
    if record_name:
        topic = name.removesuffix(f"-{record_name}")
        if topic != name and topic in known:
            found.append(TopicUse(topic, ("key", "value"), "TopicRecordNameStrategy"))
    return found


def seen_ids(records: Iterable[Seen], parts: Sequence[str]) -> SeenIds:
    """The ids that keys and values of records name."""
    found = SeenIds()
    for seen in records:
        if seen.problem or seen.control:
            continue
        found.records += 1
        headers = [(name, None if each is None else each.data) for name, each in seen.headers]
        sides = {"key": (seen.key, KEY_SCHEMA_ID), "value": (seen.value, VALUE_SCHEMA_ID)}
        for part in parts:
            _count(found, *sides[part], headers)
    return found


def record_name(schema: RegisteredSchema) -> str | None:
    """The full name of what a schema describes; None without one, or if it cannot be parsed."""
    try:
        return schema.parsed.name()
    except Exception:  # Parsers of hostile schemas raise anything; the registry has the reason.
        return None


def _count(
    found: SeenIds, excerpt: Excerpt | None, header: str, headers: list[tuple[str, Any]]
) -> None:
    if excerpt is None:
        return
    reference = framed(excerpt.data, header, headers)
    if reference is None:
        found.unnamed += 1
    else:
        found.ids[str(reference.id if reference.guid is None else reference.guid)] += 1
